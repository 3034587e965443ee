"""From an exception to an exit code and words a person can act on.

| code | meaning | exceptions |
|---|---|---|
| 0 | done | |
| 1 | a check failed: a result or a plan did not survive its proof | `VerificationError` |
| 2 | the input is wrong: an argument, a file, a shape | `InputError`, `ModelError`, the parser's errors |
| 3 | right, but this build or machine cannot do it | `UnsupportedError`, `DeviceError`, `AssemblyError` |
| 130 | interrupted | `KeyboardInterrupt` |
| 143 | terminated: 128 and the signal's number | `process.Ended` |

An `InputError` reads like this (no traceback, for the fault is not in the program):

    error: unknown machine 'sm_81'
      where:    --machine
      nearest:  sm_80, sm_89
      fix:      give one of them

Anything else that escapes is a bug of regweave's and keeps its traceback.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rich.text import Text

from regweave.cli.output import print_document, talk_console
from regweave.errors import InputError, RegweaveError, VerificationError

#: Letters of a text that a person is shown; of longer ones the beginning and the end.
_MOST_SHOWN = 1000
OK, CHECK_FAILED, BAD_INPUT, UNSUPPORTED, INTERRUPTED = 0, 1, 2, 3, 130


def exit_code_of(error: RegweaveError) -> int:
    """The exit code that tells a script what kind of failure `error` is."""
    if isinstance(error, VerificationError):
        return CHECK_FAILED
    return BAD_INPUT if isinstance(error, InputError) else UNSUPPORTED


def report_failure(error: RegweaveError, *, as_json: bool) -> int:
    """Say what went wrong on stderr, with `as_json` also as the document on stdout; the exit code."""
    code = exit_code_of(error)
    with suppress(OSError):  # where stderr takes no more, the code says it
        _complain(error)
    if as_json:
        print_document({"error": {"kind": type(error).__name__, **_parts(error)}, "exit_code": code})
    return code


def _complain(error: RegweaveError) -> None:
    console = talk_console()
    console.print(Text.assemble(("error: ", "bold red"), _shown(error.what)))
    for label, value in _parts(error).items():
        if label != "what" and value:
            text = ", ".join(value) if isinstance(value, list) else value
            console.print(Text.assemble((f"  {label + ':':<10}", "dim"), _shown(text)))


def _shown(text: str) -> str:
    """A text, if it is long without its middle: an argument may be a file that was pasted by mistake."""
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[: _MOST_SHOWN // 2]} ... {text[-_MOST_SHOWN // 4 :]}"


def _parts(error: RegweaveError) -> dict[str, Any]:
    return {
        "what": error.what,
        "where": error.where,
        "expected": error.expected,
        "nearest": list(error.nearest),
        "fix": error.fix,
    }
