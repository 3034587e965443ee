"""The relation of parts of words, for elements narrower than a register that do not move as whole words.

A part is the largest piece, of 1 to 32 bits, that moves as one everywhere. Two f16 elements of a register
often come from two lanes: then a part has 16 bits. In the s4 seam two neighbours stay together, so its parts
are bytes and not nibbles:

    >>> find_parts(relate(layout("mma.m16n8k64.s4:C@s4").repeat(1, 8), layout("mma.m16n8k64.s4:A"))).bits
    8

Where the elements are packed on the way (f32 accumulators that become e4m3), which of them share a word is
free, as long as all lanes do it alike; `contents` says how it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.layouts.elements import REGISTER_BITS
from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

Contents = tuple[tuple[int, ...], ...]
NOTHING = -1


@dataclass(frozen=True, eq=False)
class Parts:
    """`peers`, `words` and `places`, each `[lanes, registers, parts of a word]`.

    Part v of destination word r of a lane is part `places` of word `words` of lane `peers`; all three are -1
    where nothing is needed. `contents[q]` lists the source items that word q is made of, from low to high
    bits; it is empty where the destination has more words.
    """

    bits: int
    peers: NDArray[Any]
    words: NDArray[Any]
    places: NDArray[Any]
    contents: Contents

    @property
    def lanes(self) -> int:
        """Lanes that take part."""
        return self.peers.shape[0]

    @property
    def count(self) -> int:
        """Words per lane, those of the destination or of the source if it has more."""
        return self.peers.shape[1]

    @property
    def per_word(self) -> int:
        """Parts of a word."""
        return self.peers.shape[2]


def parts_of_words(peers: NDArray[np.int64], words: NDArray[np.int64], contents: Contents) -> Parts:
    """Whole words as parts of 32 bits."""
    places = np.where(peers < 0, NOTHING, 0)
    return Parts(REGISTER_BITS, peers[..., None], words[..., None], places[..., None], contents)


def find_parts(relation: Relation, contents: Contents | None = None) -> Parts:
    """The relation of parts, as large as they can be.

    `contents` says which source items share a word; by default they are taken in order.
    """
    size = relation.destination.element_type.per_register
    made = plain_contents(relation) if contents is None else contents
    at = np.full((relation.source.items, 2), NOTHING, dtype=np.int32)
    for word, items in enumerate(made):
        for place, item in enumerate(items):
            at[item] = word, place
    lanes, items = relation.peers.shape
    # a number stands for a source word and a destination word alike: there are as many of both
    count = max(-(-items // size), len(made))
    made += ((),) * (count - len(made))
    padded = [np.full((lanes, count * size), NOTHING, dtype=np.int32) for _ in range(3)]
    for table, values in zip(padded, (relation.peers, *np.moveaxis(at[relation.items], 2, 0)), strict=True):
        table[:, :items] = values
    peers, words, places = (table.reshape(lanes, count, size) for table in padded)
    return _coarsened(Parts(REGISTER_BITS // size, peers, words, places, made))


def plain_contents(relation: Relation) -> Contents:
    """The source items of each word in their order."""
    size = relation.destination.element_type.per_register
    items = relation.source.items
    return tuple(tuple(range(first, min(first + size, items))) for first in range(0, items, size))


def _coarsened(parts: Parts) -> Parts:
    """Neighbours joined while they stay together everywhere."""
    while parts.per_word > 1:
        low, high = (
            np.stack([table[..., half::2] for table in (parts.peers, parts.words, parts.places)])
            for half in (0, 1)
        )
        no_low, no_high = low[0] < 0, high[0] < 0
        together = (low[:2] == high[:2]).all(axis=0) & (low[2] + 1 == high[2])
        even = (no_low | (low[2] % 2 == 0)) & (no_high | (high[2] % 2 == 1))
        if not bool((even & (together | no_low | no_high)).all()):
            break
        peers, words, places = np.where(no_low, high, low)
        parts = Parts(
            parts.bits * 2, peers, words, np.where(places < 0, NOTHING, places // 2), parts.contents
        )
    return parts


def restricted(parts: Parts, lanes: Sequence[int], registers: Sequence[int]) -> tuple[NDArray[np.int64], ...]:
    """Peers and parts of a group in its own numbers: `[lanes, registers, parts]`, -1 where nothing is needed.

    A part's number is its word's number in the group times the parts of a word, plus its place.
    """
    lane_index = np.full(parts.lanes + 1, NOTHING)
    lane_index[list(lanes)] = np.arange(len(lanes))
    word_index = np.full(parts.count + 1, NOTHING)
    word_index[list(registers)] = np.arange(len(registers))
    at = np.ix_(list(lanes), list(registers))
    peers, words, places = parts.peers[at], parts.words[at], parts.places[at]
    own = np.where(peers < 0, NOTHING, word_index[words] * parts.per_word + places)
    return lane_index[peers], own
