"""The planner's choice of form and tile beside the fastest of all: one row a case.

3x3 8->8 1080x1920   369   none 1 x 1 x 8   13.1   none 1 x 1 x 8   13.1   1.00
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

#: What the planner's choice may take, in units of the fastest.
ALLOWED = 1.1


def tile_sweep_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench conv --opencl --sweep --json` prints) as a table."""
    table = Table(title=f"median ms of {document['rounds']} rounds, every form and tile on the OpenCL device")
    table.title_justify = "left"
    table.add_column("case")
    for name in ("plans", "chosen", "ms", "fastest", "ms", "chosen / fastest"):
        table.add_column(name, justify="right")
    for case in document["cases"]:
        ratio = case["own_over_best"]
        colour = "green" if ratio <= ALLOWED else "red"
        table.add_row(
            case["name"],
            str(case["plans"]),
            *_cells(case["own"]),
            *_cells(case["best"]),
            f"[{colour}]{ratio:.2f}[/]",
        )
    return table


def _cells(plan: Mapping[str, Any]) -> tuple[str, str]:
    return f"{plan['form']} {' x '.join(map(str, plan['outputs_per_thread']))}", f"{plan['ms']:.3f}"
