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
    """The messages of one assembly: `take` returns and forgets them. Each is (severity, text); severity 0 is
    an error."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, str]] = []
        #: LLVM holds the callback's address, so the callback must live as long as this.
        self.handler: object = None

    def take(self) -> list[tuple[int, str]]:
        """The messages since the last call."""
        taken, self.messages = self.messages, []
        return taken


def install() -> Diagnostics | None:
    """Install a handler on LLVM's global context; None if the functions cannot be found."""
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
    def handle(info: int, context: int) -> None:
        text = describe(info)
        diagnostics.messages.append((severity(info), ctypes.string_at(text).decode(errors="replace")))
        dispose(text)

    library.LLVMPY_GetGlobalContext.restype = ctypes.c_void_p
    setter(library.LLVMPY_GetGlobalContext(), handle, None)
    diagnostics.handler = handle
    return diagnostics


def _functions(library: ctypes.CDLL, path: Path) -> dict[str, int] | None:
    """The functions' addresses: exported ones directly, others through the symbol table and the anchor's
    address."""
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
