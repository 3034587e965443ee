"""A row of the image as it lies in memory, and the rows that a plan's form makes of it.

image row    . 0 1 2 3 4 5 6 ...          phase 0    . 1 3 5 7 ...     taps 0, 2, 4
                                          phase 1    0 2 4 6 8 ...     taps 1, 3
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.views.canvas import Canvas, lane_colour

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan
    from regweave.operators import Axis

_CELL, _HEIGHT, _SHOWN, _MOST_PLANES = 26, 20, 24, 8
_LABEL = 96
#: Colours of phases begin where those of the first threads are over.
_FIRST_PHASE = 4
_PADDING = "#ececec"
_TITLES = {
    "none": "a row of the image, and what each tap reads of it where it is",
    "polyphase": "a row of the image, and the phases stored of it: {} times the image",
    "unrolled": "a row of the image, and the rows stored of it, one for each tap: {} times the image",
}


def draw_rows(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> None:
    """The first elements of an image row, and below them those of each row that it becomes."""
    if plan.form not in _TITLES:  # rows that are sums of several have no elements to be shown
        return
    from regweave.convolution.forms import plane_of, plane_shifts, plane_width

    axis = plan.convolution.horizontal
    canvas.text(left, top - 9, _TITLES[plan.form].format(f"{plan.expansion:.2f}"), bold=True)
    elements = range(-axis.before, min(axis.size + axis.after, _SHOWN - axis.before))
    _line(canvas, axis, left, top, "image row", elements)
    top += _HEIGHT + 14
    if plan.form == "polyphase":
        shifts = plane_shifts(axis, plan.form)
        names = [f"phase {plane}" for plane in range(len(shifts))]
        wide = min(_SHOWN - 4, plane_width(axis, plan.form))
    else:
        shifts = tuple(tap * axis.dilation for tap in range(axis.kernel))
        names = [f"tap {tap}" for tap in range(axis.kernel)]
        wide = min(_SHOWN - 4, axis.outputs)
    for plane, (shift, name) in enumerate(zip(shifts, names, strict=True)):
        first = shift - axis.before
        line = top + plane * (_HEIGHT + 2)
        if plane == _MOST_PLANES:
            canvas.text(left, line + 12, f"... and {len(shifts) - plane} more", size=10, faint=True)
            break
        _line(canvas, axis, left, line, name, range(first, first + wide * axis.stride, axis.stride))
        if plan.form == "polyphase":
            found = [(tap, plane_of(axis, plan.form, tap)) for tap in range(axis.kernel)]
            words = [f"tap {tap} from cell {place}" for tap, (which, place) in found if which == plane]
            more = ", ..." if len(words) > 4 else ""
            place = left + _LABEL + wide * _CELL + 10
            canvas.text(place, line + 14, ", ".join(words[:4]) + more, size=10, faint=True)


def _line(canvas: Canvas, axis: Axis, left: float, top: float, name: str, places: range) -> None:
    canvas.text(left, top + 14, name)
    for number, place in enumerate(places):
        inside = 0 <= place < axis.size
        colour = lane_colour(_FIRST_PHASE + (place + axis.before) % axis.stride, 0.2)
        hint = f"element {place} of the row" if inside else "padding: zero"
        x = left + _LABEL + number * _CELL
        canvas.box(x, top, _CELL, _HEIGHT, colour if inside else _PADDING, hint, str(place) if inside else "")
