"""Files appear whole or not at all, and are read up to a size.

    >>> write_file(Path("plan.h"), text)

A reader never sees half a header, and a write that fails (a full disk, an interrupt) leaves what was there
before.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from regweave.errors import InputError, nearest_names


def path_of(place: Any) -> Path:
    """The path that a caller named; InputError for what can be none: a number, a NUL, half a character,
    names of more letters than the system knows."""
    try:
        path = Path(place)
        os.stat(path)
    except (TypeError, ValueError):  # what has a NUL or half a character is a ValueError
        raise InputError(f"{place!r} names no place for files", expected="a path") from None
    except OSError as error:  # most of all: nothing is there yet
        path = Path(place)
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                "a file's name is too long", where=f"{str(path)[:40]}...", expected="at most 255 letters"
            ) from None
    return path


def nearest_beside(path: Path, ending: str = "") -> tuple[str, ...]:
    """Names like that of `path` in its folder; not its own, which may be that of a link to nothing."""
    with suppress(OSError):
        beside = [name for name in os.listdir(path.parent) if name.endswith(ending) and name != path.name]
        return nearest_names(path.name, beside)
    return ()


def read_file(path: Path, most: int) -> str:
    """The text (UTF-8) of a file of at most `most` bytes; no more is read of a device that never ends.

    Raises InputError naming the file if it is larger or no text, OSError if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except ValueError:  # a NUL, or half a character
        raise InputError(f"{str(path)!r} names no file") from None
    if len(content) > most:
        raise InputError("too large a file", where=str(path), expected=f"at most {most} bytes")
    try:
        return content.decode("utf-8-sig")  # the mark that some editors put in front is no text
    except UnicodeDecodeError as error:
        raise InputError(f"not a text: {error}", where=str(path)) from error


def write_file(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path` in one step; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def hidden_beside(path: Path) -> Path:
    """A name for what will become the file `path`: hidden, in its folder, with its ending, never too long."""
    stem = path.stem[:40]  # letters; a name may have 255 bytes
    return path.with_name(f".{stem}.{os.getpid()}.{os.urandom(4).hex()}{path.suffix[:10]}")


def take_away(begun: Path) -> None:
    """Remove what was begun; where nothing could be written (a read-only disk), nothing can be removed."""
    with suppress(OSError):
        begun.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step, keeping the mode of a file that is replaced.

    What is no regular file (a pipe, /dev/stdout) is written to as it is. Raises OSError naming the file.
    """
    if path.exists() and not path.is_file():
        try:
            path.write_bytes(data)
        except OSError as error:  # of a full device, which does not know its name
            raise OSError(error.errno, error.strerror, str(path)) from None
        return
    given, path = path, Path(os.path.realpath(path))
    beside = hidden_beside(path)
    try:
        with open(beside, "xb") as file:
            file.write(data)
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
        os.replace(beside, path)
    except BaseException as error:
        take_away(beside)
        if isinstance(error, OSError):  # name the file that was asked for
            raise OSError(error.errno, error.strerror, str(given)) from None
        raise
