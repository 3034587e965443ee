"""What a person looks at: tables for a terminal, pages for a browser, made from the JSON-like reports.

A module's name begins with what it shows: `model_` (a fused one), `kernel_` (AMD's, assembled), `layout_`,
`rearrangement_`, `chain_`, `convolution_`, `bench_`; `canvas`, `filling`, `narrow` and `plain` serve them.
"""

from regweave.views.bench_libraries import comparison_table, models_table
from regweave.views.bench_rearrangements import planning_table, rearrangements_table, seams_table
from regweave.views.bench_scaling import scaling_table
from regweave.views.bench_tiles import tile_sweep_table
from regweave.views.convolution_svg import convolution_svg
from regweave.views.convolution_text import convolution_text
from regweave.views.health import health_table
from regweave.views.model_page import report_page
from regweave.views.model_report import report_table
from regweave.views.plain import plain

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
    "scaling_table",
    "seams_table",
    "tile_sweep_table",
]
