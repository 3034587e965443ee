"""A plan drawn as SVG: where the data is, where it has to be, and the rounds that bring it there.

Both tiles in the colours of their lanes; below them the coordination matrix of the group, a row per lane
and a column per round, each entry in the colour of the lane that it is taken from; then the strategy and
its cost.
"""

from __future__ import annotations

from regweave.rearrangement import Entry, Plan
from regweave.views.canvas import Canvas, lane_colour
from regweave.views.layout_svg import draw_layout

_LEFT, _TOP, _GAP = 12, 20, 64
#: A letter in a cell of the matrix, what stands beside a cell's words, and a row's height.
_LETTER, _BESIDE, _HEIGHT = 7, 6, 22
_MOST_LANES, _MOST_ROUNDS = 64, 64


def plan_svg(plan: Plan) -> str:
    """The plan as one `<svg>` element."""
    canvas = Canvas(f"{plan.source.name} -> {plan.destination.name}: {plan.chosen.name}")
    draw_layout(canvas, plan.source, _LEFT, _TOP)
    middle = canvas.right + 14
    canvas.arrow(middle, _TOP + 60, _GAP - 30)
    draw_layout(canvas, plan.destination, middle + _GAP - 14, _TOP)
    top = canvas.bottom + 30
    canvas.text(_LEFT, top, f"{plan.chosen.name}: {plan.chosen.reason}", size=13, bold=True)
    canvas.text(
        _LEFT,
        top + 16,
        f"{plan.cost} = {plan.cost.instructions} instructions on {plan.machine.title}",
        faint=True,
    )
    if plan.fold is not None:
        order = ", ".join(map(str, plan.fold))
        canvas.text(_LEFT, top + 32, f"true k at each position of the next operand: {order}")
    matrix = plan.chosen.matrix
    if matrix is not None and len(matrix.lanes) <= _MOST_LANES and matrix.rounds <= _MOST_ROUNDS:
        _draw_matrix(canvas, plan, top + 44)
    return canvas.svg()


def _draw_matrix(canvas: Canvas, plan: Plan, top: float) -> None:
    matrix = plan.chosen.matrix
    assert matrix is not None
    left = _LEFT + 52
    words = [[entry and _entry_words(entry) for entry in row] for row in matrix.rows]
    wide = _BESIDE + _LETTER * max(len(word or "") for row in words for word in row)
    for number in range(matrix.rounds):
        canvas.text(left + (number + 0.5) * wide, top, f"round {number}", size=10, middle=True, faint=True)
    for at, (lane, row) in enumerate(zip(matrix.lanes, matrix.rows, strict=True)):
        y = top + 8 + at * _HEIGHT
        canvas.box(_LEFT, y, 46, _HEIGHT, lane_colour(lane, 0.3), f"lane {lane}", f"L{lane}")
        for number, entry in enumerate(row):
            x = left + number * wide
            if entry is None:
                canvas.box(x, y, wide, _HEIGHT, "#f4f4f4", "takes nothing")
                continue
            hint = (
                f"lane {lane} takes word {entry.word} of lane {entry.peer} and keeps it as word {entry.keep}"
            )
            canvas.box(x, y, wide, _HEIGHT, lane_colour(entry.peer, 0.2), hint, _entry_words(entry))
    canvas.text(
        _LEFT, canvas.bottom + 16, "L lane that is asked, w word taken \u2192 word kept", size=10, faint=True
    )


def _entry_words(entry: Entry) -> str:
    return f"L{entry.peer} w{entry.word} \u2192 w{entry.keep}"
