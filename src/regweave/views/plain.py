"""Tables as plain text: for pipes, logs and `print(report)`.

    >>> print(plain(report_table(document), width=110))

rich fills every line with blanks up to the width; text that is kept or compared is better without them.
"""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def captured(console: Console, answer: RenderableType) -> str:
    """What `console` would show, with lines that end where their words end."""
    with console.capture() as shown:
        console.print(answer)
    return "\n".join(line.rstrip() for line in shown.get().split("\n"))


def plain(answer: RenderableType, *, width: int) -> str:
    """`answer` drawn `width` characters wide, without colours."""
    return captured(Console(file=io.StringIO(), width=width, highlight=False), answer)
