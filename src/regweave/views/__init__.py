"""What a person looks at: tables for a terminal, pages for a browser, made from the JSON-like reports."""

from regweave.views.page import report_page
from regweave.views.report import report_table

__all__ = ["report_page", "report_table"]
