"""Machines, matrix instructions and layouts by name, over all families, with the nearest for a wrong one.

A layout is an operand of an instruction (`instruction:operand`, by the short name or the vendor's full
mnemonic), a layout that belongs to no instruction, or one from a file of the user's own
(`file.toml:instruction:operand`, see `machines.user`). Suffixes change it, from left to right: `@TYPE` keeps
the slots and changes the element type, as narrowing accumulators does; `^T` is the transposed tile.

>>> find_layout("mma.m16n8k8.tf32:C").shape
(16, 8)
>>> find_layout("v_mfma_f32_32x32x8f16:D@f16^T").name
'v_mfma_f32_32x32x8_f16:D@f16^T'
>>> find_layout("mma.m16n8k8.tf23:C")
Traceback (most recent call last):
InputError: unknown layout 'mma.m16n8k8.tf23:C'; nearest: mma.m16n8k8.tf32:C, ...

Families are imported when a name is looked for in them, and instructions are made one by one.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from regweave.errors import InputError, UnsupportedError, nearest_names, shown_name, unknown_name
from regweave.files import standing
from regweave.layouts import Layout
from regweave.machines.gpu import MatrixInstruction, WarpMachine
from regweave.machines.notations import is_notation, read_notation
from regweave.machines.ondemand import OnDemand
from regweave.machines.user.file import read_user_file, split_name

# each has MACHINES, INSTRUCTIONS, LAYOUTS and OUT_OF_SCOPE {beginning of a name: why it is not here}
_FAMILIES = ("nvidia", "amd", "x86.tiles", "arm")
_MOST_NEAREST = 4
_SUFFIX = re.compile(r"(?:@\w+|\^T)*$")


def _families() -> Iterator[Any]:
    return (importlib.import_module(f"regweave.machines.{family}") for family in _FAMILIES)


def machine_names() -> tuple[str, ...]:
    """The names of all machines."""
    return tuple(chain.from_iterable(family.MACHINES for family in _families()))


def fragment_names(machine: WarpMachine | None = None) -> tuple[str, ...]:
    """The names of all operands of instructions and of all other layouts, or of those that `machine` has."""
    names: list[str] = []
    for instructions, layouts in _tables(machine):
        for name, entry in instructions.entries.items():
            names += [f"{name}:{operand}" for operand in entry.operands]
        names += layouts
    return tuple(names)


def find_machine(name: str) -> WarpMachine:
    """The machine called `name`, or the one that a file describes (`own.toml`).

    Raises InputError with the nearest names if there is none, or naming the fault of the file.
    """
    if not isinstance(name, str):
        raise InputError(f"{name!r} is no machine", where="machine", expected="the name of one")
    part = split_name(name)
    if part is None:
        return _catalogued_machine(name)
    file, rest = part
    machine = file_machine(file)
    if machine is None or rest not in ("", machine.name):
        raise InputError(
            f"no machine {rest!r} in {file}" if rest else f"no machine in {file}",
            where="machine",
            expected="[machine] with its name" if machine is None else machine.name,
        )
    return machine


def file_machine(file: str) -> WarpMachine | None:
    """The machine that a TOML file describes, None if it describes none; InputError naming its faults."""
    return read_user_file(file, _catalogued_machine).machine


def _catalogued_machine(name: str) -> WarpMachine:
    for family in _families():
        if name in family.MACHINES:
            return family.MACHINES[name]
    there = standing(name)
    if there is not None:
        raise InputError(
            f"{name!r} is {there}, not a machine",
            where="machine",
            expected="the name of one, or a file of your own that ends in .toml",
            fix="`regweave machine` lists the names",
        )
    raise unknown_name("machine", name, machine_names(), where="machine")


def find_layout(name: str, machine: WarpMachine | None = None, tile: tuple[int, int] | None = None) -> Layout:
    """The layout called `name`, for example `mma.m16n8k8.tf32:C` or `mma.m16n8k32.s8:C@s8`.

    A pasted layout is read in place of a name (see `machines.notations`); `tile` is then the tile that it
    lays out.
    Raises InputError with the nearest names if there is no such layout, and UnsupportedError if `machine` is
    given and lacks it, or if it is out of scope.
    """
    if not isinstance(name, str):
        raise InputError(f"{name!r} is no layout's name", expected="text")
    suffixes = _SUFFIX.search(name)
    assert suffixes is not None, "an empty match always exists"
    base, found = name[: suffixes.start()], re.findall(r"@\w+|\^T", suffixes[0])
    if is_notation(base):
        if tile is not None and found.count("^T") % 2 == 1:
            tile = tile[1], tile[0]
        layout = read_notation(base, tile)
    elif part := split_name(base):
        layout = read_user_file(part[0], _catalogued_machine).layout(part[1], machine)
    else:
        layout = _find(base, name, machine)
    for suffix in found:
        layout = layout.transpose() if suffix == "^T" else layout.retype(suffix[1:])
    return layout


def find_instruction(name: str, machine: WarpMachine | None = None) -> MatrixInstruction:
    """The matrix instruction of this name or mnemonic, on any machine or on `machine`.

    Raises InputError with the nearest names if there is none, UnsupportedError if `machine` lacks it.
    """
    if part := split_name(name):
        return read_user_file(part[0], _catalogued_machine).instruction(part[1], machine)
    for instructions, _ in chain([] if machine is None else _tables(machine), _tables()):
        found = instructions.resolve(name)
        if found is not None:
            if machine is not None and found not in machine.instructions:
                raise _lacking(machine, found, found, instructions)
            return instructions[found]
    _refuse_out_of_scope(name)
    names = tuple(chain.from_iterable(instructions for instructions, _ in _tables(machine)))
    raise InputError(
        f"unknown instruction {shown_name(name)}",
        expected="an instruction of the catalogue",
        nearest=nearest_names(name, names),
    )


def _tables(
    machine: WarpMachine | None = None,
) -> Iterator[tuple[OnDemand[MatrixInstruction], OnDemand[Layout]]]:
    """The instructions and the other layouts of every family, or of one machine."""
    if machine is not None:
        return iter([(machine.instructions, machine.layouts)])
    return ((family.INSTRUCTIONS, family.LAYOUTS) for family in _families())


def _find(base: str, name: str, machine: WarpMachine | None) -> Layout:
    """The layout called `base`, which is `name` without its suffixes."""
    instruction, _, operand = base.rpartition(":")
    # a user's machine has entries that stand in no family
    for instructions, layouts in chain([] if machine is None else _tables(machine), _tables()):
        alone = layouts.resolve(base)
        if alone is not None:
            if machine is not None and alone not in machine.layouts:
                raise _lacking(machine, alone, alone, layouts)
            return layouts[alone]
        found = instructions.resolve(instruction)
        if found is not None and operand in tuple(instructions.entries[found].operands):
            if machine is not None and found not in machine.instructions:
                raise _lacking(machine, found, f"{found}:{operand}", instructions)
            return instructions[found].fragments[operand]
    _refuse_out_of_scope(base)
    raise InputError(
        f"unknown layout {shown_name(name)}",
        expected="instruction:operand, for example mma.m16n8k8.tf32:C, or the name of a layout",
        nearest=_nearest(base, machine),
    )


def _nearest(base: str, machine: WarpMachine | None) -> tuple[str, ...]:
    """The names closest to `base`: the operands of its instruction if there is such, else similar names."""
    for instructions, _ in _tables(machine):
        found = instructions.resolve(base) or instructions.resolve(base.rpartition(":")[0])
        if found is not None:
            return tuple(f"{found}:{operand}" for operand in instructions.entries[found].operands)
    # one name for each instruction: with the operand that was asked for, where it has that
    operand, names = base.rpartition(":")[2], []
    for instructions, layouts in _tables(machine):
        for name, entry in instructions.entries.items():
            letter = operand if operand in tuple(entry.operands) else entry.operands[:1]
            names.append(f"{name}:{letter}")
        names += layouts
    begin_so = [name for name in names if base and name.startswith(base)]  # of a few letters none is like it
    return nearest_names(base, names, most=_MOST_NEAREST) or tuple(begin_so[:_MOST_NEAREST])


def _lacking(machine: WarpMachine, name: str, wanted: str, table: OnDemand) -> UnsupportedError:
    return UnsupportedError(
        f"{machine.name} has no {name}",
        where=f"machine {machine.name}",
        expected="one of " + ", ".join(table.entries[name].support),
        nearest=_nearest(wanted, machine),
        fix="name another machine or another instruction",
    )


def _refuse_out_of_scope(name: str) -> None:
    for family in _families():
        for beginning, reason in family.OUT_OF_SCOPE.items():
            if name.startswith(beginning):
                raise UnsupportedError(f"{name} is out of scope: {reason}")
