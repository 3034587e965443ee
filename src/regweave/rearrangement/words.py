"""The relation of words: what a warp exchanges are registers, not elements.

For 32-bit elements the words are the elements. Where f32 accumulators become f16 operands, each destination
register is two accumulators; if the pairs are the same in all lanes, packing them first makes words that
then move as a whole:

    >>> packed_contents(relate(c.repeat(1, 2), a_of_f16))
    ((0, 1), (2, 3), (4, 5), (6, 7))

Where they are not, words must be put together and taken apart (parts.py, schedule/travel.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.parts import NOTHING, Contents, Parts, plain_contents
from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Words:
    """`peers[lane, r]` and `words[lane, r]`: the lane and its word that becomes destination word r.

    Both are -1 where the source has more words than the destination. `contents[q]` lists the source items
    that word q is made of; it is empty where the destination has more words than the source.
    """

    peers: NDArray[np.int64]
    words: NDArray[np.int64]
    contents: Contents

    @property
    def lanes(self) -> int:
        """Lanes that take part."""
        return self.peers.shape[0]

    @property
    def count(self) -> int:
        """Words per lane, those of the destination or of the source if it has more."""
        return self.peers.shape[1]


def whole_words(parts: Parts) -> Words | None:
    """The relation of parts as one of words, if parts are words."""
    return Words(parts.peers[..., 0], parts.words[..., 0], parts.contents) if parts.per_word == 1 else None


def packed_contents(relation: Relation) -> Contents | None:
    """How the source's items share words: as the destination wants them, if all lanes want the same.

    Items that are in words already stay there.
    """
    if relation.packing is None:
        return plain_contents(relation)
    size = relation.destination.element_type.per_register
    lanes, items = relation.items.shape
    padded = np.full((lanes, -(-items // size) * size), NOTHING)
    padded[:, :items] = relation.items
    words = np.unique(padded.reshape(-1, size), axis=0)
    held = words[words >= 0]
    if len(np.unique(held)) != len(held):
        return None
    found = tuple(tuple(item for item in word if item >= 0) for word in words.tolist())
    return tuple(sorted(found))
