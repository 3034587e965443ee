"""What an exchange has to do: a relation of words, or of parts of words, its group, and how words are packed.

    >>> problem = find_problem(relate(c, a), lanes=32)
    >>> problem.group.lanes, problem.parts
    ((0, 1, 2, 3), None)

Layouts may be spread over several warps, as accumulators of `wgmma` are. Shuffles stay within a warp; if
every warp has the same to do within itself, one is planned for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from regweave.rearrangement.group import Group, filled_group, find_group
from regweave.rearrangement.parts import Contents, Parts, find_parts
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.slots import first_where
from regweave.rearrangement.words import Words, packed_contents, whole_words


@dataclass(frozen=True, eq=False)
class Problem:
    """Either `words` or `parts` is given; `relation` is that of one warp, in elements of at most 32 bits."""

    relation: Relation
    group: Group
    words: Words | None
    parts: Parts | None

    @property
    def contents(self) -> Contents:
        """The source items that each word is made of."""
        found = self.words or self.parts
        assert found is not None
        return found.contents


def find_problem(relation: Relation, lanes: int) -> Problem | str:
    """The problem of a relation on warps of `lanes` lanes, or why no exchange can solve it."""
    inside = within_one_warp(relation.in_words, lanes)
    if isinstance(inside, str):
        return inside
    parts = find_parts(inside, packed_contents(inside))
    words = whole_words(parts)
    if words is not None:
        return Problem(inside, find_group(words), words, None)
    return Problem(inside, filled_group(parts, find_group(parts)), None, parts)


@lru_cache(maxsize=2)
def within_one_warp(relation: Relation, lanes: int) -> Relation | str:
    """The relation of one warp, which all others repeat, or which slot stands in the way."""
    if relation.lanes <= lanes:
        return relation
    layout = relation.destination
    if relation.lanes % lanes:
        return f"{layout.name} is spread over {relation.lanes} lanes, which are no warps of {lanes}"
    shape = -1, lanes, relation.peers.shape[1]
    peers, items = relation.peers.reshape(shape), relation.items.reshape(shape)
    for warp, held in enumerate(peers):
        crossing = first_where(held // lanes != warp)
        if crossing is None:
            continue
        lane, item = crossing
        slot = layout.slot_of(warp * lanes + lane, item)
        peer = int(relation.peers[slot.lane, item])
        element = layout.element(*slot)
        return (f"lane {slot.lane} register {slot.register} needs element {element} of lane {peer}: shuffles "
                f"stay within a warp of {lanes} lanes")  # fmt: skip
    for warp in range(1, len(peers)):
        different = first_where((peers[warp] - warp * lanes != peers[0]) | (items[warp] != items[0]))
        if different is None:
            continue
        lane, item = different
        register = layout.slot_of(lane, item).register
        return f"register {register} of lane {lane} is filled differently in warps 0 and {warp}"
    return replace(relation, peers=peers[0], items=items[0])
