"""Files appear whole or not at all, and are read up to a size.

    >>> write_file(Path("plan.h"), text)

A reader never sees half a header, and a write that fails (a full disk, an interrupt) leaves what was there
before. What the system says of a file that cannot be opened ("Is a directory") becomes an error that says
what to do:

    >>> str(file_failure(OSError(errno.EISDIR, "Is a directory", "photos")))
    "a folder, not a file (at photos); name a file in it"
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from regweave.errors import InputError, nearest_names

#: How much of two files' names must agree: their endings mostly do.
_ALIKE = 0.6
#: What to do about what the system says.
_FIXES = {
    errno.EISDIR: "name a file in it",
    errno.EACCES: "name another, or change who may read and write it (chmod)",
    errno.EPERM: "name another, or change who may read and write it (chmod)",
    errno.EROFS: "name a place that can be written to",
    errno.ENOSPC: "make room, or name a place on another disk",
    errno.EDQUOT: "make room, or name a place on another disk",
    errno.EFBIG: "name a place on another disk, or ask for larger files (ulimit -f)",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ELOOP: "name the file that the links should lead to",
}


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
        return nearest_names(path.name, beside, alike=_ALIKE)
    return ()


def standing(name: str) -> str | None:
    """What stands on the disk under a name that was meant otherwise: "a folder", "a file", None."""
    try:
        return "a folder" if os.path.isdir(name) else "a file" if name and os.path.exists(name) else None
    except ValueError:  # a NUL
        return None


def file_failure(error: OSError) -> InputError:
    """What to tell of a file, which `error` names, that could not be opened or written.

    Of a name that is not there, the ones that are like it; of a folder that is missing, what stands there.
    """
    path = Path(os.fsdecode(error.filename))
    if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not path.parent.is_dir():
        return missing_folder(path)
    if isinstance(error, FileNotFoundError):
        what = error.strerror or "there is no such file"
        return InputError(what, where=str(path), nearest=nearest_beside(path))
    what = "a folder, not a file" if isinstance(error, IsADirectoryError) else error.strerror or str(error)
    return InputError(what, where=str(path), fix=_FIXES.get(error.errno or 0))


def missing_folder(path: Path) -> InputError:
    """Why nothing can be at `path`: its folder is not there, or is a file."""
    folder, there = path.parent, _standing(path.parent)
    if not there.is_dir():
        return InputError(f"{str(there)!r} is a file, not a folder", where=str(path), fix="name a folder")
    folders = []
    with suppress(OSError):
        folders = [name for name in os.listdir(there) if os.path.isdir(there / name)]
    return InputError(
        f"the folder {str(folder)!r} does not exist",
        where=str(path),
        nearest=nearest_names(folder.name, folders),
        fix="make it first, or name another",
    )


def _standing(path: Path) -> Path:
    """`path`, or the first above it that is there."""
    while not os.path.exists(path) and path != path.parent:
        path = path.parent
    return path


def folder_failure(error: OSError, folder: Path, where: str | None = None) -> InputError:
    """What to tell of a folder that cannot be made, or takes no files."""
    where = str(folder) if where is None else where
    there = _standing(folder)
    if not there.is_dir():
        what = f"cannot write there: {str(there)!r} is a file, not a folder"
        return InputError(what, where=where, fix="name another folder")
    return InputError(f"cannot write there: {error.strerror}", where=where, fix=_FIXES.get(error.errno or 0))


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
