"""Instructions of rearrangements as a table: ours, Triton's, and whether ours are what they should be.

    tf32 C -> A   sm_80   16 + 32, 57 (16)   16 + 32, 57 exchange (direct)   16 + 32, 64   58   reached

A figure is exchanges + selects and byte permutes, and all instructions; in brackets the fewest exchanges that
one hop allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text


def rearrangements_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench rearrange --json` prints) as a table."""
    version = document["triton"]
    table = Table(title="instructions: exchanges + selects and byte permutes, all", title_justify="left")
    for name in ("conversion", "machine", "exchange (bound)", "auto", "Triton 3.9.0, on record"):
        table.add_column(name, overflow="fold")
    if version is not None:
        table.add_column(f"Triton {version}, counted here")
    table.add_column("")
    for row in document["rows"]:
        bound = "" if row["lower_bound"] is None else f" ({row['lower_bound']})"
        missed = row["missed"]
        table.add_row(
            f"{row['name']} {row['tile']}",
            row["machine"],
            _figures(row["exchange"]) + bound,
            f"{_figures(row['auto'])} {row['auto']['strategy']}",
            _kept(row["kept"]),
            *([] if version is None else [_measured(row["measured"])]),
            Text("; ".join(missed) or "reached", style="red" if missed else "green"),
        )
    return table


def seams_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench seams --json` prints) as a table of each kernel's instructions."""
    table = Table(title="instructions of whole kernels of two products", title_justify="left")
    ways = ("identity", "fold", "swap", "exchange", "shared")
    for name in ("kernel", *ways, ""):
        table.add_column(name, overflow="fold")
    for row in document["rows"]:
        counts = [str(row["instructions"].get(way, "-")) for way in ways]
        missed = [f"{way} takes more than exchange" for way in row["missed"]]
        words = "; ".join(missed) or ("reached" if row["exchanges"] else "nothing is exchanged")
        table.add_row(row["name"], *counts, Text(words, style="red" if missed else "green"))
    return table


def planning_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench planning --json` prints) as a table of milliseconds."""
    table = Table(title="milliseconds to plan a rearrangement, proof included", title_justify="left")
    for name in ("pairs of", "pairs", "median", "95 %", "largest"):
        table.add_column(name, overflow="fold", justify="left" if name == "pairs of" else "right")
    for name in ("which", ""):
        table.add_column(name, overflow="fold")
    for row in document["rows"]:
        times = (f"{row[key]:.1f}" for key in ("median_ms", "p95_ms", "largest_ms"))
        words = Text("; ".join(row["missed"]) or "reached", style="red" if row["missed"] else "green")
        table.add_row(row["name"], str(row["pairs"]), *times, row["largest"], words)
    return table


def _figures(counts: Mapping[str, Any]) -> str:
    return f"{counts['exchanges']} + {counts['selects'] + counts['byte_permutes']}, {counts['total']}"


def _kept(kept: Mapping[str, Any]) -> str:
    shuffled, total = kept["shuffled"], kept["total"]
    if shuffled is None:
        return "-"
    return _figures(shuffled) + ("" if total == shuffled["total"] else f"; other way {total}")


def _measured(measured: Mapping[str, Any] | None) -> str:
    if measured is None:
        return "-"
    shuffled, default = measured["shuffled"], measured["default"]
    if isinstance(shuffled, str):
        return shuffled
    other = "" if default == shuffled else f"; other way {default['total']}"
    return _figures(shuffled) + other
