"""How few exchanges there can be: bounds that hold for one-hop rounds, and for every sequence of exchanges.

An exchange is one instruction in which every lane offers at most one word and takes at most one.

*One hop.* Where words come straight from their holders, a lane takes from one lane at a time, so the busiest
lane takes the sum over its peers of ceil(bytes / 4) words, remote bytes only.

*Any sequence.* Lanes may relay what they took, and many may take what one offers, so only what must cross a
cut counts. Each exchange brings a lane at most 32 bits, so a lane needs as many exchanges as words hold the
elements that it lacks. And each exchange carries at most one word out of every lane: if the lanes of a set
are the only holders of elements that others need, these elements leave it in no fewer exchanges than
ceil(bits / (32 x lanes of the set)). For a set of one lane that is its own words; where elements have several
holders, the sets that matter are the holders of each element.

    >>> one_hop_minimum(relate(c_of_s8, b_of_s8)), lower_bound(relate(c_of_s8, b_of_s8))
    (4, 4)

Elements are counted once per lane, in the narrower of their types on the two sides: they may be narrowed
before they travel and copied on arrival. Both bounds are per lane of the warp and for the whole tile.

*Selects and permutes.* Shuffles bring words as they are, so whatever a destination register takes from
several source registers, in all lanes together, has to be put together from them, before or after it
travels. A select or a permute makes one word of two, which is at most one bit of information about where each
of its elements was (Floyd, as in schedule/demands.py): a register fed evenly by eight others takes three.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts.elements import REGISTER_BITS
from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTE = 8
# what sums of logarithms may be too large by
_ROUNDING = 1e-6


def one_hop_minimum(relation: Relation, *, local: bool = False) -> int:
    """Rounds that no exchange without relays can undercut, each element taken from its nearest holder.

    With `local`, what a lane has takes rounds too.
    """
    taken = _taken(relation)
    if not local:
        taken = np.where(np.eye(relation.lanes, dtype=bool), 0, taken)
    return int((-(-taken * _bits(relation) // REGISTER_BITS)).sum(axis=1).max())


@lru_cache(maxsize=2)
def _taken(relation: Relation) -> NDArray[np.int64]:
    """`[lanes, peers]`: the elements that a lane takes from each; what it needs in several slots once."""
    lanes = relation.lanes
    owner = np.arange(lanes)[:, None]
    pairs = owner * lanes + relation.peers
    if not relation.destination.bijective:
        table = relation.destination.table[:lanes]
        _, first = np.unique(owner * relation.destination.elements + table, return_index=True)
        pairs = pairs.ravel()[first]
    return np.bincount(pairs.ravel(), minlength=lanes * lanes).reshape(lanes, lanes)


@lru_cache(maxsize=4)
def least_merges(relation: Relation, *, any_packing: bool = False) -> int:
    """Selects and permutes that no sequence of shuffles undercuts; 0 where that is not known.

    Elements that are packed are in words in order, or as all lanes want them: what lies first in a word of
    the destination then says which word it is. With `any_packing` they may be packed otherwise, if all lanes
    do it alike: then who knows the word knows an element up to the places of a word.
    """
    size = relation.destination.element_type.per_register
    once = relation.replicated is None and relation.destination.bijective
    if not once or _bits(relation) < _BYTE or relation.items.shape[1] % size:
        return 0
    bits = _entropies(relation.items // size, size).sum()
    if relation.packing is not None and bits:
        if any_packing:
            packed = np.maximum(_entropies(relation.items, size) - math.log2(size), 0)
        else:
            packed = _entropies(relation.items[:, ::size], 1)
        bits = min(bits, packed.sum())
    return math.ceil(bits - _ROUNDING)


def _entropies(sources: NDArray[np.integer], size: int) -> NDArray[np.float64]:
    """The bits that it takes to say of which source an element of each `size` columns is."""
    lanes, columns = sources.shape
    count, every = int(sources.max()) + 1, lanes * size
    register = np.arange(columns) // size
    counts = np.bincount((sources + register * count).ravel(), minlength=columns // size * count)
    number = np.flatnonzero(counts)
    some = counts[number]
    return np.bincount(number // count, some * np.log2(every / some)) / every


def lower_bound(relation: Relation) -> int:
    """Exchanges that no sequence can undercut, relays and broadcasts permitted."""
    holds, needs = (
        _members(layout.table, layout.elements) for layout in (relation.source, relation.destination)
    )
    bits = _bits(relation)
    most = -(-int((needs & ~holds).sum(axis=1).max()) * bits // REGISTER_BITS)
    # eight lanes to a byte: who holds and who needs each element
    holders, needers = np.packbits(holds, axis=0).T, np.packbits(needs, axis=0).T
    for members in np.unique(holders[(needers & ~holders).any(axis=1)], axis=0):
        inside = ~(holders & ~members).any(axis=1)
        leaving = int((inside & (needers & ~members).any(axis=1)).sum())
        most = max(most, -(-leaving * bits // (REGISTER_BITS * int(np.unpackbits(members).sum()))))
    return most


def _members(table: NDArray[np.int64], elements: int) -> NDArray[np.bool_]:
    """`[lanes, elements]`: whether a lane has the element in its row."""
    members = np.zeros((len(table), elements), dtype=bool)
    np.put_along_axis(members, table, values=True, axis=1)
    return members


def _bits(relation: Relation) -> int:
    return min(relation.source.element_type.bits, relation.destination.element_type.bits)
