"""A kernel of ours as an onnxruntime operator: what the caller says, and the memory that comes of it.

    NativeOperator("Chain0", kernel=address, arguments=filled, axis=1, channels_in=96, ...)

describes `y = Chain0(x, extras...)` on float32 tensors: rows (`axis` None: all elements in rows of
`channels_in`), or images (positions are the pixels behind dimension `axis`, images what is before it). All
dimensions but the channels may differ from run to run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from regweave.devices.onnxruntime.blocks import (
    CALLED,
    FIXED,
    MOST_DIMENSIONS,
    MOST_IMAGES,
    MOST_INPUTS,
    REST,
    OperatorBlock,
    ScratchSlot,
)
from regweave.devices.onnxruntime.glue import ENTRIES, glue_text
from regweave.devices.onnxruntime.interface import VERSION, Interface
from regweave.devices.onnxruntime.sized import Pool, SizedOperator, Sizes, image_words
from regweave.operators import OutputDim, Rest, Same


@dataclass(frozen=True)
class Pitch:
    """Bytes between neighbouring rows or planes: `per_position * positions + fixed`."""

    per_position: int = 0
    fixed: int = 0


@dataclass(frozen=True)
class Extra:
    """A further input: where its address goes in the arguments (bytes), and how many elements it has.

    That is `per_position` for each position and `per_image` for each image of the batch.
    """

    place: int
    per_position: int = 0
    per_image: int = 0


@dataclass(frozen=True, eq=False)
class NativeOperator:
    """See the module's head.

    `kernel` is the address of `void kernel(const Arguments *, size_t part)`; `arguments` holds everything
    that does not change from call to call, and its fields named by `places` (field name for "x", "y",
    "x_pitch", "y_pitch", "count", "batch", "parts", "scratch") are filled at each call. `keep` is whatever
    must live as long as the kernel.
    """

    name: str
    kernel: int
    arguments: ctypes.Structure
    axis: int | None
    channels_in: int
    channels_out: int
    x_pitch: Pitch
    y_pitch: Pitch
    places: dict[str, str]
    output: tuple[OutputDim, ...]
    extras: tuple[Extra, ...] = ()
    parts: int = 1
    unit: int = 1
    scratch: int = 0
    keep: tuple[Any, ...] = ()

    def place(self, role: str) -> int:
        """The byte offset of the argument that plays `role`."""
        return getattr(type(self.arguments), self.places[role]).offset


_CALLBACKS = {
    "GetName": "rw_name", "GetInputTypeCount": "rw_inputs", "GetExecutionProviderType": "rw_zero",
    "GetInputType": "rw_one", "GetOutputType": "rw_one", "GetOutputTypeCount": "rw_outputs",
    "KernelDestroy": "rw_zero",
    "GetInputCharacteristic": "rw_zero", "GetOutputCharacteristic": "rw_zero",
    "GetInputMemoryType": "rw_zero",
    "GetVariadicInputMinArity": "rw_one", "GetVariadicInputHomogeneity": "rw_one",
    "GetVariadicOutputMinArity": "rw_one", "GetVariadicOutputHomogeneity": "rw_one",
    "CreateKernelV2": "rw_create",
    "KernelComputeV2": "rw_compute", "GetStartVersion": "rw_one", "GetEndVersion": "rw_any",
}  # fmt: skip
"""Which function of the glue answers which callback; the rest stay null: onnxruntime then uses its
default."""


def operator_block(
    operator: NativeOperator | SizedOperator,
    interface: Interface,
    memory: int,
    slots: ctypes.Array[ScratchSlot],
    pool: Pool,
) -> OperatorBlock:
    """The memory of `operator`; it keeps alive all that it points to.

    `memory` is onnxruntime's name for ordinary memory, `slots` the session's scratch, `pool` that of the
    operators that are prepared by size.
    """
    if isinstance(operator, SizedOperator):
        return _sized_block(operator, interface, memory, pool)
    assert 1 + len(operator.extras) <= MOST_INPUTS, "the engine never plans so many inputs"
    assert len(operator.output) <= MOST_DIMENSIONS, "the engine never plans so many dimensions"
    words = f"regweave {operator.name}: {shape_words(operator)}"
    block, texts = _common_block(operator.name, words, interface, memory)
    block.inputs, block.outputs, block.kernel = 1 + len(operator.extras), 1, operator.kernel
    block.arguments = ctypes.addressof(operator.arguments)
    block.arguments_size = ctypes.sizeof(operator.arguments)
    block.rows, block.axis = int(operator.axis is None), operator.axis or 0
    block.channels_in, block.channels_out = operator.channels_in, operator.channels_out
    block.parts, block.unit, block.scratch_size = operator.parts, operator.unit, operator.scratch
    block.x_pitch_count, block.x_pitch_fixed = operator.x_pitch.per_position, operator.x_pitch.fixed
    block.y_pitch_count, block.y_pitch_fixed = operator.y_pitch.per_position, operator.y_pitch.fixed
    for role in ("y", "x_pitch", "y_pitch", "count", "batch", "parts", "scratch"):
        setattr(block, f"{role}_place", operator.place(role))
    rules = [(operator.place("x"), operator.channels_in, 0)]
    rules += [(extra.place, extra.per_position, extra.per_image) for extra in operator.extras]
    for index, rule in enumerate(rules):
        block.rules[index] = rule
    block.slots, block.slot_count = ctypes.addressof(slots), len(slots) if slots[0].memory else 0
    block.output_rank = len(operator.output)
    for index, dim in enumerate(operator.output):
        block.output_rules[index] = _output_rule(dim)
    block.alive = (operator, texts, slots)
    return block


def _sized_block(operator: SizedOperator, interface: Interface, memory: int, pool: Pool) -> OperatorBlock:
    assert max(operator.inputs, operator.outputs) <= MOST_IMAGES, "the engine never plans so many"
    words = f"regweave {operator.name}: {image_words(operator)}"
    block, texts = _common_block(operator.name, words, interface, memory)
    block.table.KernelComputeV2 = glue()("rw_convolve")
    block.inputs, block.outputs = operator.inputs, operator.outputs
    block.arguments_size = operator.arguments_size
    block.alive = (operator, texts, Sizes(operator, block, pool))
    return block


def _common_block(name: str, words: str, interface: Interface, memory: int) -> tuple[OperatorBlock, tuple]:
    """A block with onnxruntime's callbacks and functions, and the texts that it points to."""
    block, code = OperatorBlock(), glue()
    block.table.version = VERSION
    for field, function in _CALLBACKS.items():
        setattr(block.table, field, code(function))
    for function in CALLED:
        setattr(block, function, interface.address(function))
    texts = ctypes.create_string_buffer(name.encode()), ctypes.create_string_buffer(words.encode())
    block.name, block.shape_words = map(ctypes.addressof, texts)
    block.memory = memory
    return block, texts


def _output_rule(dim: OutputDim) -> tuple[int, int]:
    if isinstance(dim, Same):
        return dim.axis, 0
    return (REST, 0) if isinstance(dim, Rest) else (FIXED, dim)


def shape_words(operator: NativeOperator) -> str:
    """The message for shapes that are not as planned."""
    where = "rows" if operator.axis is None else f"images with dimension {operator.axis}"
    return (
        f"the inputs' shapes are not as planned; expected {where} of "
        f"{operator.channels_in} channels, and further inputs to match"
    )


@cache
def glue() -> Callable[[str], int]:
    """The addresses of the native glue's functions, by name. Loaded once and kept for good, because
    onnxruntime calls it until the last session is gone, which may be after the interpreter has let go of its
    modules."""
    from regweave.devices.cpu import load_text

    library = load_text(glue_text(), ENTRIES)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library.address
