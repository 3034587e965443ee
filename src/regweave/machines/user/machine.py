"""A machine like another one, but for what is said: a user's own, from a few keys.

    name = "board"
    like = "sm_80"
    lanes = 4
    costs = { shuffle = 3 }

has the costs of `sm_80` except that of a shuffle, and those of its instructions that four lanes can execute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from regweave.errors import InputError, nearest_names
from regweave.machines.gpu import MatrixInstruction, StepCosts, WarpMachine
from regweave.machines.machine import RegisterClass
from regweave.machines.ondemand import Entry, Named, OnDemand
from regweave.machines.user.keys import (
    check_keys,
    read_names,
    read_number,
    read_numbers,
    read_table,
    read_text,
)

T = TypeVar("T", bound=Named)

# the names of all conversions, of all ways to move words between lanes, and of all opcodes that have a cost
PACKINGS = ("pack_f16", "pack_bf16", "pack_s16", "pack_u16", "pack_s8", "pack_u8", "pack_s4", "pack_u4",
            "pack_e4m3", "pack_e5m2", "pack_e4m3fnuz", "pack_e5m2fnuz", "pack_e3m2", "pack_e2m3", "pack_e2m1",
            "pack_e2m1b8", "pack_low", "pack_high")  # fmt: skip
EXCHANGES = ("shuffle", "movmatrix", "dpp_quad_perm", "dpp_row_ror", "dpp_row_mirror", "dpp_row_half_mirror",
             "dpp_row_newbcast", "dpp_row_share", "dpp_row_xmask", "dpp8", "permlane16", "permlanex16",
             "permlane16_swap", "permlane32_swap", "permlane64", "pick")  # fmt: skip
OPCODES = (*PACKINGS, "lane", "and", "or", "xor", "add", "multiply", "subtract", "shift_left", "shift_right",
           "rotate_right", "test", "less", "select", "shuffle", "transpose", "lane_swap", "row_move",
           "row_permute", "half_swap", "pick", "byte_permute", "barrier", "shared_load", "shared_store",
           "matrix_load", "matrix_store")  # fmt: skip
_BANKS = tuple(1 << bit for bit in range(2, 9))
_WIDTHS = (4, 8, 16)

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
    _check(changes, "packings", PACKINGS, where)
    _check(changes, "exchanges", EXCHANGES, where)
    _check(changes, "shared_widths", _WIDTHS, where)
    _check(changes, "shuffle_widths", [1 << bit for bit in range(lanes.bit_length())], where)
    _check(changes, "shared_banks", _BANKS, where)
    if "lanes" in changes:
        narrower = tuple(width for width in model.shuffle_widths if width < lanes)
        changes.setdefault("shuffle_widths", (*narrower, lanes))
    for key in ("packings", "exchanges"):
        changes[key] = frozenset(changes.get(key, getattr(model, key)))
    if "registers" in values:
        first, *others = model.classes
        names = tuple(f"{first.letter}{i}" for i in range(read_number(values, "registers", where, 1 << 16)))
        changes["classes"] = (RegisterClass(first.name, first.letter, names, first.bits), *others)
    costs = _costs(values, "costs", where)
    check_keys(costs, (field.name for field in fields(StepCosts)), f"{where}, costs")
    changes["costs"] = replace(model.costs, **costs)
    opcode_costs = _costs(values, "opcode_costs", where)
    check_keys(opcode_costs, OPCODES, f"{where}, opcode_costs")
    changes["opcode_costs"] = {**model.opcode_costs, **opcode_costs}
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


def _check(changes: Mapping[str, Any], key: str, known: Collection[Any], where: str) -> None:
    """InputError if the value under a key, or one of those in its list, is none of `known`."""
    values = changes.get(key, ())
    for value in values if isinstance(values, (list, tuple)) else [values]:
        if value not in known:
            raise InputError(
                f"{key} has {value!r}",
                where=where,
                expected="one of " + ", ".join(map(str, known)),
                nearest=nearest_names(value, map(str, known)) if isinstance(value, str) else (),
            )


def _costs(values: Mapping[str, Any], key: str, where: str) -> dict[str, int]:
    costs = read_table(values, key, where)
    return {name: read_number(costs, name, f"{where}, {key}") for name in costs}
