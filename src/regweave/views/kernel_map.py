"""A kernel's register map drawn as SVG: time runs down, registers go across, one colour per name.

Beside each class the pressure is drawn: how many registers hold something at each operation.
"""

from __future__ import annotations

from itertools import groupby

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.maps import live_sets
from regweave.assembly.variables import Variable
from regweave.views.canvas import Canvas, lane_colour

_LEFT, _TOP, _GAP = 12, 44, 28
_COLUMN, _LONGEST, _PRESSURE = 14, 900, 70
_CLASSES = ("vector", "accumulation", "scalar")


def kernel_svg(kernel: FinishedKernel) -> str:
    """The register map of a finished kernel as one `<svg>` element."""
    canvas = Canvas(f"{kernel.name}: registers over time")
    count = len(kernel.operations)
    row = max(1.0, min(12.0, _LONGEST / max(count, 1)))
    colours: dict[str, str] = {}
    for variable in kernel.registers:
        colours.setdefault(variable.name, lane_colour(len(colours), 0.4))
    spans = _spans(kernel)
    for label, at in kernel.program.labels.items():
        canvas.text(_LEFT, _TOP + at * row + 8, f"{label}:", size=10, faint=True)
    left = canvas.right + 8 if kernel.program.labels else float(_LEFT)
    for name in _CLASSES:
        used = kernel.used[name]
        if not used:
            continue
        canvas.text(left, _TOP - 8, f"{name} ({used})", bold=True)
        for variable, run in kernel.registers.items():
            if variable.register_class.name != name:
                continue
            first = variable.register_class.registers.index(run[0])
            for start, stop in spans.get(variable, ()):
                hint = f"{variable.name}: {kernel.machine.run(run)}, operations {start} to {stop}"
                fits = len(run) * _COLUMN > 7 * len(variable.name) and (stop - start + 1) * row > 13
                canvas.box(
                    left + first * _COLUMN,
                    _TOP + start * row,
                    len(run) * _COLUMN,
                    (stop - start + 1) * row,
                    colours[variable.name],
                    hint,
                    variable.name if fits else "",
                )
        left += used * _COLUMN + 6
        profile = kernel.pressure.profile[name]
        for held, stretch in groupby(range(count), key=profile.__getitem__):
            first, *rest = stretch
            width = _PRESSURE * held / max(*profile, 1)
            hint = f"{held} live from {kernel.program.describe(first)}"
            canvas.box(left, _TOP + first * row, width, (1 + len(rest)) * row, "#d9d9d9", hint)
        left += _PRESSURE + _GAP
    canvas.text(_LEFT, 18, f"{kernel.name} on {kernel.machine.title}", size=13, bold=True)
    return canvas.svg()


def _spans(kernel: FinishedKernel) -> dict[Variable, list[tuple[int, int]]]:
    """For each variable the stretches of operations at which it holds its registers."""
    spans: dict[Variable, list[tuple[int, int]]] = {}
    for i, (before, after) in enumerate(live_sets(kernel.program, kernel.flow)):
        for variable in kernel.registers:
            if (before | after) & variable.bit:
                found = spans.setdefault(variable, [])
                if found and found[-1][1] == i - 1:
                    found[-1] = (found[-1][0], i)
                else:
                    found.append((i, i))
    return spans
