"""A rearrangement drawn as text: fragments, group, matrices with their conflicts, expressions, strategy,
code.

    Preliminary matrix: every lane fills its registers in order (* asked twice in one round)

      lane 0   (0,0,0)*  (0,2,1)*  (2,0,2)*  (2,2,3)*
      lane 1   (0,1,0)*  (0,3,1)*  (2,1,2)*  (2,3,3)*

Plain characters and a fixed width, so that it can be pasted, compared and kept as a golden file.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.layouts import Layout
from regweave.rearrangement import CoordinationMatrix, Plan
from regweave.rearrangement.candidates import order_text
from regweave.views.rearrangement_document import plan_code, plan_conflicts

_LANGUAGES = {"cuda": "CUDA C++", "hip": "HIP C++", "opencl": "OpenCL C", "x86": "x86-64 assembly"}
_WIDTH = 110
_MOST_ROWS = 32


def plan_text(plan: Plan) -> str:
    """The whole drawing of a plan."""
    rows, columns = plan.source.shape
    title = f"{plan.source.name} -> {plan.destination.name}"
    blocks = [
        f"{title}\n{'=' * len(title)}\n{rows} x {columns} tile on {plan.machine.name}, {plan.machine.title}",
        _fragments(plan),
        *_exchange(plan),
        "Strategy\n\n" + explanation_text(plan),
    ]
    code = plan_code(plan)
    if code is not None:
        blocks.append(f"Code ({_LANGUAGES[plan.language]})\n\n" + _indented(code.splitlines()))
    return "\n\n".join(blocks) + "\n"


def explanation_text(plan: Plan) -> str:
    """Every strategy with its cost; which one was taken, and why the others were not."""
    costs = plan.machine.costs
    chosen = plan.chosen
    names = [candidate.name for candidate in plan.candidates]
    width = max(len(name) for name in names)
    # a plan that refuses for want of a strategy has a candidate of its own, with another reason
    same = [candidate for candidate in plan.candidates if candidate.name == chosen.name]
    taken = chosen if chosen in plan.candidates else same[0]
    lines = []
    for candidate in plan.candidates:
        if candidate.applies:
            slots = candidate.cost.slots(costs)
            text = f"{candidate.cost} = {candidate.cost.instructions} instructions, {slots} issue slots"
            if chosen.applies and candidate is not chosen:
                extra = candidate.cost.instructions - chosen.cost.instructions
                text += f": {abs(extra)} {'more' if extra > 0 else 'fewer'}" if extra else ": no fewer"
            if names.count(candidate.name) > 1:
                text += f" ({candidate.reason})"
        elif candidate.strategy == "refuse":
            text = candidate.reason
        else:
            text = f"does not apply: {candidate.reason}"
        mark = "->" if candidate is taken else "  "
        lines.append(f"  {mark} {candidate.name:<{width}}  {text}")
    if plan.asked is None:
        verb = "takes the fewest instructions of those that apply" if chosen.applies else "is what is left"
        taken_words = f"{chosen.name} {verb}"
    elif chosen.form in (None, plan.asked):
        taken_words = f"{chosen.name} was asked for"
    else:
        taken_words = f"{plan.asked} was asked for, and {chosen.name} taken"
    lines += ["", f"  {taken_words}: {chosen.reason}."]
    if plan.one_hop_minimum:
        bound, direct = _count(plan.lower_bound, "exchange"), _count(plan.one_hop_minimum, "exchange")
        lines.append(
            f"  No sequence does with fewer than {bound}; {direct} at least if no lane relays for others."
        )
    if chosen.strategy == "shared":
        lines.append(
            f"  Shared memory: {_count(plan_conflicts(plan), 'bank conflict')}, counted by simulation."
        )
    load, usual = plan.next_load, plan.offers.other
    if load is not None and usual is not None:
        coming = usual.next
        text = (
            f"  The other operand comes from {coming.place} memory, neighbours along {coming.along}: {load}, "
        )
        text += f"{load.instructions} instructions"
        if load.order != usual.true.order:
            text += f"; in the true order of k {usual.true}, {usual.true.instructions} instructions"
        lines.append(text + ".")
        if load.result_order is not None:
            lines.append(f"  Its n comes in the order {order_text(load.result_order)}.")
    if chosen.cost.hoistable:
        lines.append(f"  In a loop, {chosen.cost.hoistable} of the instructions are done once, before it.")
    lines += [f"  {remark}" for remark in _emulated(plan)]
    if chosen.applies:
        lines.append(f"  Proved by running it on all {plan.destination.lanes} lanes x "
                     f"{plan.destination.items} elements.")  # fmt: skip
    return "\n".join(lines)


def _emulated(plan: Plan) -> list[str]:
    """A remark on each instruction of the plan's layouts that the machine does not execute itself."""
    names = {side.name.partition(":")[0]: None for side in (plan.source, plan.destination)}
    found = [plan.machine.instructions.resolve(name) for name in names]
    machine = plan.machine
    return [
        f"{name} is no instruction that {machine.name} executes itself: "
        f"{machine.instructions[name].note or 'its compiler writes it out'}."
        for name in found
        if name is not None and not machine.native(name)
    ]


def matrix_text(matrix: CoordinationMatrix) -> str:
    """One line per lane of the group, one entry (p,q,r) per round; * marks a lane that is asked twice."""
    cells = []
    for lane, row in zip(matrix.lanes, matrix.rows, strict=True):
        entries = []
        for number, entry in enumerate(row):
            asked_twice = entry is not None and entry.peer in matrix.conflicts(number)
            entries.append("-" if entry is None else f"{entry}{'*' if asked_twice else ''}")
        cells.append([f"lane {lane}", *entries])
    text = _columns(cells)
    stays = [
        f"lane {lane} keeps word {entry.word} as its word {entry.keep}"
        for lane, entries in zip(matrix.lanes, matrix.stays, strict=True)
        for entry in entries
    ]
    again = [
        f"lane {lane} keeps word {entry.word} of lane {entry.peer} as its word {entry.keep} too"
        for index, lane in enumerate(matrix.lanes)
        for entry in matrix.copies_of(index)
    ]
    kept = [*stays, *again]
    return "\n".join([*text, *(["", *kept] if kept else [])])


def _exchange(plan: Plan) -> list[str]:
    if plan.group is None or plan.matrix is None:
        return ["No exchange in rounds exists for this pair, so there is no coordination matrix."]
    group = plan.group
    lines = [f"Group: lanes {_numbers(group.lanes)} x registers {_numbers(group.registers)}"]
    for what, offsets in (("lanes", group.lane_offsets), ("registers", group.register_offsets)):
        if len(offsets) > 1:
            lines.append(f"  copies at {what} {_offsets(offsets[1:])}")
    unused = ""
    if plan.strategy != "exchange":
        unused = f" (of the exchange; not needed, the strategy is {plan.strategy})"
    elif plan.chosen.matrix is None:
        unused = f" (of the rounds of a plain exchange; {plan.chosen.name} goes another way)"
    expressions = _expressions(plan)
    return [
        "\n".join(lines),
        "Entries (p,q,r): take word q of lane p, keep it as word r; one column per round.",
        *_preliminary(plan),
        f"Coordination matrix H, without conflicts{unused}\n\n"
        + _indented(matrix_text(plan.matrix).splitlines()),
        *([expressions] if expressions else []),
    ]


def _preliminary(plan: Plan) -> list[str]:
    """The matrix of registers filled in order; words that are packed on the way have no such order."""
    if plan.preliminary is None:
        return []
    heading = "Preliminary matrix: every lane fills its registers in order (* asked twice in one round)"
    return [f"{heading}\n\n" + _indented(matrix_text(plan.preliminary).splitlines())]


def _expressions(plan: Plan) -> str:
    if not plan.expressions:
        return ""
    blocks = []
    for number, entry in enumerate(plan.expressions):
        rows = []
        rows_of = (
            ("f", entry.f, entry.peers, f"take from lane, modulo {entry.width}"),
            ("g", entry.g, entry.words, "take word"),
            ("h", entry.h, entry.keeps, "keep as word"),
            ("s", entry.s, entry.offers, "offer word"),
        )
        for name, expression, values, meaning in rows_of:
            label = f"round {number}" if name == "f" else ""
            shown = " ".join("-" if value is None else str(value) for value in values)
            rows.append([label, f"{name}_{number}", "=", shown, "=", str(expression), meaning])
        blocks.append(rows)
    flat = [row for rows in blocks for row in rows]
    return "Index expressions of the lane's number\n\n" + _indented(_columns(flat))


def _fragments(plan: Plan) -> str:
    grids = [_grid(layout) for layout in (plan.source, plan.destination)]
    width = sum(len(grid[-1]) for grid in grids) + 6
    heading = "Fragments: the lane and register (and part) that hold an element"
    if width <= _WIDTH and max(len(grid) for grid in grids) <= _MOST_ROWS:
        left = max(len(line) for line in grids[0])
        pairs = zip(_padded(grids[0], len(grids[1])), _padded(grids[1], len(grids[0])), strict=True)
        return f"{heading}\n\n" + _indented([f"{a:<{left}}    {b}".rstrip() for a, b in pairs])
    lanes = plan.group.lanes if plan.group is not None else range(min(4, plan.source.lanes))
    tables = [_slots(layout, lanes[:_MOST_ROWS]) for layout in (plan.source, plan.destination)]
    heading = "Fragments: the elements that the first lanes hold, register by register"
    return f"{heading}\n\n" + _indented([*tables[0], "", *tables[1]])


def _grid(layout: Layout) -> list[str]:
    shared = layout.element_type.per_register > 1
    cells = [[f"{layout.axes[0]}\\{layout.axes[1]}", *(str(column) for column in range(layout.shape[1]))]]
    for row in range(layout.shape[0]):
        slots = [layout.slots(row, column)[0] for column in range(layout.shape[1])]
        cells.append(
            [str(row), *(f"{s.lane}.{s.register}" + (f".{s.part}" if shared else "") for s in slots)]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [" ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return [f"{layout.name} ({layout.dtype})", *lines]


def _slots(layout: Layout, lanes: Sequence[int]) -> list[str]:
    cells = []
    for lane in lanes:
        pairs = [divmod(int(number), layout.shape[1]) for number in layout.table[lane]]
        cells.append([f"lane {lane}", *(f"({row},{column})" for row, column in pairs)])
    return [f"{layout.name} ({layout.dtype})", *_columns(cells)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _padded(lines: list[str], count: int) -> list[str]:
    return lines + [""] * (count - len(lines))


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}".rstrip() for line in lines)


def _offsets(offsets: Sequence[int]) -> str:
    step = offsets[0]
    if len(offsets) > 4 and list(offsets) == list(range(step, offsets[-1] + 1, step)):
        return f"+{step} +{2 * step} ... +{offsets[-1]}"
    return " ".join(f"+{offset}" for offset in offsets)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _numbers(numbers: Sequence[int]) -> str:
    if len(numbers) > 4 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return " ".join(str(number) for number in numbers)
