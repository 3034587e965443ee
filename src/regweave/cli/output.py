"""Two streams with two purposes: stdout carries the answer, stderr carries the talk.

    >>> with talk_of("fusing") as say:          # stderr, a spinner on a terminal, plain lines in a log
    ...     say("reading the model")
    >>> print_document({"speedup": 1.25})       # stdout, exactly one JSON document
    {"speedup": 1.25}

A program that reads `--json` must be able to hand all of stdout to a JSON parser, so nothing but
`print_document` and the tables for a person write there. JSON has no NaN and no infinities: they become null.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from regweave.views.narrow import fitting
from regweave.views.plain import captured

# Where COLUMNS says nothing: a table in a log or a pipe must not be folded to the 80 that rich assumes there.
PIPE_WIDTH = 160
# What COLUMNS says is not believed below this: nothing can be read there.
LEAST_WIDTH = 40
# In a log a line is worth writing after this long; a terminal shows every word.
QUIET_SECONDS = 1.0
# And again, with the seconds so far, as often as this.
STILL_SECONDS = 20.0


# Letters that a terminal obeys (C0 without tab and newline, delete, C1), and what is shown instead.
_OBEYED = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if code not in b"\t\n"}


class PipeConsole(Console):
    """A console that leaves it to the program what happens when its reader goes away (rich would exit), and
    that shows what a terminal would obey: a node's name comes out of a file that somebody else wrote.
    """

    def on_broken_pipe(self) -> None:
        """Called by rich in its handler of a BrokenPipeError."""
        raise

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Called by rich for all that is printed."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else segment.text.translate(_OBEYED)
            yield Segment(text, segment.style, segment.control)


def print_answer(answer: RenderableType) -> None:
    """Write a table for a person to stdout; in a pipe or a file without the blanks that fill its lines."""
    console = _console(sys.stdout, stderr=False)
    answer = fitting(console, answer)
    if sys.stdout.isatty():
        console.print(answer)
        return
    sys.stdout.write(captured(console, answer))


def talk_console() -> Console:
    """The console of progress and complaints (stderr)."""
    return _console(sys.stderr, stderr=True)


def _console(stream: Any, *, stderr: bool) -> Console:
    width = asked_width() or (None if stream.isatty() else PIPE_WIDTH)
    return PipeConsole(stderr=stderr, width=width, highlight=False, soft_wrap=not stream.isatty())


def asked_width() -> int | None:
    """The width that COLUMNS asks for, if it says a number."""
    word = os.environ.get("COLUMNS", "")
    return max(LEAST_WIDTH, int(word[:6])) if word.isascii() and word.isdigit() else None


def print_document(document: Any) -> None:
    """Write one JSON document and a newline to stdout."""
    sys.stdout.write(json.dumps(plain_values(document), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def plain_values(value: Any) -> Any:
    """`value` with NumPy scalars, tuples and non-finite numbers replaced by what JSON has."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and scalars, without importing NumPy
        return plain_values(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def talk_of(task: str) -> Iterator[Callable[[str], None]]:
    """A function that says what is being done now: a spinner on a terminal, a line a second elsewhere."""
    console = talk_console()
    if not console.is_terminal:
        log = Log(lambda message: console.print(f"{task}: {message}", markup=False))
        try:
            yield log.say
        finally:
            log.end()
        return
    with console.status(task) as status:
        yield lambda message: status.update(f"{task}: {message}".replace("[", r"\["))


class Log:
    """A line a second at most; what then is still being done is told as well, and how long it takes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._now = write, threading.Condition()
        self._message, self._since, self._told = "", 0.0, -QUIET_SECONDS
        self._ended, self._teller = False, threading.Thread(target=self._tell, daemon=True)

    def say(self, message: str) -> None:
        with self._now:
            self._message, self._since = message, time.monotonic()
            if self._since - self._told >= QUIET_SECONDS:
                self._write(message)
                self._told = self._since
            if self._teller.ident is None:
                self._teller.start()
            self._now.notify()

    def end(self) -> None:
        with self._now:
            self._ended = True
            self._now.notify()
        if self._teller.ident is not None:
            self._teller.join()

    def _tell(self) -> None:
        with self._now:
            while not self._ended:
                fresh = self._told < self._since
                due = self._told + (QUIET_SECONDS if fresh else STILL_SECONDS)
                wait = due - time.monotonic()
                if wait > 0:
                    self._now.wait(wait)
                    continue
                self._told = time.monotonic()
                seconds = self._told - self._since
                self._write(self._message if fresh else f"{self._message}, {seconds:.0f} s")
