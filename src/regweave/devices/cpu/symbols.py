"""Where the functions of a shared library are, exported or not: its ELF symbol table (.symtab), read quickly.

    >>> symbol_values(path, ("LLVMContextCreate",))                      # doctest: +SKIP
    {'LLVMContextCreate': 83334336}

A large library has some hundred thousand symbols and megabytes of names, so neither is walked in Python, and
the names are not searched one by one (2 to 10 ms each). Linkers write names in the order of their symbols,
with few exceptions: the distance from one name to the next is its length. Symbols whose name has a wanted
length are a few percent, those that also begin like a wanted name a handful; they are compared in full. That
takes 3 ms for any number of names, and happens once per library: what was found is kept with the machine code
(see `store`). What this way misses is searched for after all.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from regweave.devices.cpu import store

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_SYMTAB, _DYNSYM = 2, 11
#: Symbols looked at together: few enough that all arrays stay in memory that the process has already.
_CHUNK = 8192
#: So many symbols are compared in full.
_FEW = 100


def function_addresses(library: ctypes.CDLL, names: Sequence[str], anchor: str) -> dict[str, int] | None:
    """The addresses of functions in a loaded library: as exported, or else by its file's symbol table.

    `anchor` is an exported function, whose place tells where the library was loaded. None if a function is in
    neither.
    """
    try:
        return {name: _address(library, name) for name in names}
    except AttributeError:
        pass
    try:
        base = _address(library, anchor) - symbol_values(library._name, (anchor,), exported=True)[anchor]
        values = _kept_values(library._name, names)
        addresses = {name: base + values[name] for name in names}
    except (OSError, struct.error, ValueError, AttributeError, LookupError):
        return None
    return None if base % mmap.PAGESIZE else addresses


def _kept_values(path: str, names: Sequence[str]) -> dict[str, int]:
    """The same as `symbol_values`, from disk where an earlier process looked into this very file."""
    status = os.stat(path)
    what = ("symbols", path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, *names)
    key, form = hashlib.sha256(repr(what).encode()).digest(), struct.Struct(f"<{len(names)}Q")
    kept = store.find(key)
    if kept is not None and len(kept) == form.size:
        return dict(zip(names, form.unpack(kept), strict=True))
    values = symbol_values(path, names)
    if len(values) == len(names):
        store.keep(key, form.pack(*(values[name] for name in names)))
    return values


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def symbol_values(path: str, names: Sequence[str], *, exported: bool = False) -> dict[str, int]:
    """The values of the named symbols in an ELF file's .symtab (its .dynsym if `exported`).

    Those not found are left out.
    """
    wanted = {name.encode(): name for name in names}
    values: dict[str, int] = {}
    with open(path, "rb", buffering=0) as file:
        header = file.read(64)
        if header[:4] != b"\x7fELF":
            return values
        (sections_at,) = struct.unpack_from("<Q", header, 40)
        size, count = struct.unpack_from("<HH", header, 58)
        text = os.pread(file.fileno(), size * count, sections_at)
        sections = [struct.unpack_from("<IIQQQQIIQQ", text, i * size) for i in range(count)]
        for kind, start, length, link in ((s[1], s[4], s[5], s[6]) for s in sections):
            if kind == (_DYNSYM if exported else _SYMTAB) and length:
                names_of = _Names(file.fileno(), sections[link][4], sections[link][5])
                table = _Table(file.fileno(), start, length // _SYMBOL.itemsize)
                for at, value in table.likely(names_of, list(wanted)):
                    name = wanted.get(names_of.at(at))
                    if name is not None:
                        values[name] = value
                for encoded, name in wanted.items():
                    value = None if name in values else table.value(names_of.find(encoded))
                    if value is not None:
                        values[name] = value
    return values


class _Names:
    """A string table of a file."""

    def __init__(self, file: int, start: int, length: int) -> None:
        before = start % mmap.ALLOCATIONGRANULARITY
        # all pages at once: a fault for each one that is touched takes longer
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        memory = mmap.mmap(file, length + before, flags=flags, prot=mmap.PROT_READ, offset=start - before)
        self._memory, self._before = memory, before
        self.bytes = np.frombuffer(memory, np.uint8, length, before)

    def at(self, start: int) -> bytes:
        """The name that starts there."""
        start += self._before
        return self._memory[start : self._memory.find(b"\0", start)]

    def find(self, name: bytes) -> int:
        """Where a name starts, -1 if it is not there; slow."""
        found = self._memory.find(b"\0" + name + b"\0", self._before)
        return found + 1 - self._before if found >= 0 else -1


class _Table:
    """A symbol table of a file."""

    def __init__(self, file: int, start: int, count: int) -> None:
        self._file, self._start, self._count = file, start, count
        self._memory = bytearray((_CHUNK + 1) * _SYMBOL.itemsize)

    def _chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(start of the name, value) arrays of up to _CHUNK symbols and the one behind them."""
        rows = np.frombuffer(self._memory, _SYMBOL)
        for first in range(0, self._count, _CHUNK):
            os.preadv(self._file, [self._memory], self._start + first * _SYMBOL.itemsize)
            chunk = rows[: self._count - first]
            yield chunk["name"].astype(np.int64), chunk["value"]

    def likely(self, names: _Names, wanted: Sequence[bytes]) -> list[tuple[int, int]]:
        """(start of the name, value) of the symbols whose names have the length and the beginning of one of
        `wanted`, provided that names are in order."""
        lengths = {len(name) for name in wanted}
        fits = np.zeros(max(lengths) + 2, bool)
        fits[list(lengths)] = True
        starts, values = [], []
        for at, value in self._chunks():
            rows = np.flatnonzero(fits.take(np.diff(at) - 1, mode="clip"))
            starts.append(at[rows])
            values.append(value[rows])
        start, value = np.concatenate(starts), np.concatenate(values)
        for place in range(min(lengths)):
            letters = names.bytes[start + place]
            kept = np.logical_or.reduce([letters == letter for letter in {name[place] for name in wanted}])
            start, value = start[kept], value[kept]
            if len(start) < _FEW:
                break
        return list(zip(start.tolist(), value.tolist(), strict=True))

    def value(self, name_at: int) -> int | None:
        """The value of the first symbol whose name starts there."""
        for at, value in self._chunks() if name_at >= 0 else ():
            rows = np.flatnonzero(at == name_at)
            if len(rows):
                return int(value[rows[0]])
        return None
