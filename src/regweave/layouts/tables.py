"""Layouts as text, CSV, Markdown and JSON-like documents; all but the first read back (see `reading`).

lane  r0     r1     r2     r3
   0  (0,0)  (0,1)  (8,0)  (8,1)
   1  (0,2)  (0,3)  (8,2)  (8,3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regweave.errors import InputError
from regweave.layouts.layout import Layout


def to_text(layout: Layout) -> str:
    """One line per lane, one column per item: `r0` is a register, `r0.1` part 1 of a shared one."""
    return aligned(table_cells(layout)[0])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells under one another, those of the first column to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [line[0].rjust(widths[0]), *(cell.ljust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    )


def to_markdown(layout: Layout) -> str:
    """The table of `to_text` in Markdown."""
    lines, widths = table_cells(layout)
    rule = ["-" * (widths[0] - 1) + ":", *("-" * width for width in widths[1:])]
    rows = [
        [
            cell.rjust(width) if at == 0 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in (lines[0], rule, *lines[1:])
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def table_cells(layout: Layout) -> tuple[list[list[str]], list[int]]:
    """The table with its heading, and the width of each column."""
    shared = layout.element_type.per_register > 1
    slots = [layout.slot_of(0, item) for item in range(layout.items)]
    header = ["lane", *(f"r{slot.register}.{slot.part}" if shared else f"r{slot.register}" for slot in slots)]
    pairs = np.stack(np.divmod(layout.table, layout.shape[1]), axis=-1).tolist()
    lines = [header, *([str(lane), *(f"({r},{c})" for r, c in row)] for lane, row in enumerate(pairs))]
    return lines, [max(len(line[column]) for line in lines) for column in range(len(header))]


#: What follows from the rest of a document.
_SIZES = ("lanes", "items", "registers", "bijective")


def to_csv(layout: Layout) -> str:
    """One line per slot: lane, register, part, row, column."""
    lines = ["lane,register,part,row,column"]
    for lane in range(layout.lanes):
        for item in range(layout.items):
            slot = layout.slot_of(lane, item)
            row, column = divmod(int(layout.table[lane, item]), layout.shape[1])
            lines.append(f"{lane},{slot.register},{slot.part},{row},{column}")
    return "\n".join(lines) + "\n"


def to_document(layout: Layout) -> dict[str, Any]:
    """A JSON-ready mapping: the basis where the layout is linear over bits, the full table elsewhere."""
    document: dict[str, Any] = {
        "name": layout.name,
        "shape": list(layout.shape),
        "dtype": layout.dtype,
        "axes": list(layout.axes),
    }
    if layout.basis is not None:
        document["lane"] = [list(pair) for pair in layout.basis.lane]
        document["item"] = [list(pair) for pair in layout.basis.item]
    else:
        pairs = np.stack(np.divmod(layout.table, layout.shape[1]), axis=-1)
        document["elements"] = pairs.tolist()
    return document


def from_document(document: Mapping[str, Any]) -> Layout:
    """The layout that `to_document` described; InputError for a document that describes none.

    The sizes that `regweave layout --json` adds may stand in it: they must be those of the layout.
    """
    form = ("elements",) if "elements" in document else ("lane", "item")
    needed = ("name", "shape", "dtype", *form)
    where, expected = "the layout's document", "name, shape, dtype, and either elements or lane and item"
    for key in needed:
        if key not in document:
            raise InputError(f"{key!r} is missing", where=where, expected=expected)
    for key, value in document.items():
        if key in _SIZES:
            continue
        if key not in (*needed, "axes"):
            raise InputError(f"unknown key {key!r}", where=where, expected=expected)
        kind, word = (str, "text") if key in ("name", "dtype") else ((list, tuple), "a list")
        if not isinstance(value, kind):
            raise InputError(f"{key} is {type(value).__name__}", where=where, expected=word)
    name, shape, dtype = (document[key] for key in needed[:3])
    axes = tuple(document.get("axes", ("row", "column")))
    if "elements" in document:
        layout = Layout.explicit(name, shape, dtype, document["elements"], axes)
    else:
        layout = Layout.linear(name, shape, dtype, lane=document["lane"], item=document["item"], axes=axes)
    for key in _SIZES:
        own = getattr(layout, key)
        if document.get(key, own) != own:
            raise InputError(f"{key} is {document[key]!r}", where=where, expected=f"{own}, as it follows")
    return layout
