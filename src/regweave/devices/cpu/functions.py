"""Loaded functions: assemble a listing, place it, call it.

fn = load(listing)
fn(pointer, 3)                 # ctypes: integers and addresses in, nothing out
fn.address                     # for C code to call, as long as `fn` lives
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regweave.assembly import Listing
from regweave.devices.cpu.assembler import assemble
from regweave.devices.cpu.objects import Image, place
from regweave.errors import AssemblyError, DeviceError, InputError, nearest_names
from regweave.machines.x86 import VectorMachine, supports


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
    _calls: dict[int, Any] = field(default_factory=dict, repr=False)

    def __call__(self, *arguments: Any) -> int:
        """Call with integer or pointer arguments (ctypes objects or ints); returns rax as a signed integer.

        InputError if their number or types are wrong. The interpreter's lock is released while it runs.
        """
        if self.listing is not None and len(arguments) != len(self.listing.program.arguments):
            names = ", ".join(argument.name for argument in self.listing.program.arguments)
            raise InputError(f"{self.name} is called with {len(arguments)} arguments", expected=f"({names})")
        call = self._calls.get(len(arguments))
        if call is None:
            signature = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_void_p for _ in arguments))
            call = self._calls[len(arguments)] = signature(self.address)
        try:
            return call(*arguments)
        except ctypes.ArgumentError as error:
            raise InputError(
                f"{self.name}: {error}",
                expected="ints and ctypes pointers",
                fix="pass array.ctypes.data for a NumPy array",
            ) from None

    def typed(self, result: Any, *arguments: Any) -> Any:
        """The function as a ctypes callable of that signature; it keeps this object alive."""
        callable_ = ctypes.CFUNCTYPE(result, *arguments)(self.address)
        callable_.owner = self  # type: ignore[attr-defined]
        return callable_


@dataclass(frozen=True, eq=False)
class Library:
    """Several functions of one assembly text, in one piece of memory that lives as long as this object."""

    image: Image = field(repr=False)
    names: tuple[str, ...]

    def address(self, name: str) -> int:
        """Where the function `name` is; InputError if the library does not have it."""
        if name not in self.names:
            raise InputError(f"the library has no function {name!r}", nearest=nearest_names(name, self.names))
        return self.image.symbols[name]


def load(listing: Listing) -> Function:
    """Assemble and load a listing.

    AssemblyError for a bad line, DeviceError where this processor cannot run it.
    """
    machine = listing.program.machine
    if not isinstance(machine, VectorMachine) or not supports(machine):
        raise DeviceError(
            f"this processor cannot run {machine.name} code ({machine.title})",
            where=listing.name,
            fix="use the portable device",
        )
    started = time.perf_counter()
    image = load_text(listing.text, (listing.name,)).image
    seconds = time.perf_counter() - started
    return Function(listing.name, image.symbols[listing.name], image.code_bytes, seconds, image, listing)


def load_text(text: str, names: Sequence[str]) -> Library:
    """Assemble and load an assembly text that defines the global functions `names`.

    The caller vouches that the processor can run it: text says nothing about the machine that it is for.
    """
    names = tuple(names)
    title = names[0] if names else "text"
    image = place(assemble(text, name=title), name=title)
    for name in names:
        if name not in image.symbols:
            raise AssemblyError(
                f"the assembled text does not define {name!r}",
                nearest=nearest_names(name, image.symbols),
                expected=f".globl {name}",
            )
    return Library(image, names)
