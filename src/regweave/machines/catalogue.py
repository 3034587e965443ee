"""Machines and fragments by name, with the nearest ones when a name is wrong.

>>> find_layout("mma.m16n8k8.tf32:C").shape
(16, 8)
>>> find_layout("mma.m16n8k8.tf23:C")
Traceback (most recent call last):
InputError: unknown layout 'mma.m16n8k8.tf23:C'; nearest: mma.m16n8k8.tf32:C, ...
"""

from __future__ import annotations

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.machines.nvidia import INSTRUCTIONS, MACHINES


def fragment_names(machine: WarpMachine | None = None) -> tuple[str, ...]:
    """The names of all fragments, or of those that `machine` has."""
    instructions = INSTRUCTIONS if machine is None else machine.instructions
    return tuple(f"{name}:{operand}" for name, entry in instructions.items() for operand in entry.fragments)


def find_machine(name: str) -> WarpMachine:
    """The machine called `name`; InputError with the nearest names otherwise."""
    if name in MACHINES:
        return MACHINES[name]
    raise InputError(
        f"unknown machine {name!r}",
        where="machine",
        expected="one of " + ", ".join(MACHINES),
        nearest=nearest_names(name, MACHINES),
    )


def find_layout(name: str, machine: WarpMachine | None = None) -> Layout:
    """The fragment called `name`, for example `mma.m16n8k8.tf32:C`.

    Raises InputError with the nearest names if there is no such fragment, and UnsupportedError if
    `machine` is given and lacks its instruction.
    """
    instruction, _, operand = name.rpartition(":")
    entry = INSTRUCTIONS.get(instruction)
    if entry is None or operand not in entry.fragments:
        names = fragment_names(machine)
        raise InputError(
            f"unknown layout {name!r}",
            expected="instruction:operand",
            nearest=nearest_names(name, names, most=4) or names[:4],
        )
    if machine is not None and instruction not in machine.instructions:
        raise UnsupportedError(
            f"{machine.name} has no {instruction}",
            where=name,
            expected="one of " + ", ".join(entry.support),
            nearest=nearest_names(name, fragment_names(machine)),
            fix="name another machine or another instruction",
        )
    return entry.fragments[operand]
