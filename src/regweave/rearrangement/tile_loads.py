"""Loads of a tile that lies row by row, by the widest accesses that its layout allows.

    >>> load_tile(builder, "w", layout, stride=16, lane=lane, machine=machine)

Elements that lie side by side in memory and are wanted in one lane come with one access of up to 16 bytes;
addresses of different accesses share their work, and parts of registers are put in place by byte permutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts import Layout, compose
from regweave.machines.gpu import WarpMachine
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.networks.assembling import Held, assemble
from regweave.rearrangement.shared.accesses import Accesses, find_accesses
from regweave.rearrangement.shared.addressing import lower_addresses, plan_addresses

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDTHS = (128, 64, 32, 16, 8)
_WORD = 32


def load_tile(
    builder: ProgramBuilder, memory: str, layout: Layout, stride: int, lane: Value, machine: WarpMachine
) -> list[Value]:
    """The registers of a layout's tile, as raw bits, from a global memory with rows of `stride` elements."""
    unit = min(layout.element_type.bits, _WORD)
    addresses = bit_addresses(layout, stride)
    found = widest_accesses(addresses, unit)
    held: Held = {}
    places = lower_addresses(plan_addresses(list(found.tables)), builder, lane, machine)
    for items, (address, offset) in zip(found.items, places, strict=True):
        words = builder.load(memory, address, found.bytes, offset)
        for place, item in enumerate(items):
            held[item] = words[place * unit // _WORD], place * unit % _WORD
    held = {item: held[at] for item, at in found.same.items()}
    count, size = addresses.shape[1], _WORD // unit
    wanted = [range(first, min(first + size, count)) for first in range(0, count, size)]
    return assemble(builder, wanted, held, unit)


def widest_accesses(addresses: NDArray[np.int64], unit: int) -> Accesses:
    """The widest accesses of which one width moves all that lies at these bit addresses."""
    found = (find_accesses(addresses, bits, unit) for bits in _WIDTHS if bits >= unit)
    return next(accesses for accesses in found if accesses is not None)


def bit_addresses(layout: Layout, stride: int) -> NDArray[np.int64]:
    """`[lanes, items]` bit addresses of a tile that lies row by row; 64-bit elements as two words."""
    bits = layout.element_type.bits
    row, column = np.divmod(layout.table, layout.shape[1])
    addresses = (row * stride + column) * bits
    if bits <= _WORD:
        return addresses
    halves = addresses[..., None] + np.arange(0, bits, _WORD)
    return halves.reshape(layout.lanes, -1)


def reordered(layout: Layout, order: Sequence[int], axis: int) -> Layout:
    """The layout whose position p along an axis holds what is at `order[p]`."""
    places = list(np.indices(layout.shape))
    places[axis] = np.asarray(order)[places[axis]]
    return compose(layout, (places[0] * layout.shape[1] + places[1]).ravel())
