"""LLVM's assembler, taken out of llvmlite's shared library, with errors as messages.

    image, messages = open_assembler().assemble(text)

llvmlite's Python would do, but for two things. Left alone, LLVM prints a bad line to standard error and
calls `exit(1)`; LLVM's C interface lets a handler be installed, then errors reach the handler and assembling
goes on to the next line, but llvmlite has no way to it. And importing llvmlite takes five times as long (30
ms) as loading its library. The library contains LLVM's C interface, which is stable across versions, without
exporting it; so its functions are found in the library's own symbol table (see `symbols`). Where that cannot
be done (a stripped library), `open_assembler` returns None, and `assembler` does without.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

from regweave.errors import DeviceError

#: The object format that `objects` reads, whatever the system's own.
TRIPLE = "x86_64-unknown-linux-gnu"
ERROR = 0
"""Severity of the messages that are errors."""

_OBJECT_FILE, _POSITION_INDEPENDENT = 1, 2
_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
#: LLVM's C interface: result, then arguments.
_INTERFACE: dict[str, tuple[Any, ...]] = {
    "LLVMContextCreate": (c_void_p,),
    "LLVMContextSetDiagnosticHandler": (None, c_void_p, _HANDLER, c_void_p),
    "LLVMCreateTargetMachine": (c_void_p, c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int),
    "LLVMDisposeMemoryBuffer": (None, c_void_p),
    "LLVMDisposeMessage": (None, c_void_p),
    "LLVMDisposeModule": (None, c_void_p),
    "LLVMGetBufferSize": (c_size_t, c_void_p),
    "LLVMGetBufferStart": (c_void_p, c_void_p),
    "LLVMGetDiagInfoDescription": (c_void_p, c_void_p),
    "LLVMGetDiagInfoSeverity": (c_int, c_void_p),
    "LLVMGetTargetFromTriple": (c_int, c_char_p, POINTER(c_void_p), POINTER(c_void_p)),
    "LLVMModuleCreateWithNameInContext": (c_void_p, c_char_p, c_void_p),
    "LLVMSetModuleInlineAsm2": (None, c_void_p, c_char_p, c_size_t),
    "LLVMSetTarget": (None, c_void_p, c_char_p),
    "LLVMTargetMachineEmitToMemoryBuffer": (
        c_int, c_void_p, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p)
    ),
}  # fmt: skip
#: llvmlite's own, exported functions without arguments that make the host's target known.
_PREPARATIONS = tuple(f"LLVMPY_InitializeNative{part}" for part in ("Target", "AsmPrinter", "AsmParser"))


def library_path() -> str | None:
    """Where llvmlite's shared library is, found without importing llvmlite; None if it is not there."""
    spec = importlib.util.find_spec("llvmlite")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, "binding", "libllvmlite.so")
        if os.path.isfile(path):
            return path
    return None


def open_assembler() -> LlvmAssembler | None:
    """The assembler in a context of its own; None if LLVM's functions cannot be found.

    DeviceError if LLVM was built for another processor.
    """
    from regweave.devices.cpu.symbols import function_addresses

    path = library_path()
    try:
        library = ctypes.CDLL(path) if path else None
        preparations = [getattr(library, name) for name in _PREPARATIONS]
    except (OSError, AttributeError):
        return None
    assert library is not None
    found = function_addresses(library, tuple(_INTERFACE), _PREPARATIONS[0])
    if found is None:
        return None
    for prepare in preparations:
        prepare()
    return LlvmAssembler({name: ctypes.CFUNCTYPE(*_INTERFACE[name])(found[name]) for name in _INTERFACE})


class LlvmAssembler:
    """See the module. Calls must not overlap: the messages would mix."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self._call = functions
        self._messages: list[tuple[int, str]] = []
        target, problem = c_void_p(), c_void_p()
        if functions["LLVMGetTargetFromTriple"](TRIPLE.encode(), ctypes.byref(target), ctypes.byref(problem)):
            functions["LLVMDisposeMessage"](problem)
            raise DeviceError("this processor is not an x86-64 one", fix="use the portable device")
        self._machine = functions["LLVMCreateTargetMachine"](
            target, TRIPLE.encode(), b"", b"", 2, _POSITION_INDEPENDENT, 0
        )
        self._context = functions["LLVMContextCreate"]()
        #: LLVM holds the callback's address, so the callback must live as long as this.
        self._handler = _HANDLER(self._receive)
        functions["LLVMContextSetDiagnosticHandler"](self._context, self._handler, None)

    def _receive(self, info: int, owner: int) -> None:
        severity = self._call["LLVMGetDiagInfoSeverity"](info)
        self._messages.append((severity, self._taken(self._call["LLVMGetDiagInfoDescription"](info))))

    def _taken(self, text: Any) -> str:
        """The string at an address, which is then given back to LLVM."""
        words = ctypes.string_at(text).decode(errors="replace")
        self._call["LLVMDisposeMessage"](text)
        return words

    def assemble(self, text: str) -> tuple[bytes, list[tuple[int, str]]]:
        """The ELF object of a text, of use only where no message is an error: (severity, words) each."""
        call, encoded = self._call, text.encode()
        self._messages = []
        module = call["LLVMModuleCreateWithNameInContext"](b"", self._context)
        try:
            call["LLVMSetTarget"](module, TRIPLE.encode())
            call["LLVMSetModuleInlineAsm2"](module, encoded, len(encoded))
            problem, buffer = c_void_p(), c_void_p()
            if call["LLVMTargetMachineEmitToMemoryBuffer"](
                self._machine, module, _OBJECT_FILE, ctypes.byref(problem), ctypes.byref(buffer)
            ):
                return b"", [(ERROR, self._taken(problem))]
        finally:
            call["LLVMDisposeModule"](module)
        try:
            size, start = call["LLVMGetBufferSize"](buffer), call["LLVMGetBufferStart"](buffer)
            return bytes((ctypes.c_char * size).from_address(start)), self._messages
        finally:
            call["LLVMDisposeMemoryBuffer"](buffer)
