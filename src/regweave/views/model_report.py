"""The report of a fused model as tables for a person.

The report itself is a JSON-like mapping (docs/report.md lists its fields); a table is one of its views.
One row per candidate, the decision and its reason below the name, numbers in units a person reads:

    candidate, decision and reason                                 traffic MB   speed-up     error
    MatMul.4 .. Identity.171 (12)   40 x 120-240-120             0.36 -> 0.29      1.33x   3.7e-07
    fused: 0.077 MB of intermediates stay in the core's cache

Predicted bytes come from the traffic model; the speed-up is a measurement and stays empty where
nothing was measured. A model has dozens of places where something stands between two products, and few kinds
of something: those are counted, one example each.

    31 more refused, for what stands between the products, for example
     12 x  Conv 'Conv.5' mixes neighbouring pixels (kernel 3x3)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

KINDS = {
    "single": "single products",
    "convolution": "convolutions",
    "elementwise": "element-wise runs",
    "region": "regions",
}
NUMBERS = ("traffic MB", "speed-up", "error")
COLUMNS = ("candidate, decision and reason", *NUMBERS)


# what tells reasons of one kind apart: names, shapes, remarks in brackets, numbers, which nodes read it
_PARTICULARS = re.compile(r"'[^']*'|\[[^\]]*\]|\([^)]*\)|\d+|(?<=readers:).*")


def report_table(report: Mapping[str, Any], *, every: bool = False) -> Table:
    """A table of `report`: one row per candidate, one per kind of other native piece, one for the whole.

    Candidates that were refused for what they are (a reshape between, a second reader) are counted by kind of
    reason; with `every` each has its row.
    """
    table = Table(title=report_title(report), title_justify="left", box=SIMPLE_HEAD)
    for column in COLUMNS:
        number = column in NUMBERS
        table.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=number)
    *weighed, structural = sections_of(report["cascades"])
    for section in (*weighed, structural) if every else weighed:
        for cascade in section:
            table.add_row(*_cascade_cells(cascade))
        table.add_section()
    if structural and not every:
        table.add_row(_summary(structural))
        table.add_section()
    for row in (*others_rows(report.get("others") or ()), *native_rows(report.get("native"))):
        table.add_row(Text(row))
    table.add_row(*_whole_cells(report["whole"]))
    notes = report.get("notes") or ()
    if notes:
        table.caption, table.caption_justify = Text("\n".join(notes)), "left"
    return table


def _summary(cascades: Sequence[Mapping[str, Any]]) -> Table:
    rows = Table(box=None, show_header=False, pad_edge=False)
    rows.title = Text(f"{len(cascades)} more refused, for what stands between the products, for example")
    rows.title_justify, rows.title_style = "left", ""
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(overflow="fold")
    for number, reason in reasons_of(cascades):
        rows.add_row(Text(f"{number} x"), Text(reason))
    return rows


def reasons_of(cascades: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """How many candidates have a reason of one kind, and the first such reason; the most frequent first."""
    kinds: dict[str, list[str]] = {}
    for cascade in cascades:
        kinds.setdefault(_PARTICULARS.sub("", cascade["reason"]), []).append(cascade["reason"])
    return sorted(((len(reasons), reasons[0]) for reasons in kinds.values()), key=lambda kind: -kind[0])


def report_title(report: Mapping[str, Any]) -> str:
    """One line: which model, how many threads, how many candidates were fused."""
    cascades = report["cascades"]
    fused = sum(cascade["decision"] == "fused" for cascade in cascades)
    threads = report["threads"]
    plural = "thread" if threads == 1 else "threads"
    return f"{report['model']}: {fused} of {len(cascades)} candidates fused, {threads} {plural}"


def sections_of(cascades: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The fused ones; those that were refused after a measurement; by a prediction; for what they are."""

    def section(cascade: Mapping[str, Any]) -> int:
        known = (
            cascade["decision"] == "fused",
            (cascade.get("measured") or {}).get("speedup") is not None,
            (cascade.get("predicted") or {}).get("bytes_fused") is not None,
            True,
        )
        return known.index(True)

    return [[cascade for cascade in cascades if section(cascade) == number] for number in range(4)]


def others_rows(others: Sequence[Mapping[str, Any]]) -> list[str]:
    """What else runs natively, one line per kind: how many of how many."""
    rows = []
    for kind in dict.fromkeys(piece["kind"] for piece in others):
        of_kind = [piece for piece in others if piece["kind"] == kind]
        fused = sum(piece["decision"] == "fused" for piece in of_kind)
        rows.append(f"{KINDS.get(kind, kind)}: {fused} of {len(of_kind)} run natively")
    return rows


def native_rows(native: Mapping[str, Any] | None) -> list[str]:
    """How much of the model runs natively, in a line, and what does not; none where nothing does."""
    if not native or not native["pieces"]:
        return []
    regions = f" ({native['regions']} of them regions)" if native["regions"] else ""
    pieces = "1 piece" if native["pieces"] == 1 else f"{native['pieces']} pieces"
    operators = "1 operator" if native["operators"] == 1 else f"{native['operators']} operators"
    nodes = f"{native['nodes']} of {native['of_nodes']} nodes, {pieces}{regions} in {operators}"
    rows = [f"natively: {nodes}, {native['time']:.0%} of the time"]
    if native["left"]:
        left = ", ".join(f"{count} {kind}" for kind, count in native["left"].items())
        rows.append(f"in onnxruntime, as optimised: {left}")
    return rows


def _cascade_cells(cascade: Mapping[str, Any]) -> list[Text]:
    fused = cascade["decision"] == "fused"
    measured = cascade.get("measured") or {}
    return [
        Text.assemble(
            (name_of_nodes(cascade["nodes"]), "bold"),
            f"   {shape_words(cascade['shape'])}\n",
            (cascade["decision"], "green" if fused else "yellow"),
            f": {reason_words(cascade)}",
        ),
        Text(traffic_words(cascade.get("predicted") or {})),
        _speedup_text(measured.get("speedup")),
        Text(error_words(cascade, "\nrel ")),
    ]


def _whole_cells(whole: Mapping[str, Any]) -> list[Text]:
    before, after = whole.get("baseline_ms"), whole.get("fused_ms")
    times = "not measured"
    if before is not None and after is not None:
        times = f"{before:.2f} -> {after:.2f} ms"
        if (before - after) * ((whole.get("speedup") or 1) - 1) < 0:
            times += "; disturbed: the ratio is that of runs side by side"
    return [
        Text.assemble(("whole model", "bold"), f"   {times}"),
        Text(""),
        _speedup_text(whole.get("speedup")),
        Text(error_words(whole, "\nrel ")),
    ]


def name_of_nodes(nodes: Sequence[str]) -> str:
    """The nodes of a candidate, the middle left out where there are many."""
    return " .. ".join((nodes[0], nodes[-1])) + f" ({len(nodes)})" if len(nodes) > 2 else ", ".join(nodes)


def shape_words(shape: Mapping[str, Any]) -> str:
    """`{"m": 480, "widths": [120, 240, 120]}` as `480 x 120-240-120`; an unknown m is `M`."""
    if not shape["widths"]:
        return "not known"
    rows = "M" if shape.get("m") is None else str(shape["m"])
    return f"{rows} x {'-'.join(map(str, shape['widths']))}"


def reason_words(cascade: Mapping[str, Any]) -> str:
    """The reason of the decision, and the strategy of each seam on a GPU where one was asked for."""
    seams = cascade.get("seams") or ()
    lines = [cascade["reason"]]
    lines += [f"seam {number}: {seam['strategy']}, {seam['reason']}" for number, seam in enumerate(seams, 1)]
    return "\n".join(lines)


def traffic_words(predicted: Mapping[str, Any]) -> str:
    """Megabytes before and after fusing, as `1.23 -> 0.70`."""
    before, after = predicted.get("bytes_unfused"), predicted.get("bytes_fused")
    if before is None or after is None:
        return ""
    return f"{before / 1e6:.2f} -> {after / 1e6:.2f}"


def error_words(result: Mapping[str, Any], between: str = ", ") -> str:
    """The largest absolute and the largest relative error, as far as they are known."""
    errors = (result.get("max_abs_error"), result.get("max_rel_error"))
    return between.join(f"{error:.1e}" for error in errors if error is not None)


def _speedup_text(speedup: float | None) -> Text:
    if speedup is None:
        return Text("")
    return Text(f"{speedup:.2f}x", style="green" if speedup >= 1 else "red")
