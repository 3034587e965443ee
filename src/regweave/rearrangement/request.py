"""What is asked for: two layouts of one tile on a machine, from names or values.

Fragments given by name are repeated side by side until their tiles agree: the f16 seam turns two 16 x 8
accumulators into one 16 x 16 operand. Layouts given as values or pasted as text
are taken as they are, for nobody but their author knows whether they may be repeated; a pasted one whose
notation says nothing about its tile takes that of the other side.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from regweave.errors import InputError, RegweaveError, UnsupportedError
from regweave.layouts import Layout
from regweave.layouts.numbers import whole_pair
from regweave.machines.catalogue import file_machine, find_layout, find_machine, machine_names
from regweave.machines.gpu import WarpMachine
from regweave.machines.notations import is_notation
from regweave.machines.user.file import split_name

# asked first where nobody names a machine
_USUAL = "sm_80"
_WAVE = 64
_MOST_DIGITS, _MOST_SHOWN = 9, 40


@dataclass(frozen=True)
class Request:
    """Two layouts of one tile.

    `tuple_registers` is the size of the destination's aligned register tuples, `source_registers` that of the
    source's: 1 where registers belong to no tuple.
    """

    source: Layout
    destination: Layout
    machine: WarpMachine
    tuple_registers: int
    source_registers: int = 1


def layout(name: str, machine: str | None = None, *, tile: tuple[int, int] | str | None = None) -> Layout:
    """The layout called `name`: an operand of an instruction (`mma.m16n8k8.tf32:C`), or a pasted layout.

    `tile`, (rows, columns) or "16x32", is what named fragments are repeated to, and what a pasted notation
    without sizes lays out. Raises InputError with the nearest names if there is none, UnsupportedError if
    `machine` lacks it.
    """
    shape = None if tile is None else _read_tile(tile)
    found = find_layout(name, None if machine is None else find_machine(machine), shape)
    return found if shape is None else _fill(found, shape)


def read_request(
    source: str | Layout,
    destination: str | Layout,
    machine: str | WarpMachine | None,
    tile: tuple[int, int] | str | None,
) -> Request:
    """The request that these arguments describe; without `machine`, on the first that has both layouts.

    `tile` is (rows, columns) or "16x32"; fragments given by name are repeated to it, by default to the
    smallest tile that both fill. Raises InputError or UnsupportedError naming the argument at fault.
    """
    if machine is None:
        target = _first_machine((source, destination))
    else:
        target = find_machine(machine) if isinstance(machine, str) else machine
    if not isinstance(target, WarpMachine):
        raise InputError(f"{getattr(target, 'name', target)!r} is no machine with warps", where="machine")
    asked = None if tile is None else _read_tile(tile)
    sides = _read_sides(source, destination, target, asked)
    named = [isinstance(side, str) and not is_notation(side) for side in (source, destination)]
    shape = _common_tile(sides, named) if asked is None else asked
    for side, name in zip(sides, named, strict=True):
        copies = shape[0] * shape[1] // side.elements if name else 1
        registers = side.registers * copies
        if registers > target.registers_per_lane:
            raise UnsupportedError(
                f"{side.name} takes {registers} registers of every lane for a tile of "
                f"{shape[0]} x {shape[1]}",
                where="tile",
                expected=f"at most {target.registers_per_lane}, the registers of a lane of {target.name}",
            )
    full = [_fill(side, shape) if name else side for side, name in zip(sides, named, strict=True)]
    for side, name in zip(full, named, strict=True):
        if tile is not None and not name and side.shape != shape:
            raise InputError(
                f"{side.name} lays out a {side.shape[0]} x {side.shape[1]} tile",
                where="tile",
                expected=f"{shape[0]} x {shape[1]}, for only what is named in the catalogue is repeated",
                fix="repeat it yourself (Layout.repeat), or write all of the tile into the file",
            )
        if side.lanes > target.lanes and side.lanes % target.lanes:
            raise InputError(
                f"{side.name} is spread over {side.lanes} lanes",
                where=f"lane {side.lanes // target.lanes * target.lanes}",
                expected=f"at most {target.lanes}, the lanes of a warp of {target.name}, or whole warps",
            )
    return Request(full[0], full[1], target, sides[1].registers, sides[0].registers)


def _first_machine(sides: tuple[str | Layout, str | Layout]) -> WarpMachine:
    """The first machine that has, natively, all that is named, and lanes enough for all that is not.

    The machines of files that are named come first, then those of the catalogue; a tile with more lanes than
    any has is one of several warps.
    """
    names = [side for side in sides if isinstance(side, str) and not is_notation(side)]
    files = [part[0] for name in names if (part := split_name(name))]
    lanes = [side.lanes for side in sides if isinstance(side, Layout)]
    if any(isinstance(side, str) and "#ttg.amd_mfma" in side for side in sides):
        lanes.append(_WAVE)  # all that MFMA instructions compute is spread over a wavefront
    for name in names:
        found = find_layout(name)  # an unknown name is the better complaint
        if split_name(name):
            lanes.append(found.lanes)
    own = [machine for machine in map(file_machine, files) if machine is not None]
    known = [find_machine(name) for name in (_USUAL, *machine_names())]
    for machines, warps in ((own, True), (known, False), (known, True)):
        for machine in machines:
            enough = all(count <= machine.lanes or (warps and count % machine.lanes == 0) for count in lanes)
            if enough and all(_has(machine, name) for name in names):
                return machine
    raise UnsupportedError(
        "no machine has both " + " and ".join(names)
        if names
        else f"no machine has warps of {max(lanes)} lanes",
        where="machine",
        fix="name a machine, or layouts that one machine has",
    )


def _has(machine: WarpMachine, name: str) -> bool:
    try:
        find_layout(name, machine)
    except RegweaveError:
        return False
    instruction = machine.instructions.resolve(name.rpartition(":")[0])
    return instruction is None or machine.native(instruction)


def _read_sides(
    source: str | Layout, destination: str | Layout, target: WarpMachine, tile: tuple[int, int] | None
) -> list[Layout]:
    """Both layouts; a pasted one is read on `tile`, or else on the tile of a side that has one."""
    given = (source, destination)
    pasted = [isinstance(side, str) and is_notation(side) for side in given]
    sides: list[Layout | None] = [None, None]
    for at in sorted((0, 1), key=pasted.__getitem__):
        side, other = given[at], sides[1 - at]
        if isinstance(side, str):
            beside = other.shape if tile is None and other is not None else tile
            sides[at] = find_layout(side, target, beside if pasted[at] else None)
        elif isinstance(side, Layout):
            sides[at] = side
        else:
            raise InputError(f"{side!r} is no layout", expected="a layout, or the name of a fragment")
    return [side for side in sides if side is not None]


def _read_tile(tile: tuple[int, int] | str) -> tuple[int, int]:
    if isinstance(tile, str):
        match = re.fullmatch(r"([0-9]+)x([0-9]+)", tile.strip().lower())
        if match is None:
            shown = tile if len(tile) < _MOST_SHOWN else f"{tile[:_MOST_SHOWN]}..."
            raise InputError(
                f"{shown!r} is no tile", where="tile", expected="ROWSxCOLUMNS", fix="write it like 16x32"
            )
        digits = max(len(number.lstrip("0")) for number in match.groups())
        if digits > _MOST_DIGITS:
            raise InputError(f"a tile with a side of {digits} digits", where="tile",
                             expected=f"at most {_MOST_DIGITS}")  # fmt: skip
        tile = int(match[1]), int(match[2])
    tile = whole_pair(tile, "tile", "(rows, columns)")
    if min(tile) < 1:
        raise InputError(
            f"a {tile[0]} x {tile[1]} tile", where="tile", expected="at least one row and column"
        )
    return tile


def _common_tile(sides: list[Layout], named: list[bool]) -> tuple[int, int]:
    """The smallest tile that both fill; a layout given as a value decides alone."""
    shapes = [side.shape for side, name in zip(sides, named, strict=True) if not name] or [
        s.shape for s in sides
    ]
    return math.lcm(*(rows for rows, _ in shapes)), math.lcm(*(columns for _, columns in shapes))


def _fill(fragment: Layout, shape: tuple[int, int]) -> Layout:
    if shape[0] % fragment.shape[0] or shape[1] % fragment.shape[1]:
        raise InputError(
            f"{fragment.name} does not fill a {shape[0]} x {shape[1]} tile",
            where="tile",
            expected=f"multiples of {fragment.shape[0]} x {fragment.shape[1]}",
        )
    return fragment.repeat(shape[0] // fragment.shape[0], shape[1] // fragment.shape[1])
