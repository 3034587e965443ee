"""`regweave layout NAME`: which element lives in which register of which lane.

$ regweave layout mma.m16n8k8.tf32:C --where 9 2
$ regweave layout mma.m16n8k16.f16:A --slot 5 2
$ regweave layout v_mfma_f32_32x32x8_f16:D --matrix --csv
$ regweave layout v_mfma_f32_32x32x8_f16:D --svg d.svg
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from regweave.cli.names import LayoutName, MachineName, read_layout
from regweave.cli.output import print_document, talk_console
from regweave.errors import InputError
from regweave.files import write_file


def layout_command(
    name: LayoutName,
    /,
    *,
    where: tuple[int, int] | None = None,
    slot: tuple[int, int] | None = None,
    tile: str | None = None,
    machine: MachineName | None = None,
    matrix: bool = False,
    csv: bool = False,
    markdown: bool = False,
    asciidoc: bool = False,
    triton: bool = False,
    cute: bool = False,
    svg: Path | None = None,
    json: bool = False,
) -> None:
    """Show which element lives in which register of which lane.

    Parameters
    ----------
    name:
        An operand of a matrix instruction (mma.m16n8k8.tf32:C), another layout of the catalogue, a pasted
        Triton attribute or CuTe layout, or a file with one; @TYPE and ^T may follow.
    where:
        Say which lanes and registers hold the element in this row and column.
    slot:
        Say which elements this lane holds in this register.
    tile:
        ROWSxCOLUMNS to repeat a named fragment to, or of a pasted layout that does not say its sizes.
    machine:
        Fail if this machine lacks the layout.
    matrix:
        Show the tile: which lane and register hold each of its elements.
    csv:
        Print one line per slot; with --matrix, the tile as CSV.
    markdown:
        Print a Markdown table, of lanes or with --matrix of the tile.
    asciidoc:
        The same as an AsciiDoc table.
    triton:
        Print a Triton attribute, #ttg.linear.
    cute:
        Print a CuTe layout, (shape):(stride).
    svg:
        Draw the tile into this file.
    json:
        Print one JSON document on stdout.
    """
    from regweave.rearrangement import layout as find

    forms = {"--csv": csv, "--markdown": markdown, "--asciidoc": asciidoc}
    flags = {
        "--where": where is not None,
        "--slot": slot is not None,
        **forms,
        "--triton": triton,
        "--cute": cute,
    }
    asked = [flag for flag, given in flags.items() if given]
    if len(asked) + (json and asked[:1] not in ([], ["--where"], ["--slot"])) > 1 or (
        matrix and (json or {*asked} - {*forms})
    ):
        given = [*(["--matrix"] if matrix else []), *asked, *(["--json"] if json else [])]
        raise InputError(
            f"{' and '.join(given)} ask for different answers",
            where="the command line",
            expected="one of them (--where and --slot go with --json; the tables with --matrix)",
        )
    layout = find(read_layout(name), machine, tile=tile)
    if svg is not None:
        write_file(svg, layout.to_svg() + "\n")
        talk_console().print(f"drawn to {svg}", markup=False)
        if not asked and not json and not matrix:
            return
    if where is not None:
        found = [{"lane": s.lane, "register": s.register, "part": s.part} for s in layout.slots(*where)]
        _answer({"layout": layout.name, "element": list(where), "slots": found}, json)
    elif slot is not None:
        parts = _held(layout, *slot)
        _answer({"layout": layout.name, "lane": slot[0], "register": slot[1], "elements": parts}, json)
    elif json:
        print_document(_described(layout))
    else:
        text = _grid(layout, asked) if matrix else _written(layout, asked)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def _written(layout: Any, asked: list[str]) -> str:
    from regweave.views.layout_grid import as_asciidoc, slot_cells

    if not asked:
        return _heading(layout) + str(layout)
    if asked == ["--asciidoc"]:
        return as_asciidoc(slot_cells(layout))
    written = {"--csv": layout.to_csv, "--markdown": layout.to_markdown, "--triton": layout.to_triton,
               "--cute": layout.to_cute}  # fmt: skip
    return written[asked[0]]()


def _grid(layout: Any, asked: list[str]) -> str:
    """The tile with the slots of its elements, as text or in the form that was asked for."""
    from regweave.layouts.tables import aligned
    from regweave.views.layout_grid import WRITERS, grid_cells

    cells = grid_cells(layout)
    return WRITERS[asked[0].removeprefix("--")](cells) if asked else _heading(layout) + aligned(cells)


def _held(layout: Any, lane: int, register: int) -> list[list[int]]:
    """The elements of a register, part by part; either register of a 64-bit element holds it."""
    kind = layout.element_type
    first = register // kind.registers * kind.per_register
    count = max(1, min(kind.per_register, layout.items - first))
    return [list(layout.element(lane, register, part)) for part in range(count)]


def _answer(document: dict[str, Any], json: bool) -> None:
    if json:
        print_document(document)
    elif "slots" in document:
        for found in document["slots"]:
            part = f" part {found['part']}" if any(other["part"] for other in document["slots"]) else ""
            print(f"lane {found['lane']} register {found['register']}{part}")
    else:
        for part, (row, column) in enumerate(document["elements"]):
            print(f"({row}, {column})" + (f" in part {part}" if len(document["elements"]) > 1 else ""))


def _described(layout: Any) -> dict[str, Any]:
    """The layout's document with the sizes that follow from it."""
    sizes = {"lanes": layout.lanes, "items": layout.items, "registers": layout.registers}
    return {**layout.to_document(), **sizes, "bijective": layout.bijective}


def _heading(layout: Any) -> str:
    rows, columns = layout.shape
    each = "" if layout.bijective else f", {layout.table.size / layout.elements:g} slots per element"
    words = f"{layout.name}: {rows} x {columns} ({layout.axes[0]} x {layout.axes[1]}) {layout.dtype}, "
    return f"{words}{layout.lanes} lanes x {layout.registers} registers{each}\n\n"
