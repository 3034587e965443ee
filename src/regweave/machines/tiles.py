"""Vector registers as tiles: a processor seen as a warp whose lanes are the 32-bit positions of a register.

`avx512.rows:4` is four registers with one row of a 4 x 16 tile each, lane = column; `avx512.columns:4` four
registers with one column each, lane = row. So a transposition of a 16 x 16 tile is the rearrangement from
`avx512.rows:16` to `avx512.columns:16`. Narrow elements share a lane: `avx512.rows.f16:4` is a tile of
4 x 32, lane 0 holding columns 0 and 1. Other types of 32, 16 and 8 bits have the same slots:
`avx512.rows:4@s32`. f64 is not here, for it lies in two of these lanes.

Larger tiles are these side by side, as with any fragment.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from regweave.layouts import Layout, element_type
from regweave.machines.gpu import StepCosts, WarpMachine
from regweave.machines.machine import RegisterClass
from regweave.machines.ondemand import Entry, OnDemand
from regweave.machines.picks import Picks

_TYPES = ("f32", "f16", "s8")


def tile_layouts(machine: str, lanes: int, registers: int) -> OnDemand[Layout]:
    """Tiles of 1 to `registers` vector registers of `lanes` 32-bit lanes, by rows and by columns."""
    entries = {}
    for kind in ("rows", "columns"):
        for dtype in _TYPES:
            start = f"{machine}.{kind}" + ("" if dtype == "f32" else f".{dtype}")
            for count in range(1, registers + 1):
                name = f"{start}:{count}"
                make = partial(_tile, name, kind, lanes, count, dtype)
                entries[name] = Entry({machine: "native"}, lanes, make)
    return OnDemand(entries)


def vector_machine(
    name: str,
    family: str,
    title: str,
    lanes: int,
    vectors: RegisterClass,
    picks: Picks,
    layouts: OnDemand[Layout],
) -> WarpMachine:
    """A processor as a target of rearrangements; `picks` are how it moves words between lanes.

    One result per clock is moved between lanes, where two are computed within lanes.
    """
    costs = StepCosts(
        shuffle=2, select=1, permute=2, move=1, logic=1, test=1, convert=2, shared_store=2, shared_load=1
    )
    return WarpMachine(
        name=name,
        family=family,
        title=title,
        lanes=lanes,
        classes=(vectors,),
        costs=costs,
        shuffle_widths=(lanes,),
        packings=frozenset(),
        exchanges=frozenset({"pick"}),
        shared_bytes=0,
        shared_banks=1,
        shared_widths=(4,),
        instructions=OnDemand({}),
        layouts=layouts,
        picks=picks,
    )


def _tile(name: str, kind: str, lanes: int, count: int, dtype: str) -> Layout:
    parts = element_type(dtype).per_register
    lane, register, part = np.ix_(range(lanes), range(count), range(parts))
    across = lanes * parts
    along = lane * parts + part
    table = register * across + along if kind == "rows" else along * count + register
    shape = (count, across) if kind == "rows" else (across, count)
    return Layout(name, shape, dtype, table.reshape(lanes, count * parts))
