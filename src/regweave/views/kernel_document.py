"""A finished kernel as a document, for programs.

    >>> document = kernel_document(kernel, counts=None, object_bytes=None)
    >>> document["registers"], document["occupancy"]
    ({'vgpr': 81, 'sgpr': 3, 'agpr': 0}, 3)

`registers` are what the descriptor declares, `bound` what no assignment could do without. Where the kernel
was assembled the object's own counts stand beside them (`object`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.amd.operands import Decision

_SHORT = {"vector": "vgpr", "scalar": "sgpr", "accumulation": "agpr"}


def kernel_document(
    kernel: FinishedKernel,
    *,
    counts: Mapping[str, int | None] | None,
    object_bytes: int | None,
    trace: bool = False,
) -> dict[str, Any]:
    """The kernel as a document; `counts` are those of its object, where one was made."""
    demands = kernel.demands
    profile = kernel.pressure.profile["vector"]
    peak = max(range(len(profile)), key=profile.__getitem__)
    document = {
        "kernel": kernel.name,
        "machine": kernel.machine.name,
        "registers": {
            "vgpr": demands.vectors,
            "sgpr": demands.scalars,
            "agpr": demands.accumulators,
        },
        "bound": {_SHORT[name]: least for name, least in kernel.bound.items()},
        "map": register_places(kernel),
        "pressure": {"peak": profile[peak], "at": kernel.program.describe(peak)},
        "occupancy": kernel.occupancy,
        "lds_bytes": demands.lds_bytes,
        "argument_bytes": demands.argument_bytes,
        "instructions": kernel.instructions,
        "mix": dict(kernel.mix),
        "issue_clocks": kernel.issue_clocks(),
        "inner_loop": kernel.inner_loop(),
        "waits_inserted": kernel.waits.count,
        "nops_inserted": kernel.nops,
        "moves_removed": kernel.moves_gone,
        "object_bytes": object_bytes,
        "object": counts,
        "text": kernel.text,
    }
    if trace:
        document["trace"] = [trace_entry(kernel, decision) for decision in kernel.decisions]
    return document


def register_places(kernel: FinishedKernel) -> dict[str, list[Any]]:
    """Each variable's first register and how many; a second one of a name is called `name#2`."""
    places: dict[str, list[Any]] = {}
    for row in kernel.register_map.rows:
        if row.register_class == "special":
            continue
        name, number = row.name, 1
        while name in places:
            number += 1
            name = f"{row.name}#{number}"
        places[name] = [row.registers[0], len(row.registers)]
    return places


def trace_entry(kernel: FinishedKernel, decision: Decision) -> dict[str, Any]:
    """Which rule applied to an operand, what was registered, and where it ended up."""
    variable = decision.variable
    found = []
    if variable is not None:
        runs = kernel.registers
        alike = [v for v in runs if v.name == variable.name and v.register_class == variable.register_class]
        own = [variable] if variable in runs else alike
        found = sorted({kernel.machine.run(runs[v]) for v in own})
    return {
        "operation": decision.operation,
        "line": kernel.program.lines[decision.operation],
        "operand": decision.text,
        "rule": decision.rule,
        "name": variable.name if variable is not None else None,
        "demand": decision.demand,
        "registers": found,
    }
