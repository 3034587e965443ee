"""Which lines a first-level cache cannot hold together, though it has several ways for them.

AMD's processors from Zen on guess a line's way from a hash of its address (M. Lipp et al., "Take A Way",
2020): bit 12 exclusive or bit 27, 13 and 26, 14 and 25, 15 and 20, 16 and 21, 17 and 22, 18 and 23, 19 and
24. Of lines of a set whose hashes are equal only the one that was used last is found at once. Measured on a
Zen 4, for every pair of bits from 12 to 31: two such lines that are read by turns take 49 cycles, others 30.

    >>> lines_clash(1 << 28), lines_clash(1 << 27)      # planes of 8192 x 8192 and of 4096 x 8192 elements
    (True, False)
"""

from __future__ import annotations

_PAIRS = ((12, 27), (13, 26), (14, 25), (15, 20), (16, 21), (17, 22), (18, 23), (19, 24))
#: Bytes after which lines share a set; so far from there two vectors that are read one after the other reach.
_SETS, _NEAR = 4096, 128


def lines_clash(distance: int) -> bool:
    """Whether lines so many bytes apart, or near lines of theirs, compete for one place of the cache."""
    pages = round(abs(distance) / _SETS)
    if pages == 0 or abs(abs(distance) - pages * _SETS) > _NEAR:
        return False
    return all((pages >> low - 12 ^ pages >> high - 12) & 1 == 0 for low, high in _PAIRS)
