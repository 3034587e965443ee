"""A finished kernel as text for a person: its figures, its register map, and the trace of its operands."""

from __future__ import annotations

from typing import Any

from regweave.assembly.amd import FinishedKernel
from regweave.views.kernel_document import trace_entry
from regweave.views.kernel_spans import CLASSES, sparkline

_RULES = {
    "label": "a label: no register",
    "keyword": "a reserved keyword: its predefined registers",
    "name": "a name: looked up in the table of registers",
    "known": "a known variable: its registers",
    "new": "a new variable: as many registers as its constraint says",
    "register": "a register by its number",
    "number": "a number in the instruction",
    "word": "a word of the instruction",
}


def kernel_report(kernel: FinishedKernel, document: dict[str, Any]) -> str:
    """The figures, the register map and the annotated instructions, as plain text."""
    registers = document["registers"]
    words = ", ".join(f"{count} {name}" for name, count in registers.items() if count)
    least = ", ".join(f"{count} {name}" for name, count in document["bound"].items() if count)
    lines = [
        f"{kernel.name} for {kernel.machine.title}",
        f"  registers   {words} (at least {least or 'none'})",
        f"  occupancy   {document['occupancy']} of {kernel.machine.waves} waves per SIMD",
        f"  LDS         {document['lds_bytes']} bytes, arguments {document['argument_bytes']} bytes",
        f"  pressure    {document['pressure']['peak']} vector registers at {document['pressure']['at']}",
        *_profiles(kernel),
        f"  inserted    {document['waits_inserted']} waits, {document['nops_inserted']} no-ops",
        *(
            [f"  removed     {kernel.moves_gone} moves, their sides share registers"]
            if kernel.moves_gone
            else []
        ),
        f"  {'instructions':<11} {', '.join(f'{n} {unit}' for unit, n in document['mix'].items() if n)}",
        f"  issue       {document['issue_clocks']} clocks for each instruction once, waiting not counted",
    ]
    loop = document["inner_loop"]
    if loop is not None:
        lines.append(
            f"  inner loop  {loop['instructions']} instructions, {loop['fma_share']:.0%} multiply-adds, "
            f"{loop['nops']} no-ops, {loop['issue_clocks']} clocks to issue"
        )
    if document["object_bytes"] is not None:
        read = (document["object"] or {}).get("read_back")
        back = f"; LLVM reads the same {read} instructions back" if read is not None else ""
        lines.append(f"  object      {document['object_bytes']} bytes, its counts agree with the text{back}")
    if "made_ms" in document:
        lines.append(
            f"  made in     {document['made_ms']:.0f} ms: read, analysed, registers assigned and proved"
        )
    return "\n".join([*lines, "", str(kernel.register_map), "", *kernel.body(annotate=True)])


def _profiles(kernel: FinishedKernel) -> list[str]:
    """How many registers of each class hold something, over time."""
    profiles = {name: kernel.pressure.profile[name] for name in CLASSES if kernel.used[name]}
    return [f"    {name:<12}  |{sparkline(held)}| {max(held)} at most" for name, held in profiles.items()]


def trace_report(kernel: FinishedKernel) -> str:
    """One line for each operand: the rule, what was registered, and its registers."""
    lines, last = [], -1
    for decision in kernel.decisions:
        entry = trace_entry(kernel, decision)
        if entry["operation"] != last:
            last = entry["operation"]
            lines.append(f"{last}: {entry['line']}")
        registers = f": {entry['demand']} -> {' or '.join(entry['registers'])}" if entry["registers"] else ""
        name = f" {entry['name']!r}" if entry["name"] not in (None, decision.text) else ""
        lines.append(f"    {decision.text:<16} {_RULES[decision.rule]}{name}{registers}")
    return "\n".join(lines)
