"""The relation of words: what a warp exchanges are registers, not elements.

For 32-bit elements the words are the elements. Where f32 accumulators become f16 operands, each destination
register is two accumulators; if the pairs are the same in all lanes, packing them first makes words that
then move as a whole:

    >>> find_words(relate(c.repeat(1, 2), a_of_f16)).contents
    ((0, 1), (2, 3), (4, 5), (6, 7))

Where they are not, a register would have to be taken apart on arrival, and `find_words` says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Words:
    """`peers[lane, r]` and `words[lane, r]`: the lane and its word that becomes destination word r.

    `contents[q]` lists the source items that word q is made of.
    """

    peers: NDArray[np.int64]
    words: NDArray[np.int64]
    contents: tuple[tuple[int, ...], ...]

    @property
    def lanes(self) -> int:
        """Lanes that take part."""
        return self.peers.shape[0]

    @property
    def count(self) -> int:
        """Words per lane."""
        return self.peers.shape[1]


def find_words(relation: Relation) -> Words | str:
    """The relation of words, or the reason why there is none, naming the slot that stands in the way."""
    if relation.replicated is not None:
        return f"{relation.replicated}; exchanges are planned where each element is held once on both sides"
    size = relation.destination.element_type.per_register
    if relation.destination.element_type.bits > 32:
        return f"{relation.destination.dtype} elements take two registers each"
    if size == 1:
        contents = tuple((item,) for item in range(relation.source.items))
        return Words(relation.peers, relation.items, contents)
    return _packed_words(relation, size)


def _packed_words(relation: Relation, size: int) -> Words | str:
    lanes, items = relation.peers.shape
    count = -(-items // size)
    peers = np.empty((lanes, count), dtype=np.int64)
    chosen: list[list[tuple[int, ...]]] = []
    for lane in range(lanes):
        row: list[tuple[int, ...]] = []
        for register in range(count):
            part = slice(register * size, (register + 1) * size)
            senders = set(relation.peers[lane, part].tolist())
            if len(senders) > 1:
                names = " and ".join(str(sender) for sender in sorted(senders))
                return (f"register {register} of lane {lane} needs elements of lanes {names}: a word "
                        f"would have to be taken apart")  # fmt: skip
            peers[lane, register] = senders.pop()
            row.append(tuple(relation.items[lane, part].tolist()))
        chosen.append(row)
    contents = _partition(relation, chosen, size)
    if isinstance(contents, str):
        return contents
    number = {items: index for index, items in enumerate(contents)}
    words = np.array([[number[items] for items in row] for row in chosen], dtype=np.int64)
    return Words(peers, words, contents)


def _partition(
    relation: Relation, chosen: list[list[tuple[int, ...]]], size: int
) -> tuple[tuple[int, ...], ...] | str:
    """The pairs of items that all lanes pack alike."""
    items = relation.source.items
    if relation.packing is None:  # already packed: the words are what they are
        pairs = {tuple(range(first, min(first + size, items))) for first in range(0, items, size)}
    else:
        pairs = set(chosen[0])
    for lane, row in enumerate(chosen):
        for register, group in enumerate(row):
            if group not in pairs:
                return (f"register {register} of lane {lane} needs items {group} of a lane together, which "
                        f"lie apart or in another order: a word would have to be taken apart")  # fmt: skip
    if sorted(item for group in pairs for item in group) != list(range(items)):
        return "the lanes pair their elements in different ways"
    return tuple(sorted(pairs))
