"""The relation of words: what a warp exchanges are registers, not elements.

For 32-bit elements the words are the elements. Where f32 accumulators become f16 operands, each destination
register is two accumulators; if the pairs are the same in all lanes, packing them first makes words that
then move as a whole:

    >>> find_words(relate(c.repeat(1, 2), a_of_f16)).contents
    ((0, 1), (2, 3), (4, 5), (6, 7))

Where they are not, words must be put together and taken apart (parts.py, schedule/travel.py), and
`find_words` says which register stands in the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.parts import NOTHING, Contents, Parts, find_parts, plain_contents
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


def find_words(relation: Relation) -> Words | str:
    """The relation of words, or the reason why there is none, naming the slot that stands in the way."""
    if relation.destination.element_type.bits > 32:
        return f"{relation.destination.dtype} elements take two registers each"
    contents = packed_contents(relation)
    if contents is None:
        return _obstacle(relation)
    parts = find_parts(relation, contents)
    return whole_words(parts) or _obstacle(relation)


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


def _obstacle(relation: Relation) -> str:
    """Which register cannot be had from one word of one lane."""
    size = relation.destination.element_type.per_register
    whole = plain_contents(relation) if relation.packing is None else None
    for lane in range(relation.lanes):
        for register in range(-(-relation.destination.items // size)):
            part = slice(register * size, (register + 1) * size)
            senders = sorted(set(relation.peers[lane, part].tolist()))
            if len(senders) > 1:
                names = " and ".join(str(sender) for sender in senders)
                return (f"register {register} of lane {lane} needs elements of lanes {names}: a word "
                        f"would have to be taken apart")  # fmt: skip
            items = tuple(relation.items[lane, part].tolist())
            if items not in (whole or {tuple(relation.items[0, part].tolist())}):
                return (f"register {register} of lane {lane} needs items {items} of a lane together, which "
                        f"lie apart or in another order: a word would have to be taken apart")  # fmt: skip
    return "the lanes pair their elements in different ways"
