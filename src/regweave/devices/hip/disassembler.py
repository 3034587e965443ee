"""LLVM's disassembler for AMD's GPUs, where some LLVM library with it is installed.

    >>> disassemble(machine_code(data), "gfx906")
    ('s_load_dwordx2 s[0:1], s[0:1], 0x0', 's_endpgm')

ziglang has an assembler but no disassembler. Any shared LLVM does (Debian's libLLVM from 15 on for gfx90a;
gfx942 needs 17), and so does the one inside a Rust toolchain. It is spoken to through LLVM's C interface.
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


def unsupported_reason() -> str | None:
    """None if there is a disassembler, else why there is none."""
    return None if _library() is not None else "no shared LLVM library with AMD's GPUs was found"


def disassemble(code: bytes, machine: str) -> tuple[str, ...]:
    """The instructions of `code`, one text each. DeviceError without an LLVM, or where it knows no `machine`;
    bytes that are no instruction read `?`."""
    library = _library()
    if library is None:
        raise DeviceError(str(unsupported_reason()), where="disassembler")
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
def _library() -> ctypes.CDLL | None:
    """The newest LLVM that has the disassembler, opened and set up."""
    paths = {path for place in _PLACES for path in glob.glob(os.path.expanduser(place))}
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
        return library
    return None


def _version(path: str) -> int:
    match = _VERSION.search(os.path.basename(path))
    return int(match[1]) if match else 0
