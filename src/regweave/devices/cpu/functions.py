"""Loaded functions: assemble a listing, or find its code on disk, place it, call it.

    fn = load(listing)
    fn(pointer, 3)                 # ctypes: integers and addresses in, nothing out
    fn.address                     # for C code to call, as long as `fn` lives

    fn = load_made(lambda: kernel(structure, machine), f"kernel {structure}", machine)

The second form writes the listing only if its code is not on disk, or when somebody asks for it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regweave.devices.cpu import store
from regweave.devices.cpu.keys import source_key, sources_unchanged, text_key
from regweave.devices.cpu.objects import Image, place
from regweave.errors import AssemblyError, DeviceError, InputError, nearest_names
from regweave.machines.x86 import AVX2, AVX512, VectorMachine, supports
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.assembly import Listing


@frozen(eq=False)
class Function:
    """Machine code in memory. Keep it alive while its `address` may be called: its memory goes when it goes.

    `seconds` is the time that assembling (or finding) and loading took; `code_bytes` the size of the code.
    """

    name: str
    address: int
    code_bytes: int
    seconds: float
    image: Image = field(repr=False)
    _make: Callable[[], Listing] = field(repr=False)
    _calls: dict[int, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def listing(self) -> Listing:
        """The function's text with its registers; written now if the code was found on disk."""
        return self._make()

    def __call__(self, *arguments: Any) -> int:
        """Call with integer or pointer arguments (ctypes objects or ints); returns rax as a signed integer.

        InputError if their number or types are wrong. The interpreter's lock is released while it runs.
        """
        call = self._calls.get(len(arguments))
        if call is None:
            taken = self.listing.program.arguments
            if len(arguments) != len(taken):
                names = ", ".join(argument.name for argument in taken)
                raise InputError(
                    f"{self.name} is called with {len(arguments)} arguments", expected=f"({names})"
                )
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


@frozen(eq=False)
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
    started = time.perf_counter()
    return _function(_load_listing(listing)[0], listing.name, started, lambda: listing)


def load_made(make: Callable[[], Listing], structure: str, machine: VectorMachine) -> Function:
    """Load the listing that `make` writes, without writing it if its code is on disk from an earlier process.

    `structure` describes the listing for `machine` in full: what it says, this machine and regweave's own
    files are all that the text may depend on. Errors as of `load`, and those of `make`.
    """
    started = time.perf_counter()
    key = None
    if machine in (AVX512, AVX2) and store.is_on():
        _check_machine(machine, structure)
        key = source_key(structure, machine.name)
        image = _found(store.find(key)) if key is not None else None
        if image is not None and len(image.symbols) == 1:
            return _function(image, next(iter(image.symbols)), started, make)
    listing = make()
    image, text = _load_listing(listing)
    if key is not None and text is not None and sources_unchanged():
        store.keep(key, text)  # where the code is, not the code once more
    return _function(image, listing.name, started, lambda: listing)


def load_text(text: str, names: Sequence[str]) -> Library:
    """Assemble and load an assembly text that defines the global functions `names`.

    The caller vouches that the processor can run it: text says nothing about the machine that it is for.
    """
    names = tuple(names)
    return Library(_load(text, names, text_key(text, names)), names)


def _function(image: Image, name: str, started: float, make: Callable[[], Listing]) -> Function:
    seconds = time.perf_counter() - started
    return Function(name, image.symbols[name], image.code_bytes, seconds, image, make)


def _check_machine(machine: Any, name: str) -> VectorMachine:
    if not isinstance(machine, VectorMachine) or not supports(machine):
        raise DeviceError(
            f"this processor cannot run {machine.name} code ({machine.title})",
            where=name,
            fix="use the portable device",
        )
    return machine


def _load_listing(listing: Listing) -> tuple[Image, bytes | None]:
    """The listing's code in memory, and the key under which it is on disk."""
    machine = _check_machine(listing.program.machine, listing.name)
    key = text_key(listing.text, (listing.name,), machine.features) if store.is_on() else None
    return _load(listing.text, (listing.name,), key), key


def _load(text: str, names: tuple[str, ...], key: bytes | None) -> Image:
    """The text's code in memory, from disk if it is there under `key`."""
    image = _found(key)
    if image is not None and set(names) <= set(image.symbols):
        return image
    from regweave.devices.cpu.assembler import assemble

    title = names[0] if names else "text"
    assembled = assemble(text, name=title)
    image = place(assembled, name=title)
    for name in names:
        if name not in image.symbols:
            raise AssemblyError(
                f"the assembled text does not define {name!r}",
                nearest=nearest_names(name, image.symbols),
                expected=f".globl {name}",
            )
    if key is not None:
        store.keep(key, assembled)
    return image


def _found(key: bytes | None) -> Image | None:
    """The code on disk under a key, in memory; None if there is none that can be loaded."""
    assembled = None if key is None else store.find(key)
    try:
        return None if assembled is None else place(assembled)
    except AssemblyError:
        return None
