"""Vectors of bytes as two vectors of 16-bit words each: what filters of bytes calculate with.

The first vector has the first eight of every sixteen bytes, the second the others; the pack that makes bytes
of them again puts them back in order, so that nobody ever has to move bytes between a vector's quarters:

    bytes       a0 .. a7 a8 .. a15 | a16 ..        first: a0 .. a7 | a16 ..       second: a8 .. a15 | a24 ..

Neighbours along the row are not taken from other lanes, but loaded: a pixel further is `channels` bytes.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.machines.instructions import Pattern

#: The two vectors of words of a vector of bytes.
Words = tuple[Variable, Variable]
#: The same in memory.
KeptWords = tuple[Memory, Memory]


def binary(mnemonic: str) -> Pattern:
    """An instruction on two vectors, of which the second may be memory."""
    return Pattern("d:v a:v b:v|m", f"{mnemonic} %=0, %1, %2", latency=1)


def immediate(mnemonic: str, bits: int = 16) -> Pattern:
    """A shift of all numbers of so many bits."""
    return Pattern(f"d:v a:v count:i<{bits}", f"{mnemonic} %=0, %1, %2", latency=1)


PATTERNS = {
    "unpack_low": binary("vpunpcklbw"),
    "unpack_high": binary("vpunpckhbw"),
    "unpack_low_words": binary("vpunpcklwd"),
    "unpack_high_words": binary("vpunpckhwd"),
    "pair": Pattern("d:v a:v b:v|m", "vpmaddubsw %=0, %1, %2", latency=4),
    "products": Pattern("d:v a:v b:v|m", "vpmaddwd %=0, %1, %2", latency=4),
    "add_double": binary("vpaddd"),
    "xor": binary("vxorps"),
    "add": binary("vpaddw"),
    "sub": binary("vpsubw"),
    "times": Pattern("d:v a:v b:v|m", "vpmullw %=0, %1, %2", latency=4),
    "times_high": Pattern("d:v a:v b:v|m", "vpmulhuw %=0, %1, %2", latency=4),
    "least": binary("vpminuw"),
    "magnitude": Pattern("d:v a:v", "vpabsw %=0, %1", latency=1),
    "up": immediate("vpsllw"),
    "down": immediate("vpsrlw"),
    "down_signed": immediate("vpsraw"),
    "pack": binary("vpackuswb"),
    "pack_words": binary("vpackssdw"),
    "add_bytes": binary("vpaddusb"),
    "sub_bytes": binary("vpsubusb"),
    "and": binary("vandps"),
    "float": Pattern("d:v a:v", "vcvtdq2ps %=0, %1", latency=4),
    "float_magnitude": Pattern("d:v a:v", "vandps %=0, %1, %#7fffffff", latency=1),
    "scale": Pattern("d:v a:v scale:v|m", ("vmulps %=0, %1, %2", "vcvtps2dq %+0, %+0"), latency=8),
    "add_float": binary("vaddps"),
    "root": Pattern(
        "d:v a:v scale:v|m",
        ("vcvtdq2ps %=0, %1", "vsqrtps %+0, %+0", "vmulps %+0, %+0, %2", "vcvtps2dq %+0, %+0"),
    ),
}
#: One where a bit is set is added, in lanes of a mask.
_TO_EVEN = Pattern(
    "d:v a:v bit:v|m ones:v|m ~m:k", ("vptestmw %=4, %1, %2", "vmovaps %=0, %1", "vpsubw %+0{%4}, %1, %3")
)
_ALL_ONES = -1


class WordMath:
    """Emits into a builder. Constants are vectors of repeated bytes; those in `held` are in registers."""

    patterns: ClassVar[dict[str, Pattern]] = PATTERNS

    def __init__(self, b: Builder, held: dict[bytes, Variable]) -> None:
        self.b, self.held = b, held
        self.asked: dict[bytes, None] = {}
        self.wide = b.machine.name == "avx512"

    def made(self, name: str, *operands: Variable | Memory | int) -> Variable:
        """A new vector that an instruction writes."""
        found = self.b.vector(name)
        self.b.emit_template(self.patterns[name], found, *operands)
        return found

    def change(self, name: str, vector: Variable, other: Variable | Memory) -> None:
        """An instruction that changes its first operand."""
        self.b.emit_template(self.patterns[name], vector, vector, other)

    def loaded(self, words: KeptWords) -> Words:
        """Words from memory."""
        found = self.b.vector("word"), self.b.vector("word")
        for vector, place in zip(found, words, strict=True):
            self.b.emit("load", vector, place)
        return found

    def product(self, place: Memory, factors: Variable | Memory) -> Variable:
        """Words in memory times factors, sums of two products each."""
        if isinstance(factors, Variable):
            return self.made("products", factors, place)
        words = self.b.vector("word")
        self.b.emit("load", words, place)
        return self.made("products", words, factors)

    def both(self, name: str, first: Words, *more: Words | KeptWords | Memory | Variable | int) -> Words:
        """The same instruction on both vectors."""
        halves = [[operand[n] if isinstance(operand, tuple) else operand for operand in more] for n in (0, 1)]
        low, high = (self.made(name, first[n], *halves[n]) for n in (0, 1))
        return low, high

    def repeated(self, content: bytes) -> Variable | Memory:
        """A constant in every lane."""
        self.asked[content] = None
        if content in self.held:
            return self.held[content]
        return self.b.data(content * (self.b.machine.vector_bytes // len(content)))

    def word(self, number: int) -> Variable | Memory:
        """A word in every lane."""
        return self.repeated((number & 0xFFFF).to_bytes(2, "little"))

    def words(self, first: int, second: int) -> Variable | Memory:
        """Two words in turn."""
        return self.repeated(b"".join((number & 0xFFFF).to_bytes(2, "little") for number in (first, second)))

    def float(self, number: float) -> Variable | Memory:
        """A number of f32 in every lane."""
        return self.repeated(struct.pack("<f", number))

    def zero(self) -> Variable | Memory:
        """Zeros."""
        return self.repeated(b"\0")

    def widened(self, a: Variable, b: Variable | Memory | None = None) -> Words:
        """Bytes of a as words, or with those of b in the upper halves of the words."""
        other = self.zero() if b is None else b
        return self.made("unpack_low", a, other), self.made("unpack_high", a, other)

    def more(self, total: Words | None, words: Words, *, positive: bool) -> Words:
        """Words added to a total or, if not `positive`, subtracted from it; None is a total of nothing."""
        if total is None and positive:
            return words
        if total is None:
            nought = self.b.vector("nought")
            self.b.emit("zero", nought)
            total = nought, nought
        return self.both("add" if positive else "sub", total, words)

    def scaled(self, words: Words, factor: int) -> Words:
        """Words times a whole number above zero."""
        if factor == 1:
            return words
        if factor & factor - 1 == 0:
            return self.both("up", words, factor.bit_length() - 1)
        return self.both("times", words, self.word(factor))

    def divided(self, words: Words, shift: int, rounding: int, *, signed: bool) -> Words:
        """Words divided by a power of two, rounded to even.

        With half - 1 added and then the lowest bit of the quotient, what lies in the middle goes up only
        where the quotient is odd; what lies above goes up in either case.
        """
        if not shift:
            return words
        if rounding:
            words = self.both("add", words, self.word(rounding))
        if self.wide:
            found = self._evened(words[0], shift), self._evened(words[1], shift)
        else:
            bits = self.both("and", self.both("down", words, shift), self.word(1))
            found = self.both("add", words, bits)
        return self.both("down_signed" if signed else "down", found, shift)

    def _evened(self, vector: Variable, shift: int) -> Variable:
        found = self.b.vector("evened")
        self.b.emit_template(_TO_EVEN, found, vector, self.word(1 << shift), self.word(_ALL_ONES))
        return found


def in_registers(b: Builder, contents: list[bytes]) -> dict[bytes, Variable]:
    """Constants loaded before a loop, for `WordMath`."""
    held = {}
    for content in contents:
        held[content] = b.vector("constant")
        b.emit("load", held[content], b.data(content * (b.machine.vector_bytes // len(content))))
    return held
