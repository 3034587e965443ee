"""Help texts that fill the width of the terminal.

A docstring breaks its lines where the source does; shown as they are, its texts come out ragged in a terminal
that is narrower. Here the lines of one text are joined, and rich breaks them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts.help import DefaultFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


class ReflowingFormatter(DefaultFormatter):
    """cyclopts' own panels, with the line breaks of the docstrings undone."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Draw one panel."""
        from rich.text import Text

        for entry in panel.entries:
            shown = getattr(entry.description, "primary_renderable", None)
            if isinstance(shown, Text):
                shown.plain = " ".join(shown.plain.split())
        super().__call__(console, options, panel)
