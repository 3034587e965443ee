"""A fused model's report as one HTML file that needs nothing else: no script, no style sheet, no network.

    >>> page = report_page(report)        # "<!doctype html>..."
    >>> Path("report.html").write_text(page, encoding="utf-8")

Node names come from the model's file, that is from a stranger: everything is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regweave.views.filling import filled_template
from regweave.views.model_report import (
    error_words,
    name_of_nodes,
    native_rows,
    others_rows,
    reason_words,
    report_title,
    sections_of,
    shape_words,
    traffic_words,
)


def report_page(report: Mapping[str, Any]) -> str:
    """`report` (the JSON-like mapping) as a whole HTML document."""
    words = {
        "name_of_nodes": name_of_nodes,
        "shape_words": shape_words,
        "reason_words": reason_words,
        "traffic_words": traffic_words,
        "error_words": error_words,
        "native_rows": native_rows,
        "others_rows": others_rows,
        "sections_of": sections_of,
    }
    return filled_template("model.html.j2", title=report_title(report), report=report, **words)
