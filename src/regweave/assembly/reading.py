"""What the two kinds of kernels share: lines of text, errors that say on which one they arose, labels.

for number, line in code_lines("add a, b  ; twice", comment=";"):
    with at_line(number, line):     # an error inside says `line 1: add a, b`
        ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from regweave.errors import AssemblyError, RegweaveError

#: Digits that a number may have: more than any has, fewer than Python reads; letters of a line in errors.
_MOST_DIGITS, _MOST_SHOWN = 400, 200
_LONG_NUMBER = re.compile(rf"\d{{{_MOST_DIGITS + 1}}}")


def code_lines(text: str, comment: str) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of every line that is more than a comment; `comment` is what begins one."""
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = re.split(comment, raw, maxsplit=1)[0].expandtabs(1).strip()
        if line:
            yield number, line


def check_digits(text: str) -> None:
    """Refuse a text with a number that nobody can mean."""
    if _LONG_NUMBER.search(text):
        raise AssemblyError(f"a number of more than {_MOST_DIGITS} digits", expected="64 bits")


@contextmanager
def at_line(number: int, line: str) -> Iterator[None]:
    """Errors from inside name this line, before the place that they name themselves."""
    if len(line) > _MOST_SHOWN:
        line = f"{line[:_MOST_SHOWN]}..."
    try:
        yield
    except RegweaveError as error:
        raise type(error)(
            error.what,
            where=f"line {number}: {line}" + (f"; {error.where}" if error.where else ""),
            expected=error.expected,
            nearest=error.nearest,
            fix=error.fix,
        ) from None


def check_label(name: str) -> str:
    """The name of a label; AssemblyError if it cannot be one."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_.$][\w.$]*", name, re.ASCII):
        raise AssemblyError(f"{name!r} cannot be a label", expected="letters, digits, underscores, dots")
    return name
