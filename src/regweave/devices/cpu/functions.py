"""Loaded functions: assemble a listing, place it, call it.

fn = load(listing)
fn(pointer, 3)                 # ctypes: integers and addresses in, nothing out
fn.address                     # for C code to call, as long as `fn` lives
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, field
from typing import Any

from regweave.assembly import Listing
from regweave.devices.cpu.assembler import assemble
from regweave.devices.cpu.objects import Image, place
from regweave.errors import DeviceError
from regweave.machines.x86 import supports


@dataclass(frozen=True, eq=False)
class Function:
    """Machine code in memory. Keep it alive while its `address` may be called: its memory goes when it goes.

    `seconds` is the time that assembling and loading took; `code_bytes` the size of the code.
    """

    name: str
    address: int
    code_bytes: int
    seconds: float
    image: Image = field(repr=False)
    listing: Listing | None = field(default=None, repr=False)

    def __call__(self, *arguments: Any) -> int:
        """Call with integer or pointer arguments (ctypes objects or ints, up to six); returns rax as a signed integer.

        The interpreter's lock is released while it runs.
        """
        return self.typed(ctypes.c_int64, *(ctypes.c_void_p for _ in arguments))(*arguments)

    def typed(self, result: Any, *arguments: Any) -> Any:
        """The function as a ctypes callable of that signature; it keeps this object alive."""
        callable_ = ctypes.CFUNCTYPE(result, *arguments)(self.address)
        callable_.owner = self  # type: ignore[attr-defined]
        return callable_


def load(listing: Listing) -> Function:
    """Assemble and load a listing. AssemblyError for a bad line, DeviceError where this processor cannot run it."""
    machine = listing.program.machine
    if not supports(machine):
        raise DeviceError(
            f"this processor cannot run {machine.name} code ({machine.title})",
            where=listing.name,
            fix="use the portable device",
        )
    return load_text(listing.text, listing.name, listing=listing)


def load_text(text: str, name: str, *, listing: Listing | None = None) -> Function:
    """Assemble and load an assembly text that defines the global symbol `name`. The caller vouches for the processor."""
    started = time.perf_counter()
    image = place(assemble(text, name=name), name=name)
    if name not in image.symbols:
        raise DeviceError(f"the assembled text does not define {name!r}", expected=f".globl {name}")
    return Function(
        name, image.symbols[name], image.code_bytes, time.perf_counter() - started, image, listing
    )
