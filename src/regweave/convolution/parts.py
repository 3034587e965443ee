"""Cutting a number into as few parts as a limit allows, of nearly the same size.

    32 vectors, at most 6 of them in a block     6, 6, 5, 5, 5, 5 rather than five of 6 and one of 2

A small part at the end would cost nearly as much as a whole one.
"""

from __future__ import annotations


def even_parts(count: int, most: int) -> tuple[int, ...]:
    """`count` in as few parts of at most `most` as possible, sizes differing by one at most, larger first."""
    parts = -(-count // most)
    return tuple((count + parts - 1 - part) // parts for part in range(parts))


def part_sizes(count: int, most: int) -> tuple[tuple[int, int], ...]:
    """The sizes of `even_parts`, one or two, each with how many parts have it."""
    parts = -(-count // most)
    large, more = divmod(count, parts)
    return ((large + 1, more), (large, parts - more)) if more else ((large, parts),)
