"""A reader's place in a pasted text: what comes next, and errors that say where they are.

    >>> cursor = Cursor("warpsPerCTA = [2, 1]", "a Triton attribute")
    >>> cursor.word(), cursor.take("="), cursor.numbers()
    ('warpsPerCTA', None, (2, 1))

Pasted text comes from other people's compilers, so nothing is guessed: whatever does not follow is an
InputError that names the line, the column and what stands there.
"""

from __future__ import annotations

import re
from typing import NoReturn

from regweave.errors import InputError

_BLANKS = re.compile(r"(?:\s|//[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][\w$.-]*")
# at most as many digits as a 64-bit number has
_NUMBER = re.compile(r"-?[0-9]{1,18}(?![0-9])")
_SHOWN = 24


class Cursor:
    """Reads `text` from left to right; `kind` names the notation in errors."""

    def __init__(self, text: str, kind: str) -> None:
        self.text, self.kind = text, kind
        self.at = 0
        self._skip()

    def sees(self, sign: str) -> bool:
        """Whether `sign` comes next."""
        return self.text.startswith(sign, self.at)

    def accept(self, sign: str) -> bool:
        """Read `sign` if it comes next."""
        if not self.sees(sign):
            return False
        self.at += len(sign)
        self._skip()
        return True

    def take(self, sign: str) -> None:
        """Read `sign`; InputError if something else comes next."""
        if not self.accept(sign):
            self.fail(f"'{sign}'")

    def match(self, pattern: re.Pattern[str], expected: str) -> str:
        """Read what `pattern` matches here; InputError if it does not."""
        found = pattern.match(self.text, self.at)
        if found is None:
            self.fail(expected)
        self.at = found.end()
        self._skip()
        return found[0]

    def word(self, expected: str = "a name") -> str:
        """Read a name: letters, digits, `_`, `.`."""
        return self.match(_WORD, expected)

    def number(self, expected: str = "a whole number") -> int:
        """Read a whole number."""
        return int(self.match(_NUMBER, expected))

    def numbers(self) -> tuple[int, ...]:
        """Read `[1, 2, 3]`."""
        self.take("[")
        values: list[int] = []
        while not self.accept("]"):
            if values:
                self.take(",")
            values.append(self.number())
        return tuple(values)

    @property
    def finished(self) -> bool:
        """Whether nothing is left."""
        return self.at == len(self.text)

    def finish(self) -> None:
        """InputError if something is left."""
        if not self.finished:
            self.fail("the end of the text")

    def place(self, at: int | None = None) -> str:
        """Where position `at` (default: here) is, for an error."""
        at = self.at if at is None else at
        line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        rest = self.text[at : at + _SHOWN].split("\n")[0]
        return f"line {line}, column {column}: {rest!r}" if rest else f"the end, line {line}, column {column}"

    def fail(self, expected: str, what: str | None = None) -> NoReturn:
        """InputError at this place."""
        raise InputError(what or f"cannot read {self.kind}", where=self.place(), expected=expected)

    def _skip(self) -> None:
        blanks = _BLANKS.match(self.text, self.at)
        assert blanks is not None
        self.at = blanks.end()
