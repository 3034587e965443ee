"""The picks of AVX-512 and AVX2: tables that follow from what an instruction does in a quarter or a half.

`unpcklps`, `unpcklpd` and `shufps` do the same in every 128 bits. `vshuff32x4` and `vperm2f128` move whole
128 bits, `vpermpd` moves 64 bits of one vector within every 256. `vpermt2ps` (AVX-512) picks any lanes of two
vectors and `vpermt2w` any half lanes; any bytes, `vpermt2b`, come with AVX-512 VBMI. `vpermps` picks any
lanes of one vector, and AVX2 needs `vblendps` beside it to put two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from regweave.machines.picks import FixedPick, Picks


def _within_quarters(lanes: int, quarter: tuple[int, ...]) -> tuple[int, ...]:
    """What happens in the first 128 bits, in all; from 4 on it is lanes of the second vector."""
    return tuple(at % 4 + start + (lanes if at >= 4 else 0) for start in range(0, lanes, 4) for at in quarter)


def _of_quarters(lanes: int, quarters: tuple[int, ...]) -> tuple[int, ...]:
    """Whole 128 bits, numbered through both vectors."""
    return tuple(4 * quarter + lane for quarter in quarters for lane in range(4))


def _fixed(lanes: int) -> Iterator[FixedPick]:
    for entry, quarter in (
        ("unpack_low", (0, 4, 1, 5)),
        ("unpack_high", (2, 6, 3, 7)),
        ("unpack_low_pairs", (0, 1, 4, 5)),
        ("unpack_high_pairs", (2, 3, 6, 7)),
    ):
        yield FixedPick(entry, None, _within_quarters(lanes, quarter))
    # two bits of the immediate for each of four places, the first in the lowest
    for number in range(256):
        a, b, c, d = (number >> shift & 3 for shift in (0, 2, 4, 6))
        yield FixedPick("shuffle_within", number, _within_quarters(lanes, (a, b, 4 + c, 4 + d)))
        pairs = tuple(2 * at + half for at in (a, b, c, d) for half in (0, 1))
        yield FixedPick("permute_pairs", number, tuple(s + at for s in range(0, lanes, 8) for at in pairs))
        if lanes == 16:
            yield FixedPick("shuffle_quarters", number, _of_quarters(lanes, (a, b, 4 + c, 4 + d)))
        else:
            straight = enumerate(range(lanes))
            yield FixedPick("blend", number, tuple(at + lanes * (number >> i & 1) for i, at in straight))
    if lanes == 8:
        for low, high in product(range(4), repeat=2):
            yield FixedPick("shuffle_halves", low | high << 4, _of_quarters(lanes, (low, high)))


AVX512_PICKS = Picks(16, tuple(_fixed(16)), any_one=True, any_two=(1, 2))
AVX512_VBMI_PICKS = Picks(16, AVX512_PICKS.fixed, any_one=True, any_two=(1, 2, 4))
AVX2_PICKS = Picks(8, tuple(_fixed(8)), any_one=True)
