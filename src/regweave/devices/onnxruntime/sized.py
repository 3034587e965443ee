"""Operators whose kernel is prepared for each size of image: a convolution's tables depend on it.

    SizedOperator("Conv0", prepare=lambda shape: Prepared(out_shape, kernel, arguments, ...))

onnxruntime's call finds the shape of its input among those prepared before, without Python. For a new one it
asks `prepare`, once, and keeps the answer as long as the operator lives. A kernel may leave word that its
result is not to be used, a NaN in its part's flags: then the prepared `fallback` runs.

    ImageSize    a prepared size as the native side reads it: shapes, kernel, arguments, one piece of scratch
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regweave.devices.onnxruntime.blocks import RANK, ImageSize, OperatorBlock, ScratchSlot

MOST_SIZES = 4096
"""Sizes that an operator can be prepared for in its life; a page-sized table holds their places."""

_LINE = 64


@dataclass(frozen=True, eq=False)
class Prepared:
    """A kernel ready for one shape.

    `kernel` is the address of `void kernel(const Arguments *, size_t part)`; `arguments` are complete but
    for the fields named by `places` (for "x", "y", "scratch", "flags"). `scratch` and `flags` are the bytes
    of a part. `fallback` runs where a flag is NaN; without one they are not looked at.
    """

    out_shape: tuple[int, ...]
    kernel: int
    arguments: ctypes.Structure
    places: dict[str, str]
    parts: int
    scratch: int
    flags: int
    fallback: Prepared | None = None
    keep: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class SizedOperator:
    """`y = name(x)` on float32 images [batch, channels, height, width].

    `prepare` answers a shape of x with what runs it, or raises: then onnxruntime's call fails with the words
    of the error. Its arguments are of `arguments_size` bytes. `keep` is whatever must live as long as the
    operator.
    """

    name: str
    channels: int
    arguments_size: int
    prepare: Callable[[tuple[int, ...]], Prepared]
    keep: tuple[Any, ...] = ()


@dataclass(eq=False)
class Sizes:
    """The sizes that one operator is prepared for, and the callback that prepares further ones."""

    operator: SizedOperator
    block: OperatorBlock
    table: Any = field(default_factory=lambda: (ctypes.c_void_p * MOST_SIZES)())
    _alive: list[Any] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.block.sizes = ctypes.addressof(self.table)
        self.callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))(self._prepare)
        self.block.prepare = ctypes.cast(self.callback, ctypes.c_void_p).value

    def _prepare(self, dims: Any) -> int | None:
        """What the native side calls with a shape that is new: the address of an ImageSize, None if there is
        none."""
        shape = tuple(dims[:RANK])
        try:
            with self._lock:
                for size in self._alive:
                    if tuple(size.dims) == shape:
                        return ctypes.addressof(size)
                if self.block.size_count == MOST_SIZES:
                    raise ValueError(f"more than {MOST_SIZES} sizes of image")
                size = self._size(shape, self.operator.prepare(shape))
                self._alive.append(size)
                self.table[self.block.size_count] = ctypes.addressof(size)
                # after its place is filled: the native side reads it without a lock
                self.block.size_count += 1
                return ctypes.addressof(size)
        except Exception as error:
            words = f"regweave {self.operator.name}: {error}".encode("utf-8", "replace")
            self._words = ctypes.create_string_buffer(words)
            self.block.shape_words = ctypes.addressof(self._words)
            return None

    def _size(self, shape: tuple[int, ...], prepared: Prepared) -> ImageSize:
        places = {
            role: getattr(type(prepared.arguments), name).offset for role, name in prepared.places.items()
        }
        flags = prepared.parts * prepared.flags
        size = ImageSize()
        size.dims[:], size.out_dims[:] = shape, prepared.out_shape
        size.kernel, size.parts = prepared.kernel, prepared.parts
        size.arguments = ctypes.addressof(prepared.arguments)
        size.flags_size, size.strips_offset = flags, -(-flags // _LINE) * _LINE
        size.scratch_size = size.strips_offset + prepared.parts * prepared.scratch
        for role, place in places.items():
            setattr(size, f"{role}_place", place)
        memory = ctypes.create_string_buffer(size.scratch_size + _LINE)
        size.slot = ScratchSlot(0, -(-ctypes.addressof(memory) // _LINE) * _LINE)
        fallback = None if prepared.fallback is None else self._size(shape, prepared.fallback)
        size.fallback = None if fallback is None else ctypes.addressof(fallback)
        size.alive = (prepared, memory, fallback)
        return size
