"""A finished kernel as one HTML page that needs nothing else: figures, pressure, mix, and its register map.

    >>> Path("map.html").write_text(kernel_page(kernel, document), encoding="utf-8")

In the map time runs down and registers go across; each row is one instruction, its text stands beside it.
Every name has one colour; the pointer shows the name, its registers, and the lines at which it begins and
ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from regweave.assembly.amd import FinishedKernel
from regweave.views.canvas import lane_colour
from regweave.views.filling import filled_template
from regweave.views.kernel_spans import CLASSES, kernel_spans

#: Pixels: a row of the map, a register's column (narrower where there are many), the charts of the pressure.
_ROW, _WIDEST, _NARROWEST, _ALL_COLUMNS = 15, 22, 9, 1400
_WHOLE, _LEAST_WHOLE = 900, 90
_CHART_WIDTH, _CHART_HEIGHT = 900, 96
#: Occupancies whose limits are nearer to each other than this part of the chart are not told apart.
_APART = 8


def kernel_page(kernel: FinishedKernel, document: Mapping[str, Any]) -> str:
    """The page of a kernel; `document` is its `kernel_document`."""
    return filled_template(
        "kernel.html.j2",
        kernel=kernel,
        document=document,
        row=_ROW,
        rows=_rows(kernel),
        panels=_panels(kernel),
        loops=kernel.loops,
        charts=_charts(kernel),
        mix=_mix(document["mix"]),
    )


def _rows(kernel: FinishedKernel) -> list[dict[str, Any]]:
    """Each operation's text, with the labels before it and what was inserted there."""
    labels: dict[int, list[str]] = {}
    for label, at in kernel.program.labels.items():
        labels.setdefault(at, []).append(f"{label}:")
    return [
        {
            "label": " ".join(labels.get(i, ())),
            "text": line,
            "inserted": "gone" if operation.gone else "; ".join(map(str.strip, kernel.inserted(i))),
            "made": operation.text,
        }
        for i, (line, operation) in enumerate(zip(kernel.program.lines, kernel.operations, strict=True))
    ]


def _panels(kernel: FinishedKernel) -> list[dict[str, Any]]:
    """The map, one class beside the other: the column's width and the boxes."""
    total = sum(kernel.used[name] for name in CLASSES)
    column = max(_NARROWEST, min(_WIDEST, _ALL_COLUMNS // max(total, 1)))
    spans = kernel_spans(kernel)
    panels = []
    for name, letter in CLASSES.items():
        used = kernel.used[name]
        if not used:
            continue
        boxes = [
            {
                "x": span.first * column,
                "width": span.count * column,
                "y": start * _ROW,
                "height": (stop - start + 1) * _ROW,
                "colour": span.colour,
                "name": span.name,
                "registers": span.registers,
                "start": start,
                "stop": stop,
                "named": span.count * column > 6.5 * len(span.name) + 4 and stop - start > 0,
            }
            for span in spans
            if span.register_class == name
            for start, stop in span.stretches
        ]
        step = 1 if column >= _WIDEST else 4
        numbers = [(at * column, f"{letter}{at}") for at in range(0, used, step)]
        panels.append(
            {
                "name": name,
                "used": used,
                "width": used * column,
                "share": max(_LEAST_WHOLE, _WHOLE * used // total),
                "boxes": boxes,
                "numbers": numbers,
            }
        )
    return panels


def _charts(kernel: FinishedKernel) -> list[dict[str, Any]]:
    """The pressure of each class over time, as an outline; for vectors with what an occupancy allows."""
    charts = []
    count = max(len(kernel.operations), 1)
    machine = kernel.machine
    for name in CLASSES:
        if not kernel.used[name]:
            continue
        profile = kernel.pressure.profile[name]
        most = max(*profile, kernel.used[name], 1)
        lines = []
        if name == "vector" and not kernel.used["accumulation"]:
            limits = {machine.vector_limit(waves): waves for waves in range(1, machine.waves + 1)}
            above = [limit for limit in limits if limit > most]
            if above and min(above) < 1.3 * most:
                most = min(above)
            for limit in sorted(limits, reverse=True):
                if limit <= most and (not lines or lines[-1][0] - limit > most / _APART):
                    lines.append((limit, limits[limit]))
        scale = _CHART_HEIGHT / (1.05 * most)
        path, at = f"M0 {_CHART_HEIGHT}", 0
        for held, stretch in groupby(profile):
            path += f"V{_CHART_HEIGHT - held * scale:.1f}"
            at += len(list(stretch))
            path += f"H{at * _CHART_WIDTH / count:.1f}"
        peak = max(range(len(profile)), key=profile.__getitem__)
        charts.append(
            {
                "name": name,
                "path": f"{path}V{_CHART_HEIGHT}Z",
                "peak": profile[peak],
                "place": kernel.program.describe(peak),
                "x": peak * _CHART_WIDTH / count,
                "y": _CHART_HEIGHT - profile[peak] * scale,
                "used": kernel.used[name],
                "bound": kernel.bound[name],
                "lines": [(_CHART_HEIGHT - limit * scale, limit, waves) for limit, waves in lines],
            }
        )
    return charts


def _mix(mix: Mapping[str, int]) -> list[dict[str, Any]]:
    """The units by how many instructions they run."""
    total = max(sum(mix.values()), 1)
    found = sorted(((unit, n) for unit, n in mix.items() if n), key=lambda entry: -entry[1])
    return [
        {"unit": unit.replace("_", " "), "count": n, "share": n / total, "colour": lane_colour(number, 0.6)}
        for number, (unit, n) in enumerate(found)
    ]
