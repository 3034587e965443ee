"""From responses in words to bytes: divided, rounded to even, clamped.

division by an odd number d     (v + d // 2) * m >> 16 + s, with m = 2 ** (16 + s) / d rounded up
root of the sum of squares      pairs of words squared and added in 32 bits, the root in f32, scaled, rounded
sharpen                         2 x - g = (x + (x - g)) - (g - x), where a difference below zero counts as 0
"""

from __future__ import annotations

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.doubles import DoubleMath
from regweave.kernels.photographs.structure import LONG_SIGNED, SIGNED, ByteFilter
from regweave.kernels.photographs.words import WordMath, Words

_WORD = 16


def reciprocal(divisor: int, most: int) -> tuple[int, int]:
    """m and s such that v * m >> 16 + s is v // divisor for every v up to `most`, 16 bits, and m has 16 bits.

    With m * divisor = 2 ** (16 + s) + e the product is too large by v * e / divisor / 2 ** (16 + s); that
    never reaches the next whole number if v * e < 2 ** (16 + s).
    """
    shift = divisor.bit_length() - 1
    power = 1 << _WORD + shift
    factor = -(-power // divisor)
    assert factor < 1 << _WORD, "the factor has 16 bits"
    assert most * (factor * divisor - power) < power, "the quotient is exact"
    return factor, shift


def finish(math: WordMath, filter: ByteFilter, responses: list[Words], middle: Memory) -> Variable:
    """The bytes of the result; `middle` are the pixels themselves."""
    if len(responses) > 1:
        return _root(math, filter, responses)
    [words] = responses
    signed = filter.negative
    if filter.finish == "magnitude":
        words, signed = math.both("magnitude", words), False
    if isinstance(math, DoubleMath) and filter.divisor > 1:
        words = math.quotients(words, filter.divisor)
    elif filter.divisor > 1:
        factor, shift = reciprocal(filter.divisor, filter.largest + filter.rounding)
        words = math.both("add", words, math.word(filter.rounding))
        words = math.both("times_high", words, math.word(factor))
        words = math.both("down", words, shift) if shift else words
    else:
        words = math.divided(words, filter.shift, filter.rounding, signed=signed)
        if not signed and filter.largest >> filter.shift > (LONG_SIGNED if filter.deep else SIGNED):
            words = math.both("least", words, math.word(filter.most))
    packed = math.made("pack", *words)
    return _sharpened(math, packed, middle) if filter.finish == "sharpen" else packed


def _sharpened(math: WordMath, soft: Variable, middle: Memory) -> Variable:
    """Twice the pixel less `soft`."""
    pixel = math.b.vector("pixel")
    math.b.emit("load", pixel, middle)
    more = math.made("add_bytes", pixel, math.made("sub_bytes", pixel, soft))
    return math.made("sub_bytes", more, math.made("sub_bytes", soft, pixel))


def _squares(math: WordMath, pairs: Variable) -> Variable:
    """The sums of the squares of two words."""
    return math.made("products", pairs, pairs)


def finish_wide(math: WordMath, filter: ByteFilter, sums: list[Variable], offset: int) -> Variable:
    """The bytes of responses in 32 bits: four vectors, as words are unpacked twice; all lack `offset`."""
    scale = math.float(1 / filter.divisor if filter.divisor > 1 else 2.0**-filter.shift)
    whole = []
    for value in sums:
        value = math.made("float", value)
        if offset:
            value = math.made("add_float", value, math.float(offset))
        if filter.finish == "magnitude":
            value = math.made("float_magnitude", value)
        whole.append(math.made("scale", value, scale))
    words = [math.made("pack_words", *whole[at : at + 2]) for at in (0, 2)]
    return math.made("pack", *words)


def _root(math: WordMath, filter: ByteFilter, responses: list[Words]) -> Variable:
    if isinstance(math, DoubleMath):
        return math.made("pack", *math.roots(responses[0], responses[1], 2.0**-filter.shift))
    scale = math.float(2.0**-filter.shift)
    halves = []
    for one, other in zip(*responses, strict=True):
        roots = [
            math.made("root", _squares(math, math.made(name, one, other)), scale)
            for name in ("unpack_low_words", "unpack_high_words")
        ]
        halves.append(math.made("pack_words", *roots))
    return math.made("pack", *halves)
