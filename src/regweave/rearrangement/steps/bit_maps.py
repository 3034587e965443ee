"""Relations that are linear over bits, as columns: what each bit of a destination slot flips in its source.

A slot's number has lane bits, bits of the byte within a word, and register bits. The s8 seam C -> A of one
16 x 32 tile, with four source items t n (tile, register bits of C) in front:

    lane bit 0 of A    flips    lane bit 1 of C
    lane bit 1         flips    item bit 2             (n)
    byte bit 0         flips    item bit 0
    byte bit 1         flips    lane bit 0

Every rearrangement is a walk from the identity, where each bit flips itself, to such a set of columns. Bytes
are the smallest pieces that travel; an element of 16 bits has one part bit (which half), one of 32 bits none.
A tile of three fragments side by side is linear in none of its bits, but it is three copies of one map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regweave.layouts.elements import REGISTER_BITS
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.subspaces import spanned


@dataclass(frozen=True)
class BitMap:
    """Columns over the bits of source slots: lane bits first, then item bits.

    `lanes`, `parts` and `registers` are the columns of the destination's lane bits, of the bits of the part
    within a word (from low to high), and of its register bits. `constant` is the source slot of slot 0.
    `copies` are the source items by which the copies of the map are moved, each taking the next registers.
    """

    lanes: tuple[int, ...]
    parts: tuple[int, ...]
    registers: tuple[int, ...]
    constant: int
    copies: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Bits of a slot's number."""
        return len(self.lanes) + len(self.parts) + len(self.registers)

    @property
    def items(self) -> tuple[int, ...]:
        """The unit vectors of the item bits."""
        return tuple(1 << bit for bit in range(len(self.lanes), self.bits))


def find_bit_map(relation: Relation) -> BitMap | None:
    """The columns of a bijection that is linear over bits; None for others, and for parts below a byte."""
    kind = relation.destination.element_type
    lanes, items = relation.peers.shape
    if relation.replicated is not None or not 8 <= kind.bits <= REGISTER_BITS:
        return None
    size = items & -items
    if lanes & (lanes - 1) or size < kind.per_register:
        return None
    copies = relation.items[0, ::size] - relation.items[0, 0]
    moved = relation.items.reshape(lanes, -1, size) - copies[:, None]
    peers = relation.peers.reshape(lanes, -1, size)
    if np.any(moved != moved[:, :1]) or np.any(peers != peers[:, :1]) or np.any(moved[:, 0] >= size):
        return None
    lane_bits, item_bits = lanes.bit_length() - 1, size.bit_length() - 1
    slots = peers[:, 0] | moved[:, 0] << lane_bits
    start = int(slots[0, 0])
    columns = [int(slots[1 << bit, 0]) ^ start for bit in range(lane_bits)]
    columns += [int(slots[0, 1 << bit]) ^ start for bit in range(item_bits)]
    if not np.array_equal(
        slots, spanned(columns[:lane_bits])[:, None] ^ spanned(columns[lane_bits:]) ^ start
    ):
        return None
    first_register = lane_bits + kind.per_register.bit_length() - 1
    return BitMap(
        tuple(columns[:lane_bits]),
        tuple(columns[lane_bits:first_register]),
        tuple(columns[first_register:]),
        start,
        tuple(copies.tolist()),
    )
