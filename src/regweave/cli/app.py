"""The program `regweave`: its verbs, and one place where every outcome becomes an exit code.

    $ regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --json | jq .strategy
    $ regweave --install-completion

Verbs are registered by name and imported when they are used (or when help needs their text), so that
`regweave --version` costs no import of the library. A verb returns its exit code, or None for 0.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    Token,
    UnusedCliTokensError,
    convert,
)

from regweave import __version__
from regweave.cli.completion import installer
from regweave.cli.failures import INTERRUPTED, OK, report_failure
from regweave.cli.output import PipeConsole, asked_width
from regweave.cli.process import Ended, drop_streams, ended_by_signals, is_stream_error, mend_streams
from regweave.cli.reflow import ReflowingFormatter
from regweave.cli.verbs import EPILOGUE, HELP, VERBS
from regweave.errors import InputError, RegweaveError
from regweave.files import file_failure


def build_app() -> App:
    """The program with its verbs."""
    app = App(
        name="regweave",
        help=HELP,
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        help_formatter=ReflowingFormatter(),
        version=__version__,
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        console=PipeConsole(width=asked_width()),
        default_parameter=Parameter(negative="", show_default=_worth_showing, converter=_converted),
    )
    for verb, (summary, examples) in VERBS.items():
        app.command(f"regweave.cli.{verb}:{verb}_command", name=verb, help=summary, help_epilogue=examples)
    app.command(installer(app), name="--install-completion", help="Install completion for this shell.")
    return app


def _worth_showing(default: object) -> str | None:
    return None if default in (False, None, ()) else str(default)


def _converted(kind: Any, tokens: Sequence[Token]) -> Any:
    """As cyclopts converts, but that whole numbers are digits (it would round 1.5, and read 1_0 and 0x2)
    and that no file is called nothing (`"$unset"` would be this folder).
    """

    def single(one: Any, word: str) -> Any:
        if one is int and not re.fullmatch(r"[+-]?[0-9]+", word):
            raise CoercionError(msg=f"{word!r} is not a whole number")
        if one is Path and not word:
            raise CoercionError(msg="a file's name is empty")
        return convert(one, (word,))

    return convert(kind, tokens, single)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program on `arguments` (default: the command line's) and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ended_by_signals():
            mend_streams()
            return _run(words)
    except (KeyboardInterrupt, Ended) as end:
        return _ended(end)
    except RuntimeError as error:  # of a signal while a class was made: Python wraps it (cached_property)
        if not isinstance(error.__cause__, (KeyboardInterrupt, Ended)):
            raise
        return _ended(error.__cause__)
    except BrokenPipeError:  # the reader has gone (`regweave ... | head`)
        return OK
    except OSError as error:
        if not is_stream_error(error):
            raise
        failure = InputError(f"cannot write the answer: {error.strerror}", where="stdout or stderr")
        return report_failure(failure, as_json=False)
    finally:
        drop_streams()


def _ended(end: KeyboardInterrupt | Ended) -> int:
    """Say that a signal ended the program; the exit code."""
    word, code = ("terminated", end.code) if isinstance(end, Ended) else ("interrupted", INTERRUPTED)
    with suppress(OSError):
        print(word, file=sys.stderr)
    return code


def _run(words: list[str]) -> int:
    as_json = "--json" in words
    try:
        code = build_app()(words)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except CycloptsError as error:
        return report_failure(_parse_failure(error), as_json=as_json)
    except RegweaveError as error:
        return report_failure(error, as_json=as_json)
    except OSError as error:
        if error.filename is not None:
            return report_failure(file_failure(error), as_json=as_json)
        if not _astray():
            raise  # not about a file that a person named
        gone = InputError("the folder that you are in was removed", where=".", fix="cd to another")
        return report_failure(gone, as_json=as_json)


def _astray() -> bool:
    """Whether the current folder is gone; names within it cannot be looked up then."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _parse_failure(error: CycloptsError) -> InputError:
    verb = " ".join(("regweave", *(error.command_chain or ())))
    what = str(error).strip()
    what = what if what.endswith("...") else what.rstrip(".")
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        own = error.argument
        if not own.tokens and error.keyword is None and not error.tokens_so_far:
            what = f"{own.name} is missing"
    elif isinstance(error, UnusedCliTokensError):
        what = "more words than expected: " + " ".join(map(repr, error.unused_tokens or ()))
    return InputError(what, where="the command line", fix=f"see `{verb} --help`")
