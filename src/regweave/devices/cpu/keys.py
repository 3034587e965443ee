"""What machine code on disk is filed under: a hash over everything that it was made from.

    text_key(text, names, features)      from an assembly text: the text, and the assembler that reads it
    source_key("chain ...", "avx512")    from a structure: its description, and regweave's own sources

The first needs no trust in anything but the assembler, but a text must be written to be looked up, which is
most of the work (10 ms). The second spares that. A generator's text depends on the structure that it is given
and on regweave's own files, and these are identified as a build tool does it, by size and time of change. If
one of them changed since this process started, what runs here may be older than what is on disk: then there
are no such keys.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache

from regweave import lazy
from regweave.devices.cpu import llvm

#: Changes with what is kept, and with the options that LLVM is given.
FORMAT = 1
#: Where generators of code, and all that they use, are, with the folders inside.
_FOLDERS = ("assembly", "cascades", "convolution", "kernels", "machines/x86", "operators")
#: Likewise, but without the folders inside; the package itself for its version.
_ALONE = ("", "machines")


def text_key(text: str, names: Sequence[str], features: Sequence[str] = ()) -> bytes | None:
    """The key of a text that defines the functions `names`, for a processor with `features`.

    None if the assembler cannot be told from another.
    """
    assembler = _assembler()
    if assembler is None:
        return None
    found = hashlib.sha256(repr((FORMAT, "text", assembler, *names, "on", *features)).encode())
    found.update(text.encode("utf-8", "surrogatepass"))
    return found.digest()


def source_key(structure: str, machine: str) -> bytes | None:
    """The key of what regweave's sources make of a structure, described in full, for a machine.

    None if the sources, or the assembler, cannot be told from others.
    """
    assembler, sources = _assembler(), _sources()
    if assembler is None or sources is None:
        return None
    return hashlib.sha256(repr((FORMAT, "source", assembler, sources, structure, machine)).encode()).digest()


def sources_unchanged() -> bool:
    """Whether the files are still those that `source_key` speaks of: else nothing may be kept under it."""
    return _sources.__wrapped__() == _sources()


@cache
def _assembler() -> tuple[int, ...] | None:
    """Size and time of the library that assembles."""
    path = llvm.library_path()
    try:
        status = os.stat(path) if path else None
    except OSError:
        return None
    return status and (status.st_size, status.st_mtime_ns)


@cache
def _sources() -> str | None:
    """A hash over name, size and times of the source files; None if one changed since they were loaded."""
    root = os.path.dirname(lazy.__file__)
    found, folders = [root], [*_ALONE, *_FOLDERS]
    try:
        for folder in folders:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    name = f"{folder}/{entry.name}"
                    if entry.name.endswith(".py"):
                        status = entry.stat()
                        if status.st_ctime_ns >= lazy.LOADED_AT:
                            return None
                        found.append(f"{name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
                    elif folder not in _ALONE and entry.name != "__pycache__" and entry.is_dir():
                        folders.append(name)  # its turn comes, behind the others
    except OSError:
        return None
    return hashlib.sha256("\n".join(found).encode()).hexdigest()
