r"""A layout the other way round: the tile as it stands on paper, each place with the slots that hold it.

    m\n  0     1     2     3
      0  0:r0  0:r1  1:r0  1:r1
      1  4:r0  4:r1  5:r0  5:r1

`5:r1` is register 1 of lane 5, `5:r1.0` part 0 of it; an element that several slots hold names them all.
Tables are lists of lines of cells, written as CSV, Markdown or AsciiDoc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regweave.layouts import Layout
from regweave.layouts.tables import table_cells

Lines = Sequence[Sequence[str]]


def grid_cells(layout: Layout) -> list[list[str]]:
    """A line per row of the tile, under the columns' numbers."""
    rows, columns = layout.shape
    shared = layout.element_type.per_register > 1
    held: list[list[str]] = [[] for _ in range(rows * columns)]
    for lane, elements in enumerate(layout.table.tolist()):
        for item, element in enumerate(elements):
            slot = layout.slot_of(lane, item)
            held[element].append(f"{lane}:r{slot.register}" + (f".{slot.part}" if shared else ""))
    heading = ["\\".join(layout.axes), *map(str, range(columns))]
    return [
        heading,
        *([str(row), *map(" ".join, held[row * columns : (row + 1) * columns])] for row in range(rows)),
    ]


def slot_cells(layout: Layout) -> list[list[str]]:
    """A line per lane, under the registers' names: the table of `str(layout)`."""
    return table_cells(layout)[0]


def as_csv(lines: Lines) -> str:
    """Cells with a comma in them are quoted."""
    return "".join(",".join(f'"{cell}"' if "," in cell else cell for cell in line) + "\n" for line in lines)


def as_markdown(lines: Lines) -> str:
    """The first line is the heading."""
    rule = ["--:", *["---"] * (len(lines[0]) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:]))


def as_asciidoc(lines: Lines) -> str:
    """The first line is the heading."""
    first, *others = (" ".join(f"|{cell}" for cell in line) + "\n" for line in lines)
    return "[%header]\n|===\n" + first + "\n" + "".join(others) + "|===\n"


#: By the flag of `regweave layout`.
WRITERS: dict[str, Callable[[Lines], str]] = {
    "csv": as_csv,
    "markdown": as_markdown,
    "asciidoc": as_asciidoc,
}
