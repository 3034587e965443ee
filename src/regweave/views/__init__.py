"""What a person looks at: tables for a terminal, pages for a browser, made from the JSON-like reports."""

from regweave.views.comparison import comparison_table, models_table
from regweave.views.convolution_svg import convolution_svg
from regweave.views.convolution_text import convolution_text
from regweave.views.health import health_table
from regweave.views.page import report_page
from regweave.views.plain import plain
from regweave.views.rearrangement_comparison import planning_table, rearrangements_table, seams_table
from regweave.views.report import report_table
from regweave.views.tile_sweep import tile_sweep_table

__all__ = [
    "comparison_table",
    "convolution_svg",
    "convolution_text",
    "health_table",
    "models_table",
    "plain",
    "planning_table",
    "rearrangements_table",
    "report_page",
    "report_table",
    "seams_table",
    "tile_sweep_table",
]
