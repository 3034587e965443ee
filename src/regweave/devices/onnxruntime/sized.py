"""Operators whose kernels are prepared for each size of image: a convolution's tables depend on it.

    SizedOperator("Conv0", prepare=lambda shape: Prepared(out_shape, (Step(kernel, arguments, ...),), memory))

onnxruntime's call finds the shapes of its inputs among those prepared before, without Python. For new ones it
asks `prepare` and keeps the answer until too many others have been asked for since. What is prepared is a
list of steps, each a kernel whose addresses are counted from an input, from an output or from memory for the
call:

    pool       input 0        -> memory + 0         a region of a network: what one step writes the next
    convolve   input 1        -> memory + 9830400   one reads, side by side where it is concatenated
    convolve   memory + 0     -> output

A kernel may leave word that its result is not to be used, a NaN in its part's flags, which start that
memory: then `prepare` is asked for steps that do without such kernels, and the call begins anew with these.
Few models ever need them, and they take as long to prepare.

A size that goes must not go while a call walks it. Calls are counted; what no new call can find is let go of
when the call that asks is the only one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regweave.devices.onnxruntime.blocks import (
    ABSENT,
    RANK,
    ImageSize,
    OperatorBlock,
    Patch,
    ScratchSlot,
    StepBlock,
)
from regweave.errors import InputError

MOST_SIZES = 1024
"""Sizes that an operator is prepared for at a time."""

MOST_STEPS = 1 << 15
"""Steps of all of them, if there are several: each takes about a kilobyte."""

LINE = 64
"""Bytes of a cache line; memory starts at one."""


Field = str | tuple[str, int] | int
"""A field of a kernel's arguments, an element of a field that is an array of addresses, or the byte at which
an address goes."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """`offset` bytes into input `source`, or into WORK_PLACE, or into output k: OUTPUT_PLACE + k."""

    source: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel with its arguments.

    `kernel` is the address of `void kernel(const Arguments *, size_t part)`; `arguments` are complete but for
    the addresses, which `places` gives by their fields (each a Field). `flags` are the bytes of all parts'
    flags, or 0.
    """

    kernel: int
    arguments: ctypes.Structure
    places: Mapping[Any, Place]
    parts: int
    flags: int = 0
    keep: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Prepared:
    """What runs for given shapes: steps in their order, and the bytes of memory that they need together.

    `further` are the shapes of the outputs behind the first.
    """

    out_shape: Shape
    steps: tuple[Step, ...]
    memory: int
    further: tuple[Shape, ...] = ()


@dataclass(frozen=True, eq=False)
class SizedOperator:
    """`y, ... = name(x, ...)` on float32 images [batch, channels, height, width].

    `prepare` answers the inputs' shapes with what runs them, or raises: then onnxruntime's call fails with
    the words of the error. Where steps have flags, it takes `finite=False` as well, and answers with steps
    that have none. No arguments of its steps are larger than `arguments_size` bytes. `channels` are those of
    each input, None where it need not be an image. `keep` is whatever must live as long as the operator. The
    result has at most `rank` dimensions (beyond RANK only within an operator of several); of a `view` it has
    the input's elements.
    """

    name: str
    channels: tuple[int | None, ...]
    arguments_size: int
    prepare: Callable[..., Prepared]
    keep: tuple[Any, ...] = ()
    outputs: int = 1
    rank: int = RANK
    view: bool = False

    @property
    def inputs(self) -> int:
        """How many there are."""
        return len(self.channels)


def image_words(operator: SizedOperator) -> str:
    """The message for shapes of a rank that an operator does not take."""
    wanted = ", ".join(
        f"up to {RANK} dimensions" if count is None else f"[batch, {count}, height, width]"
        for count in operator.channels
    )
    return f"not all inputs are images; expected {wanted}"


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
    """The sizes that one operator is prepared for, and the callback that prepares further ones.

    Where there is no room for another, one goes that no call has met since the last look at it.
    """

    operator: SizedOperator
    block: OperatorBlock
    pool: Pool
    table: Any = field(default_factory=lambda: (ctypes.c_void_p * MOST_SIZES)())
    _alive: list[ImageSize] = field(default_factory=list)
    _gone: list[ImageSize] = field(default_factory=list)
    _look: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.block.sizes = ctypes.addressof(self.table)
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int)
        self.callback = kind(self._prepare)
        self.block.prepare = ctypes.cast(self.callback, ctypes.c_void_p).value

    def _prepare(self, dims: Any, exact: int) -> int | None:
        """What the native side calls with shapes that are new, or with `exact` for values that are not
        finite: the address of an ImageSize, None if there is none."""
        found = tuple(dims[: RANK * self.operator.inputs])
        try:
            with self._lock:
                size = self._exact(found) if exact else self._met(found)
                return ctypes.addressof(size)
        except Exception as error:
            words = f"regweave {self.operator.name}: {error}".encode("utf-8", "replace")
            self._words = ctypes.create_string_buffer(words)
            self.block.shape_words = ctypes.addressof(self._words)
            return None

    def _known(self, dims: tuple[int, ...]) -> ImageSize | None:
        return next((size for size in self._alive if tuple(size.dims[: len(dims)]) == dims), None)

    def _met(self, dims: tuple[int, ...]) -> ImageSize:
        size = self._known(dims)  # another thread was faster
        if size is None:
            size = self._size(dims)
            self._make_room(size.steps)
            self._alive.append(size)
            self.table[self.block.size_count] = ctypes.addressof(size)
            # after its place is filled: the native side reads it without a lock
            self.block.size_count += 1
        return size

    def _exact(self, dims: tuple[int, ...]) -> ImageSize:
        size = self._known(dims)
        if size is not None and size.exact:
            return size.twin
        twin = self._size(dims, finite=False)
        if size is None:  # it went meanwhile
            self._gone.append(twin)
        else:
            size.twin, size.exact = twin, ctypes.addressof(twin)
        return twin

    def _make_room(self, steps: int) -> None:
        """For one more size, of so many steps."""
        if self.block.running == 1:  # the call that asks, which has not found one yet
            self._gone.clear()
        steps += sum(size.steps for size in self._alive)
        while self._alive and (len(self._alive) >= MOST_SIZES or steps > MOST_STEPS):
            self._look %= len(self._alive)
            size = self._alive[self._look]
            if size.used:
                size.used = 0
                self._look += 1
                continue
            self._alive[self._look] = self._alive[-1]
            self.table[self._look] = ctypes.addressof(self._alive.pop())
            self.block.size_count = len(self._alive)
            steps -= size.steps
            self._gone.append(size)

    def _size(self, dims: tuple[int, ...], **how: bool) -> ImageSize:
        prepared = self.operator.prepare(*_shapes(self.operator, dims), **how)
        size = ImageSize()
        size.dims[: len(dims)] = dims
        for result, shape in zip(size.results, (prepared.out_shape, *prepared.further), strict=False):
            result.rank, result.dims[: len(shape)] = len(shape), shape
        following: StepBlock | None = None
        for step in reversed(prepared.steps):
            following = self._step(step, following)
        size.first, size.memory_size = _address(following), prepared.memory
        slot = self.pool.slot(prepared.memory)
        size.slot = ctypes.addressof(slot)
        size.alive, size.steps = (prepared, slot, following), len(prepared.steps)
        return size

    def _step(self, step: Step, following: StepBlock | None) -> StepBlock:
        assert ctypes.sizeof(step.arguments) <= self.operator.arguments_size, "room on the stack for them"
        kind = type(step.arguments)
        patches = (Patch * len(step.places))(
            *((_offset(kind, field), place.source, place.offset) for field, place in step.places.items())
        )
        block = StepBlock(
            _address(following),
            step.kernel,
            ctypes.addressof(step.arguments),
            ctypes.sizeof(step.arguments),
            step.parts,
            step.flags,
            ctypes.addressof(patches),
            len(patches),
        )
        block.alive = (step, patches, following)
        return block


def _shapes(operator: SizedOperator, dims: tuple[int, ...]) -> list[Shape]:
    """The shape of each input; InputError where one is no image and has to be."""
    rows = [dims[at : at + RANK] for at in range(0, len(dims), RANK)]
    shapes = [tuple(dim for dim in row if dim != ABSENT) for row in rows]
    if any(
        len(shape) != RANK and count is not None
        for shape, count in zip(shapes, operator.channels, strict=True)
    ):
        raise InputError(image_words(operator))
    return shapes


def _offset(kind: type[ctypes.Structure], field: Field) -> int:
    if isinstance(field, int):
        return field
    name, index = (field, 0) if isinstance(field, str) else field
    return getattr(kind, name).offset + index * ctypes.sizeof(ctypes.c_void_p)


def _address(block: StepBlock | None) -> int | None:
    return None if block is None else ctypes.addressof(block)
