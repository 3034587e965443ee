"""The relation of two layouts of one tile: which source slot feeds each destination slot.

Lane 0 of the tf32 A fragment must hold element (0, 4) as its item 2, and the C fragment has it in lane 2,
item 0: so `peers[0, 2] = 2` and `items[0, 2] = 0`. Where several source slots hold an element, a lane's
own copy is preferred.

    >>> relation = relate(c, a)
    >>> relation.peers[0].tolist(), relation.items[0].tolist()
    ([0, 0, 2, 2], [0, 2, 0, 2])

Lanes exchange whole registers, so the relation is lifted from elements to *words*: what lies together in
one destination register must come from one lane. Elements that change their type on the way (f32 accumulators
to f16 operands) are packed first, two to a word, and may be paired freely as long as all lanes pair alike.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import InputError, UnsupportedError
from regweave.layouts import ElementType, Layout
from regweave.layouts.elements import REGISTER_BITS
from regweave.programs.narrowing import NARROWINGS
from regweave.rearrangement.holders import nearest_holders
from regweave.rearrangement.remembered import table_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

# the types whose bits may be taken for one another, and the conversions that pack words
_SAME_BITS = {"f32", "tf32"}
_WORDS = {"f32": "f32", "b32": "s32"}
_PACKINGS = {(_WORDS[kind.taken], kind.dtype): opcode for opcode, kind in NARROWINGS.items()} | {
    (f"{dtype}_{half}", dtype): f"pack_{end}"
    for dtype in ("f16", "bf16")
    for half, end in (("lo", "low"), ("hi", "high"))
}


@dataclass(frozen=True, eq=False)
class Relation:
    """`peers[lane, item]` and `items[lane, item]`: the source lane and item of each destination item.

    `packing` is the opcode that packs source elements into destination words, or None where bits stay.
    """

    source: Layout
    destination: Layout
    peers: NDArray[Any]
    items: NDArray[Any]
    packing: str | None

    @property
    def lanes(self) -> int:
        """Lanes that take part."""
        return self.peers.shape[0]

    @cached_property
    def remote(self) -> NDArray[np.bool_]:
        """`[lane, item]`: whether the element comes from another lane."""
        return self.peers != np.arange(self.lanes, dtype=self.peers.dtype)[:, None]

    @cached_property
    def key(self) -> Hashable:
        """What relations of the same tables have in common."""
        return table_key(self.source), table_key(self.destination), self.packing is None

    @cached_property
    def replicated(self) -> str | None:
        """Which element is held more than once, and where; None for a bijection."""
        for layout in (self.source, self.destination):
            if not layout.bijective:
                numbers, counts = np.unique(layout.table, return_counts=True)
                row, column = divmod(int(numbers[counts > 1][0]), layout.shape[1])
                holders = ", ".join(
                    f"lane {s.lane} register {s.register}" for s in layout.slots(row, column)[:3]
                )
                return f"{layout.name} holds element ({row}, {column}) more than once: {holders}"
        return None

    @cached_property
    def in_words(self) -> Relation:
        """The relation of registers where an element takes two: both halves move alike."""
        if self.destination.element_type.registers == 1:
            return self
        halves = [in_words(layout) for layout in (self.source, self.destination)]
        peers = np.repeat(self.peers, 2, axis=1)
        items = np.stack([2 * self.items, 2 * self.items + 1], axis=2).reshape(peers.shape)
        return Relation(halves[0], halves[1], peers, items, None)


def relate(source: Layout, destination: Layout) -> Relation:
    """The relation of two layouts.

    Raises InputError if the tiles or the lanes differ, and UnsupportedError if the elements would have to
    change their type in a way that is no plain packing.
    """
    if source.shape != destination.shape:
        raise InputError(
            f"{source.name} lays out a {source.shape[0]} x {source.shape[1]} tile and {destination.name} "
            f"a {destination.shape[0]} x {destination.shape[1]} one",
            where=f"element {_first_missing(source, destination)}, which only one of them holds",
            expected="two layouts of the same tile",
            fix="repeat fragments side by side with layout.repeat(rows, columns)",
        )
    if source.lanes != destination.lanes:
        raise InputError(
            f"{source.name} has {source.lanes} lanes and {destination.name} has {destination.lanes}",
            where=f"lane {min(source.lanes, destination.lanes)}, which only one of them has",
            expected="the same lanes on both sides",
        )
    packing = _packing(source, destination)
    peers, items = nearest_holders(source, destination)
    return Relation(source, destination, peers, items, packing)


def in_words(layout: Layout) -> Layout:
    """Elements of 64 bits as two of 32 bits, side by side in a tile twice as wide; others as they are."""
    if layout.element_type.registers == 1:
        return layout
    table = np.stack([2 * layout.table, 2 * layout.table + 1], axis=2).reshape(layout.lanes, -1)
    return Layout.derived(layout.name, (layout.shape[0], 2 * layout.shape[1]), "b32", table, layout.axes)


def _first_missing(source: Layout, destination: Layout) -> tuple[int, int]:
    axis = 0 if source.shape[0] != destination.shape[0] else 1
    at = min(source.shape[axis], destination.shape[axis])
    return (at, 0) if axis == 0 else (0, at)


def _packing(source: Layout, destination: Layout) -> str | None:
    pair = source.dtype, destination.dtype
    if pair in _PACKINGS:
        return _PACKINGS[pair]
    kinds = source.element_type, destination.element_type
    raw = kinds[0].bits == kinds[1].bits and "bits" in (kinds[0].kind, kinds[1].kind)
    if pair[0] == pair[1] or set(pair) <= _SAME_BITS or raw:
        return None
    why, fix = _refusal(*kinds)
    raise UnsupportedError(
        f"{pair[0]} elements cannot become {pair[1]} on the way: {why}",
        where=f"{source.name} -> {destination.name}",
        expected="equal types, types of the same bits, or " + ", ".join(f"{a} -> {b}" for a, b in _PACKINGS),
        fix=fix.format(source=source.name, dtype=pair[1]),
    )


def _refusal(source: ElementType, destination: ElementType) -> tuple[str, str]:
    """Why one type does not become another, and what to do: the conversion is work of its own."""
    named = "convert in registers where the elements lie, and name the source {source}@{dtype}"
    if source.bits < destination.bits:
        return "wider elements would travel", "rearrange first, and convert where the elements have arrived"
    if "bits" in (source.kind, destination.kind):
        return "which bits stand for a number is for the kernel to say (a sign, a comparison)", named
    if source.kind != destination.kind:
        return "it takes a scale, which is for the kernel to say", named
    if source.bits < REGISTER_BITS:
        return "they share registers already", named
    return "no instruction does it", named
