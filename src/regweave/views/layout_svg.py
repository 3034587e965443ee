"""A layout drawn as SVG: the tile as a grid, each cell saying which lane and register hold the element.

Cells of one lane share a hue, so that the shape of a fragment is seen at once; neighbouring lanes get
distant hues, and a lane's later registers are darker. A legend names the lanes. Large tiles are drawn small
and without words; every cell still tells its slots when the pointer rests on it.
"""

from __future__ import annotations

import numpy as np

from regweave.errors import UnsupportedError
from regweave.layouts import Layout, Slot
from regweave.views.canvas import Canvas, lane_colour

_LEFT, _TOP = 12, 20
_CELL, _SMALL_CELL = (46, 32), (9, 9)
_MOST_WORDS = 32 * 32  # cells that are drawn with words
_MOST_CELLS = 1 << 16
_LEGEND = 8  # lanes that the legend names


def layout_svg(layout: Layout) -> str:
    """The layout as one `<svg>` element; an element with several holders shows the first and a plus sign.

    Raises UnsupportedError for a tile of more than 65536 elements.
    """
    canvas = Canvas(f"{layout.name}: {layout.shape[0]} x {layout.shape[1]} {layout.dtype}")
    draw_layout(canvas, layout, _LEFT, _TOP)
    return canvas.svg()


def draw_layout(canvas: Canvas, layout: Layout, left: float, top: float) -> None:
    """Draw the tile with its heading and legend, its upper left corner at (left, top)."""
    rows, columns = layout.shape
    if layout.elements > _MOST_CELLS:
        raise UnsupportedError(
            f"a drawing of {layout.elements} elements", where=f"layout {layout.name}",
            expected=f"at most {_MOST_CELLS}", fix="write it as CSV",
        )  # fmt: skip
    small = layout.elements > _MOST_WORDS
    width, height = _SMALL_CELL if small else _CELL
    canvas.text(left, top, layout.name, size=13, bold=True)
    held = "one slot" if layout.bijective else f"{layout.table.size / layout.elements:g} slots on average"
    canvas.text(
        left, top + 15,
        f"{rows} x {columns} {layout.dtype}, {layout.lanes} lanes x {layout.items} items, {held} per element",
        faint=True,
    )  # fmt: skip
    left, top = left + 24, top + 42
    canvas.text(left - 14, top - 8, f"{layout.axes[0]}\\{layout.axes[1]}", size=9, middle=True, faint=True)
    step = 8 if small else 1
    for column in range(0, columns, step):
        canvas.text(left + (column + 0.5) * width, top - 6, str(column), size=9, middle=True, faint=True)
    shades = max(1, layout.registers - 1)
    holders = _holders(layout)
    for row in range(rows):
        y = top + row * height
        if row % step == 0:
            canvas.text(left - 12, y + height / 2 + 4, str(row), size=9, middle=True, faint=True)
        for column in range(columns):
            slots = holders[row * columns + column]
            first = slots[0]
            text = "" if small else f"L{first.lane}|{slot_name(layout, first)}{'+' if len(slots) > 1 else ''}"
            words = "; ".join(f"lane {s.lane} {slot_name(layout, s)}" for s in slots)
            fill = lane_colour(first.lane, first.register / shades)
            canvas.box(left + column * width, y, width, height, fill, f"({row}, {column}): {words}", text)
    _draw_legend(canvas, layout, left, top + rows * height + 12)


def slot_name(layout: Layout, slot: Slot) -> str:
    """`r2`, or `r2.1` where elements share registers."""
    return f"r{slot.register}.{slot.part}" if layout.element_type.per_register > 1 else f"r{slot.register}"


def _holders(layout: Layout) -> list[list[Slot]]:
    """The slots of every element, by element number, lanes in order."""
    order = np.argsort(layout.table, axis=None, kind="stable")
    holders: list[list[Slot]] = [[] for _ in range(layout.elements)]
    numbers = layout.table.ravel()
    for place in order.tolist():
        lane, item = divmod(place, layout.items)
        holders[numbers[place]].append(layout.slot_of(lane, item))
    return holders


def _draw_legend(canvas: Canvas, layout: Layout, left: float, top: float) -> None:
    shown = min(layout.lanes, _LEGEND)
    for lane in range(shown):
        canvas.box(left + lane * 34, top, 32, 14, lane_colour(lane, 0.3), f"lane {lane}", f"L{lane}")
    more = f"... L{layout.lanes - 1}" if layout.lanes > shown else ""
    part = ".part" if layout.element_type.per_register > 1 else ""
    canvas.text(left + shown * 34 + 4, top + 11, more, size=10, faint=True)
    canvas.text(left, top + 28, f"L lane, r register{part}; darker: a later register", size=10, faint=True)
