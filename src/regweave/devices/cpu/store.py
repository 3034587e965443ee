"""Machine code kept on disk, so that the next process finds it instead of assembling it.

    keep(key, image)                 # an ELF object, under a key of 32 bytes (see `keys`)
    find(key)                        # the same bytes in any later process; None if there are none

What is found will be executed, so it is trusted no further than the user is: the folder must belong to the
user and be writable by nobody else (it is made so; another one is ignored, with one warning), and so must the
file. What is in a file is checked against a checksum over key and content: a damaged entry, or one that is
cut short, is removed and made anew. Entries appear whole, by renaming, so processes can share the folder. It
is bounded in size: the entries that were used longest ago go first.

Nothing here fails: where a folder or file cannot be read or written, code is assembled as if it were new. A
file is 8 bytes of magic, 32 of SHA-256 over key and image, and the image.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator

from regweave.settings import code_folder

_MAGIC = b"RWCODE1\n"
_BLOCK = 4096
_SUFFIX = ".code"
#: Bytes of all entries together; where they are exceeded, the oldest go until a quarter of this is free.
MOST_BYTES = 256 << 20
#: How many bytes are written, on average, between two looks at the size of the folder.
_LOOK_AFTER = 4 << 20
#: An entry in use is marked as used so often, and what an interrupted process left goes after so long.
_DAY = 86400.0

_distrusted: set[str] = set()
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def is_on() -> bool:
    """Whether anything is kept at all: where not, a key need not be worked out."""
    return code_folder() is not None


def find(key: bytes) -> bytes | None:
    """The image kept under `key`, None if there is none that can be trusted."""
    with _open_folder() as folder:
        if folder is None:
            return None
        name = key.hex() + _SUFFIX
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and _is_ours(status):
                content = os.read(file, status.st_size)
                image = content[len(_MAGIC) + 32 :]
                if content[: len(_MAGIC) + 32] == _MAGIC + _checksum(key, image):
                    if time.time() - status.st_mtime > _DAY:
                        with contextlib.suppress(OSError):
                            os.utime(file)
                    return image
            os.unlink(name, dir_fd=folder)
        except OSError:
            pass
        finally:
            os.close(file)
    return None


def keep(key: bytes, image: bytes) -> None:
    """Keep an image under `key` for later processes, if that is possible."""
    with _open_folder(make=True) as folder:
        if folder is None:
            return
        name, content = key.hex() + _SUFFIX, _MAGIC + _checksum(key, image) + image
        chance = os.urandom(8)
        temporary = f"{key[:8].hex()}.{chance.hex()}.new"
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
            try:
                complete = os.write(file, content) == len(content)
            finally:
                os.close(file)
            if complete:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                os.unlink(temporary, dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            return
        # by chance, for processes know nothing of each other, and looking takes longer than writing
        if int.from_bytes(chance, "little") * _LOOK_AFTER < _taken(len(content)) << 64:
            with contextlib.suppress(OSError):
                _make_room(folder)


def used() -> tuple[str | None, int, int]:
    """(folder, entries, bytes taken) of what is kept; the folder is None if keeping is turned off."""
    path = code_folder()
    with _open_folder() as folder:
        sizes = [] if folder is None else [size for _, size, name in _entries(folder) if _SUFFIX in name]
    return path, len(sizes), sum(sizes)


def _checksum(key: bytes, image: bytes) -> bytes:
    return hashlib.sha256(key + image).digest()


def _is_ours(status: os.stat_result) -> bool:
    """Whether only this user can have written it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextlib.contextmanager
def _open_folder(*, make: bool = False) -> Iterator[int | None]:
    """A descriptor of the folder; None if it is turned off, missing, out of reach or not to be trusted.

    All files are opened relative to it: what was checked is what is used, whatever becomes of the path.
    """
    path = code_folder() if os.name == "posix" else None
    folder = None
    if path is not None:
        with contextlib.suppress(OSError):
            if make and not os.path.isdir(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.mkdir(path, 0o700)
        with contextlib.suppress(OSError):
            folder = os.open(path, _FOLDER)
    try:
        yield folder if folder is None or _is_trusted(path or "", os.fstat(folder)) else None
    finally:
        if folder is not None:
            os.close(folder)


def _is_trusted(path: str, status: os.stat_result) -> bool:
    if _is_ours(status):
        return True
    if path not in _distrusted:
        _distrusted.add(path)
        whose = "belongs to another user" if status.st_uid != os.geteuid() else "can be written by others"
        warnings.warn(
            f"machine code in {path} is not used: it {whose}; remove it, or let nobody else write to it",
            RuntimeWarning,
            stacklevel=3,
        )
    return False


def _entries(folder: int) -> list[tuple[float, int, str]]:
    """(time of last use, bytes taken, name) of all files, oldest first."""
    found = []
    with os.scandir(folder) as listed:
        for entry in listed:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, _taken(status.st_size), entry.name))
    return sorted(found)


def _taken(size: int) -> int:
    """What a file of so many bytes takes on disk."""
    return -(-size // _BLOCK) * _BLOCK


def _make_room(folder: int) -> None:
    """Remove what was used longest ago, until the rest is small enough, and what was left unfinished."""
    entries = _entries(folder)
    excess = sum(size for _, size, _ in entries) - MOST_BYTES
    excess += MOST_BYTES // 4 if excess > 0 else 0
    for used_at, size, name in entries:
        unfinished = not name.endswith(_SUFFIX) and time.time() - used_at > _DAY
        if excess > 0 or unfinished:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            excess -= size
