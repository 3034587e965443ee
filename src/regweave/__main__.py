"""`python -m regweave` is the program `regweave`; Ctrl-C while it still loads ends it as it does later.

Loading takes a tenth of a second, in which a person who mistyped a command is likely to press the keys. What
loads is imported within `main`, so that an interrupt there becomes a word and an exit code, not a traceback.
"""

import sys


def main() -> int:
    """Load the program, run it on the command line's words and return its exit code."""
    try:
        from regweave.cli.app import main as program

        return program()
    except (KeyboardInterrupt, RuntimeError) as error:
        # an interrupt while a class is made is wrapped by Python
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
