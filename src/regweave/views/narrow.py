"""Tables in narrow terminals: where a table cannot be as wide as its words, each row becomes a few lines.

    Conv.8 .. Identity.28 (14)   960 x 96-192-96
    fused: 1.47 MB of intermediates stay in the core's cache
      traffic MB  2.73 -> 1.25
      speed-up    1.16x

Drawn as a table such a row would lose columns: rich takes from them what is missing elsewhere.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: What a table takes beside its words: at its edge, and for each column.
_EDGE, _BETWEEN = 1, 3


def fitting(console: Console, answer: RenderableType) -> RenderableType:
    """`answer`, its tables that do not fit the console's width as lines."""
    if isinstance(answer, Group):
        return Group(*(fitting(console, part) for part in answer.renderables))
    if not isinstance(answer, Table):
        return answer
    return _lines(answer) if _least_width(console, answer) > console.width else answer


def _least_width(console: Console, table: Table) -> int:
    """The width at which nothing is cut; rich's own measure breaks what must not be broken."""
    free, width = console.options.update(width=1 << 12), _EDGE
    for column in table.columns:
        cells = [Measurement.get(console, free, cell) for cell in (column.header, *column.cells)]
        width += _BETWEEN + max(cell.maximum if column.no_wrap else cell.minimum for cell in cells)
    return width


def _lines(table: Table) -> Group:
    lines: list[Any] = [] if table.title is None else [Text(str(table.title), style="italic"), ""]
    headings = [column.header if table.show_header else "" for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        facts = Table(box=None, show_header=False, pad_edge=False)
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        for heading, cell in zip(headings[1:], others, strict=True):
            if not isinstance(cell, (str, Text)) or str(cell).strip():
                facts.add_row(heading, Text(" ".join(cell.plain.split())) if isinstance(cell, Text) else cell)
        lines.append(first)
        if facts.rows:
            lines.append(Padding(facts, (0, 0, 0, 2)))
    if table.caption is not None:
        lines += ["", table.caption]
    return Group(*lines)
