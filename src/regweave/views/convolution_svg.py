"""A convolution's plan drawn, for somebody who is about to write or to judge its kernel.

    the result, cut into groups  ->  one group, thread by thread  |  the rows that threads of a column share
    a thread's registers, to scale
    a row of the image as it lies in memory, and as threads read it (`convolution_rows`)

Colours tell threads apart, the same ones in every part; in darker shades is what two threads read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.views.canvas import Canvas, colour, lane_colour
from regweave.views.convolution_rows import draw_rows
from regweave.views.convolution_text import accounting, row_words

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan

_LEFT, _TOP, _GAP = 16, 92, 64
#: The longer sides of the result and of a group; groups shown, each way.
_SIDE, _GROUP_SIDE, _MOST_GROUPS = 250, 250, 24
#: Threads above one another: how many, rows, the height of them all, and of a row's cell at most.
_THREADS, _MOST_ROWS, _HIGH, _CELL, _WIDE = 4, 124, 374, 11, 58
_BAR, _BAR_HEIGHT = 620, 26
_QUIET = ("#e9eef6", "#f6f8fb")
_PADDING, _FREE = "#ececec", "#ffffff"
_HELD = (
    colour(215, 60, 72),
    colour(150, 45, 74),
    colour(35, 80, 76),
    colour(0, 0, 80),
    colour(215, 40, 92),
)


def convolution_svg(plan: ConvPlan) -> str:
    """The picture as one `<svg>` element."""
    canvas = Canvas(f"{plan.convolution} on {plan.machine.name}")
    canvas.text(_LEFT, 26, f"{plan.convolution}, {plan.dtype}", size=15, bold=True)
    canvas.text(
        _LEFT,
        45,
        f"{plan.machine.title}: form {plan.form}, {plan.threads[0]} x {plan.threads[1]} threads, "
        f"{' x '.join(map(str, plan.outputs_per_thread))} outputs each, "
        f"{plan.predicted_ms:.3g} ms predicted, bound by {plan.limit}",
        faint=True,
    )
    right = _grid(canvas, plan, _LEFT, _TOP)
    right = _group(canvas, plan, right + _GAP, _TOP)
    _column(canvas, plan, right + _GAP, _TOP)
    _registers(canvas, plan, _LEFT, canvas.bottom + 52)
    draw_rows(canvas, plan, _LEFT, canvas.bottom + 52)
    for note in plan.notes:
        canvas.text(_LEFT, canvas.bottom + 24, f"{note}.", size=10, faint=True)
    return canvas.svg()


def _grid(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> float:
    """The result, and the groups that compute it; many are drawn as few."""
    across, down = plan.convolution.horizontal.outputs, plan.convolution.vertical.outputs
    scale = _SIDE / max(across, down)
    width, height = max(24.0, across * scale), max(24.0, down * scale)
    groups = -(-across // plan.columns), -(-down // _group_rows(plan))
    canvas.text(left, top - 24, f"result {down} x {across}", bold=True)
    canvas.text(left, top - 9, f"{groups[1]} x {groups[0]} groups of threads", faint=True)
    shown = min(groups[0], _MOST_GROUPS), min(groups[1], _MOST_GROUPS)
    for y in range(shown[1]):
        for x in range(shown[0]):
            canvas.box(
                left + width * x / shown[0],
                top + height * y / shown[1],
                width / shown[0],
                height / shown[1],
                lane_colour(0, 0.8) if x == y == 0 else _QUIET[(x + y) % 2],
                f"groups {_span(x, shown[0], groups[0])} along the row, {_span(y, shown[1], groups[1])} down",
            )
    if shown != groups:
        canvas.text(left, top + height + 15, "(a box stands for several)", size=10, faint=True)
    canvas.arrow(left + max(width, 150) + 12, top + 12, _GAP - 24)
    return left + max(width, 150)


def _group_rows(plan: ConvPlan) -> int:
    return plan.outputs_per_thread[1] * plan.group[1]


def _span(index: int, shown: int, count: int) -> str:
    first, last = index * count // shown, (index + 1) * count // shown - 1
    return str(first) if first == last else f"{first} .. {last}"


def _group(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> float:
    """The threads of one group where their outputs are; the first one's are parted."""
    (across, down), (ox, oy, oc) = plan.group, plan.outputs_per_thread
    lanes = plan.machine.kind != "gpu"  # a lane's outputs are a vector apart
    # sides have scales of their own: groups of tall tiles are many times as high as wide
    wide, high = (min(_GROUP_SIDE / side, 15.0) for side in (plan.columns, _group_rows(plan)))
    word = "lanes" if lanes else "threads"
    title = f"one group: {across} x {down} {word}" if plan.lanes == "pixels" else "pixels of one lane"
    canvas.text(left, top - 24, title, bold=True)
    filters = "" if oc == 1 else f", of {oc} filters"
    canvas.text(left, top - 9, f"{ox} x {oy} outputs each{filters}", faint=True)
    for thread in range(across * down):
        x, y = thread % across, thread // across
        hint = f"thread {thread}: {ox} outputs along the row, {oy} down"
        runs = [(part * across + x, 1) for part in range(ox)] if lanes else [(x * ox, ox)]
        for first, run in runs:
            place = left + wide * first, top + high * y * oy
            name = f"t{thread}" if run * wide >= 9 * len(f"t{thread}") and oy * high >= 12 else ""
            canvas.box(*place, wide * run, high * oy, lane_colour(thread, 0.25), hint, name)
            if thread == 0 and wide * run >= 4 and high >= 4:
                _parted(canvas, place, (wide, high), (run, oy), hint)
    width, height = wide * plan.columns, high * _group_rows(plan)
    stored = f"a row of it: {plan.columns} outputs, {plan.columns * plan.element} bytes"
    if plan.lanes != "pixels":
        stored = f"neighbouring lanes are {plan.lanes}, side by side in memory"
    canvas.text(left, top + height + 15, stored, size=10, faint=True)
    canvas.text(
        left, top + height + 28, f"(storage rows of {plan.machine.storage_row} bytes)", size=10, faint=True
    )
    return left + max(width, 6.2 * len(stored))


def _parted(
    canvas: Canvas, place: tuple[float, float], cell: tuple[float, float], outputs: tuple[int, int], hint: str
) -> None:
    for number in range(outputs[0] * outputs[1]):
        x, y = number % outputs[0], number // outputs[0]
        canvas.box(place[0] + cell[0] * x, place[1] + cell[1] * y, *cell, lane_colour(0, 0.8), hint)


def _column(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> None:
    """Image rows down; one bar for each of the first threads of a column."""
    axis, each = plan.convolution.vertical, plan.outputs_per_thread[1]
    canvas.text(left, top - 24, f"down the column: {plan.overlap} image rows shared", bold=True)
    canvas.text(left, top - 9, "rows that each thread reads; dark: its neighbour does, too", faint=True)
    spans = []
    for thread in range(min(_THREADS, plan.threads[1])):
        last = min((thread + 1) * each, axis.outputs) - 1
        spans.append((axis.place(thread * each, 0), axis.place(last, axis.kernel - 1)))
    start, end = spans[0][0], max(high for _, high in spans)
    shown = min(end - start + 1, _MOST_ROWS)
    cell = min(_CELL, _HIGH / shown)
    step = next(step for step in (2, 5, 10, 20) if step * cell >= 14)
    readers = [sum(low <= row <= high for low, high in spans) for row in range(start, end + 1)]
    for row in range(start, start + shown):
        if row % step == 0 and 0 <= row < axis.size:
            canvas.text(left, top + (row - start + 0.5) * cell + 3.5, f"{row:>4}", size=9, faint=True)
    for thread, (low, high) in enumerate(spans):
        number = thread * plan.group[0] if thread < plan.group[1] else thread
        place = left + 32 + thread * _WIDE
        for row in range(low, min(high, start + shown - 1) + 1):
            inside = 0 <= row < axis.size
            fill = lane_colour(number, 0.95 if readers[row - start] > 1 else 0.2)
            hint = f"thread {thread} of the column reads {f'row {row}' if inside else 'padding'}"
            y = top + (row - start) * cell
            canvas.box(place, y, _WIDE - 10, cell, fill if inside else _PADDING, hint)
    bottom = top + shown * cell + 15
    if shown <= end - start:
        canvas.text(left + 32, bottom, "...", faint=True)
        bottom += 14
    for number, words in enumerate(row_words(plan)):
        canvas.text(left, bottom + 14 * number, words, size=10, faint=True)


def _registers(canvas: Canvas, plan: ConvPlan, left: float, top: float) -> None:
    """What a thread's registers hold, to scale; how many let all threads stay resident."""
    r, machine = plan.registers, plan.machine
    total = max(r.available, r.used)
    canvas.text(left, top - 9, f"registers of a thread: {r.used} of {r.available}", bold=True)
    scale, place = _BAR / total, left
    parts = accounting(plan)
    for (count, word), fill in zip((*parts, (total - r.used, "free")), (*_HELD, _FREE), strict=True):
        if count > 0:
            wide = count * scale
            name = next((text for text in (f"{count} {word}", str(count)) if 7 * len(text) < wide), "")
            canvas.box(place, top, wide, _BAR_HEIGHT, fill, f"{count} registers: {word}", name)
            place += wide
    words = ", ".join(f"{count} {word}" for count, word in parts if count)
    if machine.full_registers < total:
        mark = left + machine.full_registers * scale
        canvas.box(mark - 1, top - 4, 2, _BAR_HEIGHT + 8, "#1a1a1a")
        words += f"; up to {machine.full_registers} all threads stay resident (mark)"
    canvas.text(left, top + _BAR_HEIGHT + 17, words, size=10, faint=True)
