"""One matrix instruction as a document and a table: sizes, work, operands, where it is native.

>>> document = instruction_document(find_machine("gfx942"), "v_mfma_f32_32x32x8_f16")
>>> document["operands"]["D"]["registers"], document["clocks"]
(16, 32)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from regweave.machines.gpu import WarpMachine


def instruction_document(machine: WarpMachine, name: str) -> dict[str, Any]:
    """What the catalogue knows of an instruction on a machine.

    `operations` counts multiplications and additions of one warp, all blocks together; `clocks` for how long
    it keeps its unit busy, None where that is not known.
    """
    entry = machine.instructions[name]
    operands = {}
    for letter, layout in entry.fragments.items():
        operands[letter] = {
            "layout": layout.name,
            "rows": layout.shape[0],
            "columns": layout.shape[1],
            "axes": list(layout.axes),
            "type": layout.dtype,
            "elements_per_lane": layout.items,
            "registers": layout.registers,
            "slots_per_element": layout.table.size // layout.elements,
        }
    return {
        "name": entry.name,
        "mnemonic": entry.mnemonic,
        "aliases": list(entry.aliases),
        "builtin": entry.builtin or None,
        "machine": machine.name,
        "support": entry.support[machine.name],
        "note": entry.note or None,
        "sizes": {"m": entry.m, "n": entry.n, "k": entry.k},
        "blocks": entry.blocks,
        "lanes": entry.lanes,
        "operations": 2 * entry.m * entry.n * entry.k * entry.blocks,
        "clocks": _clocks(machine.name, entry.name),
        "machines": dict(entry.support),
        "operands": operands,
    }


def _clocks(machine: str, name: str) -> int | None:
    from regweave.machines.amd.assembly import TARGETS
    from regweave.machines.amd.assembly.table import make_table
    from regweave.machines.amd.assembly.timing import issue_clocks

    if machine not in TARGETS:
        return None
    table = make_table(machine)
    return issue_clocks(table[name], machine) if name in table else None


def instruction_table(document: Mapping[str, Any]) -> Table:
    """The document for a person."""
    sizes, blocks = document["sizes"], document["blocks"]
    table = Table(title=document["mnemonic"], title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    product = f"{sizes['m']} x {sizes['n']} x {sizes['k']} (m x n x k)"
    rows = {
        "product": product if blocks == 1 else f"{blocks} blocks of {product}, stacked",
        "operations": f"{document['operations']}, by {document['lanes']} lanes",
        "clocks": document["clocks"] and f"{document['clocks']} of its unit, at least",
        "other names": ", ".join(name for name in document["aliases"] if name != document["mnemonic"]),
        "function": document["builtin"],
        document["machine"]: document["support"] + (f": {document['note']}" if document["note"] else ""),
        "all machines": ", ".join(f"{name} ({level})" for name, level in document["machines"].items()),
    }
    rows |= {f"operand {letter}": _operand_words(own) for letter, own in document["operands"].items()}
    for name, words in rows.items():
        if words:
            table.add_row(Text(name), Text(words))
    table.caption, table.caption_justify = Text(f"regweave layout {document['name']}:D"), "left"
    return table


def _operand_words(operand: Mapping[str, Any]) -> str:
    rows, columns = operand["rows"], operand["columns"]
    count, copies = operand["registers"], operand["slots_per_element"]
    words = f"{rows} x {columns} ({' x '.join(operand['axes'])}) {operand['type']}, "
    words += f"{operand['elements_per_lane']} a lane in {count} register{'s' if count > 1 else ''}"
    return words + (f", each held {copies} times" if copies > 1 else "")
