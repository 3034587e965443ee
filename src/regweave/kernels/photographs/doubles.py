"""Vectors of 16-bit numbers as two vectors of 32 bits each: what filters of 16-bit images calculate with.

It is `words` over again with everything twice as wide. Of two responses, each 18 bits, the sum of the squares
has 37: it and its root are made in f64, a quarter of the numbers at a time.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.words import PATTERNS, WordMath, Words, binary, immediate
from regweave.machines.instructions import Pattern

#: Three roundings to f32 change a quotient by less than this part of it, which is less than one.
_LESS = 2.0**-21
#: The number of the bit that says that a number is below zero.
_SIGN = 31


def _root(half: str, extract: str, insert: str) -> Pattern:
    """Root of the sum of two squares; `half` is the view of the lower half of a vector."""
    lines: list[str] = []
    for source, into in (("%1", "%4"), ("%2", "%5")):
        lines.append(f"{extract} {into.replace('%', '%=')}:{half}, {source}, 1")
        lines.append(f"vcvtdq2pd {into.replace('%', '%+')}, {into.replace('%', '%+')}:{half}")
    lines += _rooted("%4", "%5", half)
    for source, into in (("%1", "%6"), ("%2", "%5")):
        lines.append(f"vcvtdq2pd {into.replace('%', '%=')}, {source}:{half}")
    lines += _rooted("%6", "%5", half)
    lines.append(f"{insert} %=0, %6, %4:{half}, 1")
    return Pattern("d:v a:v b:v scale:v|m ~t:v ~u:v ~w:v", tuple(lines), latency=60)


def _rooted(one: str, other: str, half: str) -> list[str]:
    changed = one.replace("%", "%+")
    return [
        f"vmulpd {changed}, {changed}, {changed}",
        f"vfmadd231pd {changed}, {other}, {other}",
        f"vsqrtpd {changed}, {changed}",
        f"vmulpd {changed}, {changed}, %3",
        f"vcvtpd2dq {changed}:{half}, {changed}",
    ]


_ROOTS = {
    "avx512": _root("y", "vextracti32x8", "vinserti32x8"),
    "avx2": _root("x", "vextracti128", "vinserti128"),
}


class DoubleMath(WordMath):
    """Emits into a builder, as `WordMath` does."""

    patterns: ClassVar[dict[str, Pattern]] = PATTERNS | {
        "unpack_low": binary("vpunpcklwd"),
        "unpack_high": binary("vpunpckhwd"),
        "add": binary("vpaddd"),
        "sub": binary("vpsubd"),
        "times": Pattern("d:v a:v b:v|m", "vpmulld %=0, %1, %2", latency=4),
        "least": binary("vpminud"),
        "magnitude": Pattern("d:v a:v", "vpabsd %=0, %1", latency=1),
        "up": immediate("vpslld", 32),
        "down": immediate("vpsrld", 32),
        "down_signed": immediate("vpsrad", 32),
        "pack": binary("vpackusdw"),
        "add_bytes": binary("vpaddusw"),
        "sub_bytes": binary("vpsubusw"),
    }

    def __init__(self, b: Builder, held: dict[bytes, Variable]) -> None:
        super().__init__(b, held)
        self.wide = False
        self.machine = b.machine.name

    def word(self, number: int) -> Variable | Memory:
        """A number in every lane."""
        return self.repeated((number & 0xFFFFFFFF).to_bytes(4, "little"))

    def quotients(self, sums: Words, divisor: int) -> Words:
        """Sums below 2 ** 31 divided by an odd number, rounded; no quotient is above 65535.

        Times a factor that is a little too small the quotient is right or one too small, and what remains
        tells which.
        """
        low, high = (self.quotient(value, divisor) for value in sums)
        return low, high

    def quotient(self, value: Variable, divisor: int) -> Variable:
        """One of the two vectors of `quotients`."""
        factor = self.float((1 - _LESS) / divisor)
        near = self.made("scale", self.made("float", value), factor)
        more = self.made("sub", self.made("times", near, self.word(divisor)), value)
        below = self.made("add", more, self.word(divisor // 2))
        return self.made("sub", near, self.made("down_signed", below, _SIGN))

    def roots(self, one: Words, other: Words, scale: float) -> Words:
        """The roots of the sums of the squares, scaled and rounded."""
        factor = self.repeated(struct.pack("<d", scale))
        pattern, found = _ROOTS[self.machine], []
        for pair in zip(one, other, strict=True):
            found.append(self.b.vector("root"))
            self.b.emit_template(pattern, found[-1], *pair, factor)
        return found[0], found[1]
