"""What surrounds the program: streams that are closed or full, locales without Unicode, signals that end it.

    with ended_by_signals():    # SIGTERM and SIGHUP become an exception: files that were begun are taken away
        mend_streams()
        ...

A process that is ended by a signal runs no `finally`, so a half-written file would stay beside its target. As
an exception the signal passes through every block that cleans up after itself; the exit code is the shell's,
128 and the signal's number.
"""

from __future__ import annotations

import codecs
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_WRITTEN = "regweave.written"
_ENDING = ("SIGTERM", "SIGHUP")
#: Why a stream takes no more: it has no file of its own that the error could name.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE}


class Ended(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Signals that would end the process raise Ended instead; those that are ignored (nohup) stay so."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
        for number in numbers:
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, _raise_ended)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_ended(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not end what cleans up
    raise Ended(number)


def mend_streams() -> None:
    """Streams that were closed (`>&-`) swallow all; what a locale has no letter for is escaped.

    A file's name that is none in the locale is written byte by byte as it was given.
    """
    codecs.register_error(_WRITTEN, _as_it_was_given)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_WRITTEN)


def _as_it_was_given(error: UnicodeError) -> tuple[bytes, int]:
    """What stands for letters that cannot be encoded: the bytes of names, escapes of others."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    given = (
        bytes([ord(letter) & 0xFF])
        if 0xDC80 <= ord(letter) <= 0xDCFF
        else letter.encode("ascii", "backslashreplace")
        for letter in letters
    )
    return b"".join(given), error.end


def is_stream_error(error: OSError) -> bool:
    """Whether a stream, not a file with a name, takes no more."""
    return error.filename is None and error.errno in _UNWRITABLE


def drop_streams() -> None:
    """Point streams that take no more elsewhere: the interpreter's own flush at exit would fail again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
