"""A machine like another one, but for what is said: a user's own, from a few keys.

    name = "board"
    like = "sm_80"
    lanes = 4
    costs = { shuffle = 3 }

has the costs of `sm_80` except that of a shuffle, and those of its instructions that four lanes can execute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from regweave.machines.described import (
    check_keys,
    read_names,
    read_number,
    read_numbers,
    read_table,
    read_text,
)
from regweave.machines.gpu import MatrixInstruction, StepCosts, WarpMachine
from regweave.machines.machine import RegisterClass
from regweave.machines.ondemand import Entry, Named, OnDemand

T = TypeVar("T", bound=Named)

# the fields that a file may set, by how they are read
_READERS: dict[str, Callable[[Mapping[str, Any], str, str], Any]] = {
    "name": read_text,
    "title": read_text,
    "lanes": read_number,
    "shared_bytes": read_number,
    "shared_banks": read_number,
    "shuffle_widths": read_numbers,
    "shared_widths": read_numbers,
    "packings": read_names,
    "exchanges": read_names,
}


def derived_machine(
    values: Any,
    where: str,
    instructions: Mapping[str, MatrixInstruction],
    find_machine: Callable[[str], WarpMachine],
) -> WarpMachine:
    """The machine that `values` describe, with those of the `instructions` that do not name other machines.

    Raises InputError naming the key at fault, or if there is no machine that it is like.
    """
    check_keys(values, {*_READERS, "like", "registers", "costs", "opcode_costs"}, where, ("name", "like"))
    model = find_machine(read_text(values, "like", where))
    changes = {key: read(values, key, where) for key, read in _READERS.items() if key in values}
    name, lanes = changes["name"], changes.get("lanes", model.lanes)
    changes.setdefault("title", f"{name}, like {model.name}")
    if "lanes" in changes:
        narrower = tuple(width for width in model.shuffle_widths if width < lanes)
        changes.setdefault("shuffle_widths", (*narrower, lanes))
    for key in ("packings", "exchanges"):
        changes[key] = frozenset(changes.get(key, getattr(model, key)))
    if "registers" in values:
        first, *others = model.classes
        names = tuple(f"{first.letter}{i}" for i in range(read_number(values, "registers", where)))
        changes["classes"] = (RegisterClass(first.name, first.letter, names, first.bits), *others)
    costs = _costs(values, "costs", where)
    check_keys(costs, (field.name for field in fields(StepCosts)), f"{where}, costs")
    changes["costs"] = replace(model.costs, **costs)
    changes["opcode_costs"] = {**model.opcode_costs, **_costs(values, "opcode_costs", where)}
    inherited = _inherited(model.instructions, model.name, name, lanes)
    own = {
        key: Entry({name: "native"}, entry.lanes, lambda entry=entry: entry, "".join(entry.fragments))
        for key, entry in instructions.items()
        if not entry.support or name in entry.support
    }
    changes["instructions"] = OnDemand({**inherited.entries, **own}, inherited.aliases)
    changes["layouts"] = _inherited(model.layouts, model.name, name, lanes)
    return replace(model, **changes)


def _inherited(table: OnDemand[T], model: str, name: str, lanes: int) -> OnDemand[T]:
    """What the machine `model` has and `lanes` lanes can execute, as that of the machine `name`."""
    entries = {
        key: Entry({name: entry.support[model]}, entry.lanes, lambda entry=entry: entry.value, entry.operands)
        for key, entry in table.entries.items()
        if entry.lanes % lanes == 0
    }
    return OnDemand(entries, table.aliases)


def _costs(values: Mapping[str, Any], key: str, where: str) -> dict[str, int]:
    costs = read_table(values, key, where)
    return {name: read_number(costs, name, f"{where}, {key}") for name in costs}
