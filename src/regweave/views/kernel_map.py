"""A kernel's register map drawn as SVG or as text: time runs down, registers go across.

In the drawing every name has a colour, and beside each class stands the pressure: how many registers hold
something at each operation. In the text every name has a sign, told in the legend below.

    0 v_lshlrev_b32 at, 4, thread_x |AT   |..
    1 global_load_dwordx4 quad, ... |a QQQQ|BB
"""

from __future__ import annotations

import string
from itertools import groupby

from regweave.assembly.amd import FinishedKernel
from regweave.views.canvas import Canvas
from regweave.views.kernel_spans import CLASSES, Span, kernel_spans

_LEFT, _TOP, _GAP = 12, 44, 28
_COLUMN, _LONGEST, _PRESSURE = 14, 900, 70
_SIGNS = string.ascii_letters + string.digits + "!#$%&*+=?@~<>/^"
_LINE = 44


def kernel_svg(kernel: FinishedKernel) -> str:
    """The register map of a finished kernel as one `<svg>` element."""
    canvas = Canvas(f"{kernel.name}: registers over time")
    count = len(kernel.operations)
    row = max(1.0, min(12.0, _LONGEST / max(count, 1)))
    spans = kernel_spans(kernel)
    lowest = 0.0
    for label, at in kernel.program.labels.items():
        # labels closer than a line of text would cover one another
        lowest = max(lowest, _TOP + at * row + 8)
        canvas.text(_LEFT, lowest, f"{label}:", size=10, faint=True)
        lowest += 11
    left = canvas.right + 8 if kernel.program.labels else float(_LEFT)
    for name in CLASSES:
        used = kernel.used[name]
        if not used:
            continue
        canvas.text(left, _TOP - 8, f"{name} ({used})", bold=True)
        column = max(_COLUMN, 8.0 * len(f"{name} ({used})") / used)
        for span in spans:
            if span.register_class == name:
                _draw(canvas, kernel, span, left, row, column)
        left += used * column + 6
        profile = kernel.pressure.profile[name]
        for held, stretch in groupby(range(count), key=profile.__getitem__):
            first, *rest = stretch
            width = _PRESSURE * held / max(*profile, 1)
            hint = f"{held} live from {kernel.program.describe(first)}"
            canvas.box(left, _TOP + first * row, width, (1 + len(rest)) * row, "#d9d9d9", hint)
        left += _PRESSURE + _GAP
    canvas.text(_LEFT, 18, f"{kernel.name} on {kernel.machine.title}", size=13, bold=True)
    return canvas.svg()


def _draw(canvas: Canvas, kernel: FinishedKernel, span: Span, left: float, row: float, column: float) -> None:
    width = span.count * column
    for start, stop in span.stretches:
        hint = f"{span.name}: {span.registers}, operations {start} to {stop}\n"
        hint += f"{kernel.program.lines[start]}\n... {kernel.program.lines[stop]}"
        height = (stop - start + 1) * row
        fits = width > 7 * len(span.name) and height > 13
        canvas.box(
            left + span.first * column,
            _TOP + start * row,
            width,
            height,
            span.colour,
            hint,
            span.name if fits else "",
        )


def kernel_text_map(kernel: FinishedKernel) -> str:
    """The register map of a finished kernel as text: a line per operation, a sign per register."""
    spans = kernel_spans(kernel)
    names = list(dict.fromkeys(span.name for span in spans))
    signs = {name: _SIGNS[number % len(_SIGNS)] for number, name in enumerate(names)}
    used = {name: kernel.used[name] for name in CLASSES if kernel.used[name]}
    rows = [{name: ["."] * number for name, number in used.items()} for _ in kernel.operations]
    for span in spans:
        for start, stop in span.stretches:
            for i in range(start, stop + 1):
                rows[i][span.register_class][span.first : span.first + span.count] = (
                    signs[span.name] * span.count
                )
    width = len(str(len(rows)))
    labels: dict[int, list[str]] = {}
    for label, at in kernel.program.labels.items():
        labels.setdefault(at, []).append(label)
    heads = "|".join(
        f"{letter}0..".ljust(used[name])[: used[name]] for name, letter in CLASSES.items() if name in used
    )
    lines = [f"{kernel.name} on {kernel.machine.title}", "", f"{'':{width + _LINE + 1}} |{heads}"]
    for i, row in enumerate(rows):
        lines += [f"{label}:" for label in labels.get(i, ())]
        shown = kernel.program.lines[i]
        shown = shown if len(shown) <= _LINE else f"{shown[: _LINE - 3]}..."
        lines.append(f"{i:>{width}} {shown:{_LINE}} |{'|'.join(''.join(cells) for cells in row.values())}")
    return "\n".join([*lines, "", *(f"{signs[name]}  {name}" for name in names)])
