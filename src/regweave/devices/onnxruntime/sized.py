"""Operators whose kernels are prepared for each size of image: a convolution's tables depend on it.

    SizedOperator("Conv0", prepare=lambda shape: Prepared(out_shape, (Step(kernel, arguments, ...),), memory))

onnxruntime's call finds the shapes of its inputs among those prepared before, without Python. For new ones it
asks `prepare`, once, and keeps the answer as long as the operator lives. What is prepared is a list of steps,
each a kernel whose addresses are counted from an input, from the output or from memory for the call:

    pool       input 0        -> memory + 0         a region of a network: what one step writes the next
    convolve   input 1        -> memory + 9830400   one reads, side by side where it is concatenated
    convolve   memory + 0     -> output

A kernel may leave word that its result is not to be used, a NaN in its part's flags, which start that memory:
then the step's `fallback` runs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regweave.devices.onnxruntime.blocks import RANK, ImageSize, OperatorBlock, Patch, ScratchSlot, StepBlock

MOST_SIZES = 4096
"""Sizes that an operator can be prepared for in its life; a page-sized table holds their places."""

LINE = 64
"""Bytes of a cache line; memory starts at one."""


Field = str | tuple[str, int]
"""A field of a kernel's arguments, or an element of a field that is an array of addresses."""


@dataclass(frozen=True)
class Place:
    """`offset` bytes into input `source`, or into one of OUTPUT_PLACE and WORK_PLACE."""

    source: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel with its arguments.

    `kernel` is the address of `void kernel(const Arguments *, size_t part)`; `arguments` are complete but for
    the addresses, which `places` gives by their fields. `flags` are the bytes of all parts' flags;
    `fallback` runs where one is NaN, without one they are not looked at.
    """

    kernel: int
    arguments: ctypes.Structure
    places: Mapping[str, Place] | Mapping[Field, Place]
    parts: int
    flags: int = 0
    fallback: Step | None = None
    keep: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Prepared:
    """What runs for given shapes: steps in their order, and the bytes of memory that they need together."""

    out_shape: tuple[int, ...]
    steps: tuple[Step, ...]
    memory: int


@dataclass(frozen=True, eq=False)
class SizedOperator:
    """`y = name(x, ...)` on float32 images [batch, channels, height, width].

    `prepare` answers the inputs' shapes with what runs them, or raises: then onnxruntime's call fails with
    the words of the error. No arguments of its steps are larger than `arguments_size` bytes. `channels` are
    those of each input. `keep` is whatever must live as long as the operator.
    """

    name: str
    channels: tuple[int, ...]
    arguments_size: int
    prepare: Callable[..., Prepared]
    keep: tuple[Any, ...] = ()


class Pool:
    """Memory that the operators of a session take turns in: what one leaves in the cache is the next one's.

    A slot that is too small stays for those that it serves; the next one is half as large again at least, so
    that all together are not much more than the largest.
    """

    def __init__(self) -> None:
        self._slots: list[tuple[int, ScratchSlot, Any]] = []
        self._lock = threading.Lock()

    def slot(self, size: int) -> ScratchSlot:
        """A slot of at least `size` bytes."""
        with self._lock:
            for capacity, slot, _ in self._slots:
                if capacity >= size:
                    return slot
            largest = max((capacity for capacity, _, _ in self._slots), default=0)
            capacity = max(size, largest + largest // 2)
            memory = ctypes.create_string_buffer(capacity + LINE)
            slot = ScratchSlot(0, -(-ctypes.addressof(memory) // LINE) * LINE)
            self._slots.append((capacity, slot, memory))
            return slot


@dataclass(eq=False)
class Sizes:
    """The sizes that one operator is prepared for, and the callback that prepares further ones."""

    operator: SizedOperator
    block: OperatorBlock
    pool: Pool
    table: Any = field(default_factory=lambda: (ctypes.c_void_p * MOST_SIZES)())
    _alive: list[Any] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.block.sizes = ctypes.addressof(self.table)
        self.callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))(self._prepare)
        self.block.prepare = ctypes.cast(self.callback, ctypes.c_void_p).value

    def _prepare(self, dims: Any) -> int | None:
        """What the native side calls with shapes that are new: the address of an ImageSize, None if there is
        none."""
        count = RANK * len(self.operator.channels)
        found = tuple(dims[:count])
        try:
            with self._lock:
                for size in self._alive:
                    if tuple(size.dims[:count]) == found:
                        return ctypes.addressof(size)
                if self.block.size_count == MOST_SIZES:
                    raise ValueError(f"more than {MOST_SIZES} sizes of image")
                shapes = [found[at : at + RANK] for at in range(0, count, RANK)]
                size = self._size(found, self.operator.prepare(*shapes))
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

    def _size(self, dims: tuple[int, ...], prepared: Prepared) -> ImageSize:
        size = ImageSize()
        size.dims[: len(dims)], size.out_dims[:] = dims, prepared.out_shape
        following: StepBlock | None = None
        for step in reversed(prepared.steps):
            following = self._step(step, following)
        size.first, size.memory_size = _address(following), prepared.memory
        slot = self.pool.slot(prepared.memory)
        size.slot = ctypes.addressof(slot)
        size.alive = (prepared, slot, following)
        return size

    def _step(self, step: Step, following: StepBlock | None) -> StepBlock:
        assert ctypes.sizeof(step.arguments) <= self.operator.arguments_size, "room on the stack for them"
        kind = type(step.arguments)
        patches = (Patch * len(step.places))(
            *((_offset(kind, field), place.source, place.offset) for field, place in step.places.items())
        )
        fallback = None if step.fallback is None else self._step(step.fallback, following)
        block = StepBlock(
            _address(following),
            _address(fallback),
            step.kernel,
            ctypes.addressof(step.arguments),
            ctypes.sizeof(step.arguments),
            step.parts,
            step.flags,
            ctypes.addressof(patches),
            len(patches),
        )
        block.alive = (step, patches, fallback, following)
        return block


def _offset(kind: type[ctypes.Structure], field: Field) -> int:
    name, index = (field, 0) if isinstance(field, str) else field
    return getattr(kind, name).offset + index * ctypes.sizeof(ctypes.c_void_p)


def _address(block: StepBlock | None) -> int | None:
    return None if block is None else ctypes.addressof(block)
