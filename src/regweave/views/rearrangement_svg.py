"""A layout drawn as SVG: the tile as a grid, each cell saying which lane and register hold the element.

Cells of one lane share a colour, so that the shape of a fragment is seen at once; neighbouring lanes get
distant hues. The drawing is one self-contained element without scripts, as notebooks want it.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from regweave.layouts import Layout

_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 58, 26, 30
_GOLDEN_ANGLE = 137.508  # degrees; consecutive lanes land far apart on the colour wheel


def layout_svg(layout: Layout) -> str:
    """The layout as one `<svg>` element; an element with several holders shows the first and a plus sign."""
    rows, columns = layout.shape
    width = _MARGIN + columns * _CELL_WIDTH + 1
    height = 2 * _MARGIN + rows * _CELL_HEIGHT + 1
    title = f"{escape(layout.name)}: {rows} x {columns} {escape(layout.dtype)}, lane.register"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="monospace" font-size="11" text-anchor="middle">',
        f"<title>{title}</title>",
        f'<text x="{_MARGIN}" y="16" font-size="13" text-anchor="start">{title}</text>',
    ]
    for column in range(columns):
        parts.append(_label(_MARGIN + (column + 0.5) * _CELL_WIDTH, 2 * _MARGIN - 6, str(column)))
    for row in range(rows):
        top = 2 * _MARGIN + row * _CELL_HEIGHT
        parts.append(_label(_MARGIN / 2, top + 17, str(row)))
        parts += [_cell(layout, row, column, top) for column in range(columns)]
    parts.append("</svg>")
    return "\n".join(parts)


def _cell(layout: Layout, row: int, column: int, top: float) -> str:
    slots = layout.slots(row, column)
    slot = slots[0]
    left = _MARGIN + column * _CELL_WIDTH
    part = f".{slot.part}" if layout.element_type.per_register > 1 else ""
    text = f"{slot.lane}.{slot.register}{part}" + ("+" if len(slots) > 1 else "")
    hue = slot.lane * _GOLDEN_ANGLE % 360
    holders = "; ".join(f"lane {s.lane} register {s.register} part {s.part}" for s in slots)
    return (
        f'<g><title>({row}, {column}): {holders}</title><rect x="{left}" y="{top}" width="{_CELL_WIDTH}" '
        f'height="{_CELL_HEIGHT}" fill="hsl({hue:.0f},60%,82%)" stroke="#666"/>'
        f"{_label(left + _CELL_WIDTH / 2, top + 17, text)}</g>"
    )


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{text}</text>'
