"""What a pixel takes at 64 megapixels beside one, as a table: one row a layer, nanoseconds.

3x3 1->1 8192x8192   0.15   0.23   0.23   1.50   1.00   0.11   0.17   1.55   missed; a copy exceeds it too
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from regweave.views.bench_libraries import thread_words


def scaling_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave bench conv --scaling --json` prints) as a table."""
    table = Table(
        title=f"median ns a pixel of {document['rounds']} rounds, {thread_words(document['threads'])}",
        caption="1 MP: the same image again; apart: 64 images in turn, from memory; "
        f"at most {document['limit']} of 64 MP / 1 MP; copy: as many bytes as image and result",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("case")
    for name in ("1 MP", "apart", "64 MP", "64 / 1", "64 / apart", "copy 1 MP", "64 MP", "64 / 1"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    for row in document["rows"]:
        ours, copy = row["ours_ns"], row["copy_ns"]
        figures = (ours["same"], ours["apart"], ours["large"], row["ratio"], row["ratio_apart"])
        words = "missed" if row["missed"] else "reached"
        if row["copy_exceeds"]:
            words += f"; a copy exceeds {document['limit']}"
        table.add_row(
            row["name"],
            *(f"{figure:.2f}" for figure in (*figures, copy["same"], copy["large"], row["copy_ratio"])),
            Text(words, style="red" if row["missed"] else "green"),
        )
    return table
