"""Filters of bytes and of 16-bit pixels in whole numbers: what a kernel is generated for.

A kernel of a filter is rows of weights; rows that are multiples of one another are written once:

    1 2 1                                        -1 0 1
    2 4 2 = 1, 2, 1 times (1 2 1),  / 16         -2 0 2 = 1, 2, 1 times (-1 0 1),  / 4
    1 2 1                                        -1 0 1

    ByteFilter(channels=3, rows=((1, 2, 1),), uses=(((0, 1), (0, 2), (0, 1)),), shift=4)

Every row of an image is multiplied by each of `rows` once, and the sums of the image's rows, each times its
factor, are the response. All of it is exact in 16 bits, or 32, which `ByteFilter.fits` proves; so is what is
made of a response: divided by a power of two it is rounded to even, divided by an odd number (a mean) it
never lies in the middle of two whole numbers.
"""

from __future__ import annotations

from itertools import chain
from typing import Literal

from regweave.values import frozen

Finish = Literal["round", "magnitude", "sharpen"]

#: A byte, what 16 bits hold, and 32.
BYTE, SIGNED, UNSIGNED, LONG_SIGNED = 255, 32767, 65535, (1 << 31) - 1
#: What the instruction takes that multiplies two bytes by two weights and adds the products.
LEAST_WEIGHT, MOST_WEIGHT, MOST_PAIR = -128, 127, 128
#: Whole numbers up to here are exact in f32, and in f64.
_FLOAT, _LONG_FLOAT = 1 << 24, 1 << 53
#: Bits of the sums of 16-bit pixels.
_DOUBLE = 32
#: Subtracted from row sums that are too large for signed words.
LOWERED = 1 << 15

#: With 24 bits a quotient by less is never rounded to the other side of the middle of two whole numbers.
_MOST_DIVISOR = 1 << 14

Taps = tuple[tuple[int, int], ...]


@frozen
class ByteFilter:
    """A filter of images of interleaved bytes.

    `uses` holds per response, for each row of the kernel, which of `rows` counts there and how many times, or
    None. The first weight of a row is that of the pixel `width // 2` to the left. A response is divided by
    `2 ** shift`, or by the odd number `divisor`. Of two responses the root of the sum of squares is taken.
    With `finish` "magnitude" negative responses turn positive; with "sharpen" the result is twice the pixel
    in the middle less the response. The response of a `wide` filter has 32 bits. The pixels of a `deep` one
    have 16 bits, and all of its sums 32.
    """

    channels: int
    rows: tuple[tuple[int, ...], ...]
    uses: tuple[tuple[tuple[int, int] | None, ...], ...]
    shift: int = 0
    divisor: int = 1
    finish: Finish = "round"
    wide: bool = False
    deep: bool = False

    @property
    def element(self) -> int:
        """Bytes of a channel of a pixel."""
        return 2 if self.deep else 1

    @property
    def most(self) -> int:
        """The largest number that a channel of a pixel can have."""
        return UNSIGNED if self.deep else BYTE

    @property
    def width(self) -> int:
        """Pixels of a row of weights."""
        return len(self.rows[0])

    @property
    def height(self) -> int:
        """Rows of the kernel."""
        return len(self.uses[0])

    @property
    def left(self) -> int:
        """Bytes that the kernel reaches to the left."""
        return self.width // 2 * self.channels * self.element

    @property
    def right(self) -> int:
        """Bytes that the kernel reaches to the right."""
        return (self.width - 1) * self.channels * self.element - self.left

    @property
    def negative(self) -> bool:
        """Whether a response can be below zero."""
        return any(weight < 0 for weight in chain(*self.rows)) or any(
            use is not None and use[1] < 0 for uses in self.uses for use in uses
        )

    @property
    def largest(self) -> int:
        """The largest magnitude that a response can have, and any part of its sum."""
        sums = [sum(map(abs, row)) for row in self.rows]
        return self.most * max(
            sum(sums[use[0]] * abs(use[1]) for use in uses if use is not None) for uses in self.uses
        )

    @property
    def rounding(self) -> int:
        """What is added to a response before it is divided."""
        return self.divisor // 2 if self.divisor > 1 else (1 << self.shift >> 1) - 1 if self.shift else 0

    def lowered(self, index: int) -> bool:
        """Whether the sums of a row of weights have no room in signed words."""
        return BYTE * sum(map(abs, self.rows[index])) > SIGNED

    @property
    def offset(self) -> int:
        """What a wide response lacks because sums were lowered."""
        [uses] = self.uses
        return LOWERED * sum(use[1] for use in uses if use is not None and self.lowered(use[0]))

    def fits(self) -> bool:
        """Whether no sum leaves 16 bits, no weight a byte, and no square f32's whole numbers; of a wide
        filter, whether no row's sum leaves 16 bits, and no response f32's whole numbers; of a deep one,
        whether no sum leaves 32 bits, and no square f64's whole numbers."""
        if self.deep:
            return self._fits_deep()
        if not all(pairs_of(row) for row in self.rows):
            return False
        if self.wide:
            return self._fits_wide()
        most = SIGNED if self.negative else UNSIGNED
        if self.largest + self.rounding + 1 > most:
            return False
        if self.finish == "sharpen" and (self.negative or not self.shift):
            return False
        return len(self.uses) == 1 or len(self.uses) * self.largest**2 < _FLOAT

    def _fits_deep(self) -> bool:
        if self.wide or self.divisor >= _MOST_DIVISOR:
            return False
        signed = self.negative or self.divisor > 1
        if self.largest + self.rounding + 1 >= 1 << (_DOUBLE - 1 if signed else _DOUBLE):
            return False
        if self.finish == "sharpen" and (self.negative or not self.shift):
            return False
        return len(self.uses) == 1 or len(self.uses) * self.largest**2 < _LONG_FLOAT

    def _fits_wide(self) -> bool:
        if len(self.uses) > 1 or self.finish == "sharpen" or self.divisor >= _MOST_DIVISOR:
            return False
        factors = [abs(use[1]) for use in chain(*self.uses) if use is not None]
        if max(factors) > SIGNED or max(self.largest, LOWERED * sum(factors)) > _FLOAT:
            return False
        return all(BYTE * sum(map(abs, row)) <= (UNSIGNED if min(row) >= 0 else SIGNED) for row in self.rows)


def pairs_of(row: tuple[int, ...]) -> list[Taps]:
    """The weights of a row that are not zero, by twos as one instruction multiplies them, with their places;
    none where that cannot be.

    >>> pairs_of((1, 2, 1))
    [((0, 1), (2, 1)), ((1, 2),)]
    """
    taps = sorted(
        ((place, weight) for place, weight in enumerate(row) if weight), key=lambda tap: abs(tap[1])
    )
    single = taps.pop() if len(taps) % 2 else None
    half = len(taps) // 2
    equal = [abs(weight) for _, weight in taps]
    if equal[0::2] == equal[1::2]:
        pairs = [tuple(taps[at : at + 2]) for at in range(0, len(taps), 2)]
    else:
        pairs = list(zip(taps[:half], reversed(taps[half:]), strict=True))
    found: list[Taps] = [tuple(pair) for pair in pairs]
    if single is not None:
        found.append((single,))
    for pair in found:
        weights = [weight for _, weight in pair]
        if min(weights) < LEAST_WEIGHT or max(weights) > MOST_WEIGHT:
            return []
        if sum(abs(weight) for weight in weights) > MOST_PAIR:
            return []
    return found
