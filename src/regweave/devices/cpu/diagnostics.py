"""Makes LLVM report an assembly error instead of ending the process.

Left alone, LLVM prints a bad line to standard error and calls `exit(1)`. Its C interface lets a handler be
installed on a context; then errors reach the handler and assembling goes on to the next line. llvmlite's
shared library contains that interface but does not export it, so the three functions are found in the
library's own symbol table (an ELF .symtab; 20 ms once per process) and checked against one function that is
exported. Where that cannot be done (a stripped library), `install` returns None and `assembler` tries each
listing in a child process first.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

_SETTER = "LLVMContextSetDiagnosticHandler"
_DESCRIBE = "LLVMGetDiagInfoDescription"
_SEVERITY = "LLVMGetDiagInfoSeverity"
_DISPOSE = "LLVMDisposeMessage"
_ANCHOR = "LLVMPY_GetGlobalContext"
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
ERROR = 0


class Diagnostics:
    """The messages of one assembly, each (severity, text): severity 0 is an error. `take` empties it."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, str]] = []
        #: LLVM holds the callback's address, so the callback must live as long as this.
        self.handler: object = None

    def take(self) -> list[tuple[int, str]]:
        """The messages since the last call."""
        taken, self.messages = self.messages, []
        return taken


def install(context: Any) -> Diagnostics | None:
    """Install a handler on a context of llvmlite's; None if LLVM's functions cannot be found."""
    import llvmlite.binding as llvm

    path = Path(llvm.__file__).with_name("libllvmlite.so")
    library = ctypes.CDLL(str(path))
    found = _functions(library, path)
    if found is None:
        return None
    setter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _HANDLER, ctypes.c_void_p)(found[_SETTER])
    describe = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(found[_DESCRIBE])
    severity = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(found[_SEVERITY])
    dispose = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found[_DISPOSE])
    diagnostics = Diagnostics()

    @_HANDLER
    def handle(info: int, owner: int) -> None:
        text = describe(info)
        diagnostics.messages.append((severity(info), ctypes.string_at(text).decode(errors="replace")))
        dispose(text)

    setter(ctypes.cast(context._ptr, ctypes.c_void_p), handle, None)
    diagnostics.handler = handle
    return diagnostics


def _functions(library: ctypes.CDLL, path: Path) -> dict[str, int] | None:
    """The functions' addresses: as exported, or by the symbol table and an exported function's place."""
    wanted = (_SETTER, _DESCRIBE, _SEVERITY, _DISPOSE)
    try:
        return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in wanted}
    except AttributeError:
        pass
    try:
        offsets = symbol_values(path, (*wanted, _ANCHOR))
        anchor = ctypes.cast(getattr(library, _ANCHOR), ctypes.c_void_p).value or 0
    except (OSError, struct.error, ValueError, AttributeError):
        return None
    if len(offsets) != len(wanted) + 1:
        return None
    base = anchor - offsets[_ANCHOR]
    if base % mmap.PAGESIZE:
        return None
    return {name: base + offsets[name] for name in wanted}


def symbol_values(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    """The values of the named symbols in an ELF file's .symtab; those not found are left out."""
    values: dict[str, int] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        if image[:4] != b"\x7fELF":
            return values
        (sections_at,) = struct.unpack_from("<Q", image, 40)
        size, count = struct.unpack_from("<HH", image, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + i * size) for i in range(count)]
        for kind, start, length, link in ((s[1], s[4], s[5], s[6]) for s in sections):
            if kind != 2:
                continue
            strings, strings_length = sections[link][4], sections[link][5]
            table = np.frombuffer(image[start : start + length], dtype=_SYMBOL)
            for name in names:
                at = image.find(b"\0" + name.encode() + b"\0", strings, strings + strings_length)
                if at >= 0:
                    rows = np.flatnonzero(table["name"] == at + 1 - strings)
                    if len(rows):
                        values[name] = int(table["value"][rows[0]])
    return values
