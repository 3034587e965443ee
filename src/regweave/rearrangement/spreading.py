"""Elements of less than a byte in bytes of their own, which permutes and memory can move alone.

    even = word & 0x0f0f0f0f      odd = (word >> 4) & 0x0f0f0f0f      word = even | odd << 4

A word is spread over as many *pieces* as elements share a byte: element k lies in byte k // pieces of piece
k % pieces. Once they have arrived the pieces are joined. Seen so, a relation of half-bytes is one of bytes in
twice as many registers, which are the pieces:

    >>> in_bytes(relate(d_of_s4, a_of_s4)).destination.dtype
    'b8'
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts import Layout
from regweave.layouts.elements import REGISTER_BITS
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

BYTE = 8
_BYTES = REGISTER_BITS // BYTE


def pieces_of(bits: int) -> int:
    """How many words of whole bytes a word of elements of `bits` bits is spread over; 1 from a byte on."""
    return max(1, BYTE // bits)


def spread(builder: ProgramBuilder, word: Value, bits: int) -> list[Value]:
    """The pieces of a word; the word itself if its elements have bytes of their own."""
    if bits >= BYTE:
        return [word]
    mask = builder.constant(((1 << bits) - 1) * 0x01010101)
    pieces = []
    for shift in range(0, BYTE, bits):
        moved = builder.step("shift_right", (word, builder.constant(shift))) if shift else word
        pieces.append(builder.step("and", (moved, mask)))
    return pieces


def join(builder: ProgramBuilder, pieces: Sequence[Value], bits: int) -> Value:
    """The word of pieces that were spread."""
    word = pieces[0]
    for number, piece in enumerate(pieces[1:], start=1):
        moved = builder.step("shift_left", (piece, builder.constant(number * bits)))
        word = builder.step("or", (word, moved))
    return word


def spreading_steps(relation: Relation, bits: int) -> int:
    """Instructions that spread and join all registers, where what moves alone has `bits` bits, at least.

    0 where elements are packed on the way or held more than once: then not all registers need it.
    """
    pieces = pieces_of(bits)
    if pieces == 1 or relation.packing is not None:
        return 0
    if not (relation.source.bijective and relation.destination.bijective):
        return 0
    return (2 * pieces - 1) * relation.source.registers + 2 * (pieces - 1) * relation.destination.registers


def least_spread(relation: Relation) -> int:
    """Instructions in all that take a bijection of full registers through shared memory in bytes, at least.

    Pieces are stored and loaded 16 bytes at a time; and for a piece that is none of the source's as it stands
    some lane permutes a word, or stores it in more accesses than one.
    """
    pieces = pieces_of(relation.destination.element_type.bits)
    shape = relation.lanes, -1, _BYTES, pieces
    peers, items = relation.peers.reshape(shape), relation.items.reshape(shape)
    made = (peers[:, :, 1] != peers[:, :, 0]) | (items[:, :, 1] != items[:, :, 0] + pieces)
    accesses = sum(-(-pieces * side.registers // 4) for side in (relation.source, relation.destination))
    unit = relation.destination.element_type.bits
    return spreading_steps(relation, unit) + accesses + -(-int(made.sum()) // relation.lanes)


@lru_cache(maxsize=2)
def bytes_part(relation: Relation) -> bool:
    """Whether what shares a byte of the destination does not share one of the source, in this order.

    Where elements are packed on the way, which of them share a byte of the source is free, as long as it is
    the same in all lanes.
    """
    pieces = pieces_of(relation.destination.element_type.bits)
    if pieces == 1 or relation.destination.items % pieces:
        return False
    if relation.packing is None:
        return bits_together(relation) < BYTE
    peers, items = (table.reshape(relation.lanes, -1, pieces) for table in (relation.peers, relation.items))
    if (peers != peers[..., :1]).any():
        return True
    together = np.unique(items.reshape(-1, pieces), axis=0)
    return len(np.unique(together)) != together.size


@lru_cache(maxsize=2)
def bits_together(relation: Relation) -> int:
    """Bits, up to a byte, that stay side by side everywhere where nothing is packed."""
    bits = relation.destination.element_type.bits
    size = pieces_of(bits)
    while size > 1 and not _together(relation, size):
        size //= 2
    return size * bits


def _together(relation: Relation, size: int) -> bool:
    """Whether every `size` items of the destination are as many of the source, in this order."""
    if relation.destination.items % size:
        return False
    for lanes in (slice(1), slice(None)):  # mostly one lane tells
        peers, items = (t[lanes].reshape(-1, size) for t in (relation.peers, relation.items))
        if (peers != peers[:, :1]).any():
            return False
        if (items != items[:, :1] // size * size + np.arange(size, dtype=items.dtype)).any():
            return False
    return True


@lru_cache(maxsize=2)
def in_bytes(relation: Relation) -> Relation | None:
    """The relation of pieces, in bytes; None where a register is not full of elements.

    What is packed on the way has no pieces before it is.
    """
    size = relation.destination.element_type.per_register
    if relation.destination.items % size or (relation.packing is None and relation.source.items % size):
        return None
    order = _order(relation.destination.items, size)
    items = relation.items[:, order]
    source = relation.source
    if relation.packing is None:
        places = _order(source.items, size)
        items, source = np.argsort(places)[items], _of_pieces(source, places)
    destination = _of_pieces(relation.destination, order)
    return Relation(source, destination, relation.peers[:, order], items, relation.packing)


def _order(items: int, size: int) -> NDArray[np.int64]:
    """The item that each byte of the pieces holds, of registers of `size` items."""
    register, place = np.divmod(np.arange(items), size)
    piece, byte = np.divmod(place, _BYTES)
    return register * size + byte * (size // _BYTES) + piece


def _of_pieces(layout: Layout, order: NDArray[np.int64]) -> Layout:
    return Layout.derived(layout.name, layout.shape, "b8", layout.table[:, order], layout.axes)
