"""The comparison with other libraries as a table: one row a case, one column a library, milliseconds.

    16384 x 64-64-64-64    numpy 6.55   onnxruntime 4.38   ...   regweave 2.49   1.64x   82 % of peak

The best peer's time is bold; the ratio is that time over ours, so above 1 means that we are faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text


def comparison_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench cascade|conv|gemm --json` prints) as a table."""
    cases = document["cases"]
    peers = list(dict.fromkeys(name for case in cases for name in case["peers"]))
    table = Table(title=f"median ms of {document['rounds']} rounds, {thread_words(document['threads'])}")
    table.title_justify = "left"
    table.caption, table.caption_justify = bounds_words(document["machine"]), "left"
    table.add_column("case")
    for name in (*peers, "regweave", "best peer / ours", "of FMA peak", "of bound"):
        table.add_column(name, justify="right")
    for case in cases:
        best = _best(case["peers"])
        cells = [_peer_cell(case["peers"].get(name), best) for name in peers]
        table.add_row(
            case["name"] + (f"  x {case['times']}" if case["times"] > 1 else ""),
            *cells,
            f"{case['ours_ms']:.3f}",
            _ratio_cell(case),
            _peak_cell(case["of_peak"]),
            _peak_cell(case["of_bound"]),
        )
    if "sum" in document:
        whole = document["sum"]
        best = _best(whole["peers"])
        table.add_section()
        table.add_row(
            f"as often as {document['model']} does them",
            *(_peer_cell(whole["peers"].get(name), best) for name in peers),
            f"{whole['ours_ms']:.3f}",
            _ratio_cell(whole),
        )
    return table


def models_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench models --json` prints) as a table."""
    table = Table(title=f"median ms of {document['rounds']} rounds, {thread_words(document['threads'])}")
    table.title_justify = "left"
    table.add_column("model")
    for name in ("onnxruntime", "OpenVINO", "fused", "speed-up", "over OpenVINO", "largest error"):
        table.add_column(name, justify="right")
    for model in document["models"]:
        table.add_row(
            model["name"],
            f"{model['baseline_ms']:.3f}",
            "-" if model["openvino_ms"] is None else f"{model['openvino_ms']:.3f}",
            f"{model['fused_ms']:.3f}",
            f"{model['speedup']:.3f}x",
            "-" if model["openvino_speedup"] is None else f"{model['openvino_speedup']:.3f}x",
            f"{model['max_abs_error']:.1e}",
        )
    return table


def bounds_words(machine: Mapping[str, Any]) -> str:
    """What the machine itself can do: FMA peak and copy bandwidth."""
    peak, copy = machine["fma_peak_gflops"], machine["copy_gb_per_s"]
    rate = "not measured" if peak is None else f"{peak:.0f} GFLOP/s"
    return f"this machine: FMA peak {rate}, copy {copy:.1f} GB/s (read + write)"


def thread_words(threads: int) -> str:
    """`1 thread`, `2 threads`."""
    return f"{threads} thread" + ("" if threads == 1 else "s")


def _best(peers: Mapping[str, float]) -> float | None:
    """The best peer's time; ours in another layout is none."""
    return min((ms for name, ms in peers.items() if not name.startswith("regweave")), default=None)


def _peer_cell(ms: float | None, best: float | None) -> Text:
    return Text("-") if ms is None else Text(f"{ms:.3f}", style="bold" if ms == best else "")


def _ratio_cell(case: Mapping[str, Any]) -> Text:
    ratio = case["ratio_best_peer"]
    return Text("-") if ratio is None else Text(f"{ratio:.2f}x", style="green" if ratio >= 1 else "red")


def _peak_cell(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
