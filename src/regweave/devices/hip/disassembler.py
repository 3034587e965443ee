"""LLVM's disassembler for AMD's GPUs, where some LLVM library with it is installed.

    >>> disassemble(machine_code(data), "gfx906")
    ('s_load_dwordx2 s[0:1], s[0:1], 0x0', 's_endpgm')

ziglang has an assembler but no disassembler. A shared LLVM has one (Debian's libLLVM), and so has the one
inside a Rust toolchain. It is spoken to through LLVM's C interface, which ends the process when it is asked
for a machine that it does not know: so a table says from which release on each is read.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import os
import re
from functools import lru_cache

from regweave.errors import DeviceError

_PARTS = ("TargetInfo", "TargetMC", "Disassembler")
_PLACES = (
    "/usr/lib/*/libLLVM*.so*",
    "/usr/lib/llvm-*/lib/libLLVM*.so*",
    "~/.rustup/toolchains/*/lib/libLLVM*.so*",
)
_VERSION = re.compile(r"libLLVM[-.](?:so\.)?(\d+)")
_TEXT = 512
#: The release of LLVM from which on every instruction of a machine is read (15 misses some of gfx90a).
_SINCE = {"gfx906": 8, "gfx908": 10, "gfx90a": 17, "gfx942": 17, "gfx950": 20, "gfx1100": 15, "gfx1200": 18}


def unsupported_reason(machine: str) -> str | None:
    """None if instructions of `machine` can be read here, else why not."""
    found = _library()
    if found is None:
        return "no shared LLVM library with AMD's GPUs was found"
    if machine not in _SINCE:
        return f"the disassembler does not know {machine}"
    if found[1] < _SINCE[machine]:
        here = found[1] or "an unknown one"
        return f"the disassembler of {machine} comes with LLVM {_SINCE[machine]}, here is {here}"
    return None


def disassemble(code: bytes, machine: str) -> tuple[str, ...]:
    """The instructions of `code`, one text each. DeviceError without an LLVM that knows `machine`; bytes that
    are no instruction read `?`."""
    reason, opened = unsupported_reason(machine), _library()
    if reason is not None or opened is None:
        raise DeviceError(str(reason), where="disassembler")
    library = opened[0]
    context = library.LLVMCreateDisasmCPU(b"amdgcn-amd-amdhsa", machine.encode(), None, 0, None, None)
    if not context:
        raise DeviceError(f"this LLVM cannot disassemble {machine}", where="disassembler")
    found, at, text = [], 0, ctypes.create_string_buffer(_TEXT)
    data = ctypes.create_string_buffer(code, len(code))
    start = ctypes.addressof(data)
    while at < len(code):
        size = library.LLVMDisasmInstruction(context, start + at, len(code) - at, at, text, _TEXT)
        found.append(text.value.decode().strip() if size else "?")
        at += size or 4
    library.LLVMDisasmDispose(context)
    return tuple(found)


@lru_cache
def _library() -> tuple[ctypes.CDLL, int] | None:
    """The newest LLVM that has the disassembler, opened and set up, and its release."""
    places = [path for place in _PLACES for path in glob.glob(os.path.expanduser(place))]
    paths = {os.path.realpath(path) for path in places}  # libLLVM.so is a link to a name with its release
    for path in sorted(paths, key=lambda path: (_version(path), path), reverse=True):
        try:
            library = ctypes.CDLL(path)
            for part in _PARTS:
                getattr(library, f"LLVMInitializeAMDGPU{part}")()
        except (OSError, AttributeError):
            continue
        library.LLVMCreateDisasmCPU.restype = ctypes.c_void_p
        library.LLVMCreateDisasmCPU.argtypes = [
            ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
        ]  # fmt: skip
        library.LLVMDisasmInstruction.restype = ctypes.c_size_t
        library.LLVMDisasmInstruction.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p,
            ctypes.c_size_t,
        ]  # fmt: skip
        library.LLVMDisasmDispose.argtypes = [ctypes.c_void_p]
        return library, _version(path)
    return None


def _version(path: str) -> int:
    match = _VERSION.search(os.path.basename(path))
    return int(match[1]) if match else 0
