"""Machines as documents and tables: all in a line each, or one with everything that planning knows of it.

>>> [machine["name"] for machine in machines_document()["machines"]][:2]
['sm_70', 'sm_75']
>>> machine_document(find_machine("sm_80"))["costs"]["shuffle"]
2
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from regweave.errors import InputError, nearest_names
from regweave.machines.catalogue import find_machine, machine_names
from regweave.machines.gpu import WarpMachine
from regweave.views.instruction import instruction_document, instruction_table

# the sizes of a product in an instruction's name
_SIZES = re.compile(r"m\d+n\d+k?\d*|\d+x\d+x\d+(_\d+b)?")


def machines_document() -> dict[str, Any]:
    """All machines: name, family, title, lanes, registers, how many instructions and layouts they have."""
    machines = []
    for machine in map(find_machine, machine_names()):
        levels = [entry.support[machine.name] for entry in machine.instructions.entries.values()]
        machines.append(
            {
                "name": machine.name,
                "family": machine.family,
                "title": machine.title,
                "lanes": machine.lanes,
                "registers": machine.registers_per_lane,
                "native": levels.count("native"),
                "emulated": levels.count("emulated"),
                "layout_only": levels.count("layout"),
                "layouts": len(machine.layouts),
            }
        )
    return {"machines": machines}


def machine_document(machine: WarpMachine, containing: str | None = None) -> dict[str, Any]:
    """One machine: registers, exchanges, costs in issue slots, shared memory, instructions, layouts.

    Of the latter two those whose names hold the text `containing`; InputError if there is none. Where it is
    an instruction's whole name, or another name of it, `instruction` tells all about it.
    """
    named = machine.instructions.resolve(containing) if containing else None
    chosen = named or containing or ""
    layouts = [name for name in machine.layouts if chosen in name]
    instructions = []
    for name, entry in machine.instructions.entries.items():
        if chosen not in name:
            continue
        level = entry.support[machine.name]
        described = {"name": name, "support": level, "operands": list(entry.operands), "lanes": entry.lanes}
        if level != "native":
            described["note"] = machine.instructions[name].note
        instructions.append(described)
    if chosen and not instructions and not layouts:
        names = [*machine.instructions, *machine.layouts]
        raise InputError(f"{machine.name} has nothing whose name holds {chosen!r}", where="the command line",
                         expected="a part of a name", nearest=nearest_names(chosen, names))  # fmt: skip
    detail = {"instruction": instruction_document(machine, named)} if named else {}
    return detail | {
        "name": machine.name,
        "family": machine.family,
        "title": machine.title,
        "lanes": machine.lanes,
        "registers": [
            {"class": kind.name, "count": kind.count, "bits": kind.bits, "alignment": kind.alignment}
            for kind in machine.classes
        ],
        "exchanges": sorted(machine.exchanges),
        "shuffle_widths": list(machine.shuffle_widths),
        "packings": sorted(machine.packings),
        "costs": {**asdict(machine.costs), **machine.opcode_costs},
        "shared": {
            "bytes": machine.shared_bytes,
            "banks": machine.shared_banks,
            "widths": list(machine.shared_widths),
        },
        "instructions": instructions,
        "layouts": layouts,
    }


def machines_table(document: Mapping[str, Any]) -> Table:
    """The list of machines, from `machines_document`."""
    table = Table(title="Machines that regweave plans for", title_justify="left")
    for heading in ("machine", "what it is"):
        table.add_column(heading, no_wrap=heading == "machine")
    for heading in ("lanes", "registers", "native", "emulated", "layouts"):
        table.add_column(heading, justify="right")
    family = None
    for machine in document["machines"]:
        if family not in (None, machine["family"]):
            table.add_section()
        family = machine["family"]
        numbers = [machine[key] for key in ("lanes", "registers", "native", "emulated")]
        numbers.append(machine["layouts"] + machine["layout_only"])
        table.add_row(Text(machine["name"]), Text(machine["title"]), *[str(n) if n else "-" for n in numbers])
    return table


def machine_table(document: Mapping[str, Any], *, whole: bool = False) -> Group:
    """One machine, from `machine_document`, or the one instruction that was named there.

    Unless `whole`, instructions that are alike but for their sizes share a line.
    """
    if "instruction" in document:
        return Group(instruction_table(document["instruction"]))
    facts = Table(title=f"{document['name']}: {document['title']}", title_justify="left", show_header=False)
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    shared = document["shared"]
    widths = ", ".join(map(str, shared["widths"]))
    rows = {
        "lanes": str(document["lanes"]),
        "registers per lane": "; ".join(
            f"{kind['count']} {kind['class']} of {kind['bits']} bits"
            + (f", tuples aligned to {kind['alignment']}" if kind["alignment"] > 1 else "")
            for kind in document["registers"]
        ),
        "exchanges": _listed(document["exchanges"]),
        "conversions": _listed(document["packings"]),
        "issue slots": ", ".join(f"{name} {cost}" for name, cost in document["costs"].items()),
        "shared memory": f"{shared['bytes'] // 1024} KiB, {shared['banks']} banks, {widths} bytes at a time"
        if shared["bytes"]
        else "none that planning uses",
    }
    for name, words in rows.items():
        facts.add_row(Text(name), Text(words))
    parts: list[Any] = [facts]
    if document["instructions"]:
        parts += ["", _instructions(document["instructions"], whole=whole)]
    if document["layouts"]:
        parts += ["", Text("Layouts of no matrix instruction: " + ", ".join(_runs(document["layouts"])))]
    return Group(*parts)


def _instructions(instructions: Iterable[Mapping[str, Any]], *, whole: bool) -> Table:
    table = Table(title="Matrix instructions: regweave layout NAME:OPERAND", title_justify="left")
    table.add_column("instruction")
    if not whole:
        table.add_column("how many", justify="right")
    table.add_column("operands")
    table.add_column("here")
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for entry in instructions:
        alike = entry["name"] if whole else _SIZES.sub("*", entry["name"]), entry["support"]
        groups.setdefault((alike, tuple(entry["operands"])), []).append(entry)
    for entry, *others in groups.values():
        note = entry.get("note", "")
        named = f"{entry['name']} ... {others[-1]['name']}" if others else entry["name"]
        count = [] if whole else [str(len(others) + 1)]
        here = entry["support"] if not note else f"{entry['support']}: {note}"
        style = "" if entry["support"] == "native" else "yellow"
        table.add_row(Text(named), *count, " ".join(entry["operands"]), Text(here, style=style))
    return table


def _runs(names: Iterable[str]) -> list[str]:
    """The names, those that differ in their last number only written once: `avx2.rows:1 to 16`."""
    runs: dict[str, list[str]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        runs.setdefault(stem, []).append(name.removeprefix(stem))
    return [
        stem + (f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 2 else f", {stem}".join(numbers))
        for stem, numbers in runs.items()
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
