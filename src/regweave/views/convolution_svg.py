"""A convolution's plan drawn: the image under its grid of threads, and how the first of them read it.

Left, the result with the groups of threads that cover it. Right, the first threads of a column with the image
rows that they read, those that two of them read darker; below, a group along the row, whose threads read
nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.views.canvas import Canvas, lane_colour
from regweave.views.convolution_text import row_words

if TYPE_CHECKING:
    from regweave.convolution.plan import ConvPlan

_SIDE = 300  # the longer side of the image
_CELL, _MOST_ROWS, _THREADS, _WIDE = 12, 40, 4, 80
_MOST_GROUPS, _MOST_LANES = 24, 16


def convolution_svg(plan: ConvPlan) -> str:
    """The picture as one `<svg>` element."""
    canvas = Canvas(f"{plan.convolution} on {plan.machine.name}")
    canvas.text(12, 20, f"{plan.convolution}, {plan.dtype}", size=13, bold=True)
    r = plan.registers
    canvas.text(
        12,
        36,
        f"{plan.machine.name}, form {plan.form}: {plan.threads[0]} x {plan.threads[1]} threads, "
        f"{' x '.join(map(str, plan.outputs_per_thread))} outputs each, {r.used} of {r.available} registers, "
        f"{plan.predicted_ms:.3g} ms",
        faint=True,
    )
    _grid(canvas, plan, 12, 76)
    _column(canvas, plan, 12 + _SIDE + 60, 76)
    _row(canvas, plan, 12, canvas.bottom + 44)
    return canvas.svg()


def _grid(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> None:
    """The result, and the groups that compute it; many are drawn as few."""
    across, down = plan.convolution.horizontal.outputs, plan.convolution.vertical.outputs
    scale = _SIDE / max(across, down)
    width, height = max(8.0, across * scale), max(8.0, down * scale)
    columns, rows = plan.columns, plan.outputs_per_thread[1] * plan.group[1]
    groups = -(-across // columns), -(-down // rows)
    canvas.text(left, top - 8, f"result {down} x {across}: {groups[1]} x {groups[0]} groups", bold=True)
    shown = min(groups[0], _MOST_GROUPS), min(groups[1], _MOST_GROUPS)
    for y in range(shown[1]):
        for x in range(shown[0]):
            canvas.box(
                left + width * x / shown[0],
                top + height * y / shown[1],
                width / shown[0],
                height / shown[1],
                lane_colour(x + 3 * y, 0.2),
                f"groups {_span(x, shown[0], groups[0])} along the row, {_span(y, shown[1], groups[1])} down",
            )


def _span(index: int, shown: int, count: int) -> str:
    first, last = index * count // shown, (index + 1) * count // shown - 1
    return str(first) if first == last else f"{first} .. {last}"


def _column(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> None:
    """Image rows down; one bar for each of the first threads of a column."""
    axis, each = plan.convolution.vertical, plan.outputs_per_thread[1]
    canvas.text(left, top - 8, f"along the column: {plan.overlap} rows shared", bold=True)
    spans = []
    for thread in range(min(_THREADS, plan.threads[1])):
        last = min((thread + 1) * each, axis.outputs) - 1
        spans.append((axis.place(thread * each, 0), axis.place(last, axis.kernel - 1)))
    start = spans[0][0]
    readers = [sum(low <= row <= high for low, high in spans) for row in range(start, spans[-1][1] + 1)]
    for thread, (low, high) in enumerate(spans):
        for row in range(low, min(high, start + _MOST_ROWS - 1) + 1):
            inside = 0 <= row < axis.size
            shade = 0.9 if readers[row - start] > 1 else 0.1
            canvas.box(
                left + thread * _WIDE,
                top + (row - start) * _CELL,
                _WIDE - 14,
                _CELL,
                lane_colour(thread, shade) if inside else "#eee",
                f"thread {thread} reads {'row ' + str(row) if inside else 'padding'}",
            )
    for number, words in enumerate(row_words(plan)):
        canvas.text(left + len(spans) * _WIDE, top + 12 + 15 * number, words, size=10)


def _row(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> None:
    """The threads of a group along the row."""
    threads, each = plan.group[0], plan.outputs_per_thread[0]
    canvas.text(left, top - 8, f"along the row: {threads} threads x {each}, nothing twice", bold=True)
    for thread in range(min(threads, _MOST_LANES)):
        hint = f"thread {thread}: outputs {thread * each} .. {(thread + 1) * each - 1}"
        canvas.box(left + 46 * thread, top, 44, 26, lane_colour(thread, 0.2), hint, f"t{thread}")
    if threads > _MOST_LANES:
        canvas.text(left + 46 * _MOST_LANES + 4, top + 17, f"... t{threads - 1}")
