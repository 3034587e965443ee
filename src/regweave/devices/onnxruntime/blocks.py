"""The memory of one custom operator: onnxruntime's callbacks, followed by what our native glue reads.

onnxruntime passes the operator's own address to most callbacks, and whatever `CreateKernelV2` returned to
`KernelComputeV2`; both are the address of this block, so the glue finds everything at fixed offsets from one
register and needs no Python while a model runs.

    OperatorBlock   OperatorTable, then name, interface functions, kernel, its arguments and how to fill them
    InputRule       where input i's pointer goes, and how many elements it must have
    OutputRule      where a dimension of the output comes from
    ImageSize       for operators that are prepared for each size of image: one of these sizes
    StepBlock       one kernel of such a size, and where its addresses come from
"""

from __future__ import annotations

import ctypes

from regweave.devices.onnxruntime.interface import OperatorTable, Pointer, Size

MOST_INPUTS = 16
MOST_DIMENSIONS = 8

CALLED = (
    "KernelContext_GetInput", "KernelContext_GetOutput", "KernelContext_ParallelFor",
    "KernelContext_GetScratchBuffer",
    "GetTensorTypeAndShape", "GetDimensionsCount", "GetDimensions", "GetTensorShapeElementCount",
    "ReleaseTensorTypeAndShapeInfo", "GetTensorMutableData", "CreateStatus",
)  # fmt: skip
"""The interface functions that the native glue calls; each has a field of the same name in the block."""


class InputRule(ctypes.Structure):
    """Input i goes to byte `place` of the arguments and has batch * (count * per_position + per_image)
    elements."""

    _fields_ = (("place", Size), ("per_position", Size), ("per_image", Size))


class ScratchSlot(ctypes.Structure):
    """Scratch memory for one call at a time; `taken` is 1 while it is in use."""

    _fields_ = (("taken", Size), ("memory", Pointer))


class OutputRule(ctypes.Structure):
    """A dimension of the output: the input's `axis`; or `value` (FIXED); or what is left of all elements
    (REST)."""

    _fields_ = (("axis", ctypes.c_int64), ("value", Size))


FIXED, REST = -1, -2


RANK = 4
"""Most dimensions of what operators prepared by size read and make: [batch, channels, height, width]."""


MOST_IMAGES = 16
"""Inputs of an operator that is prepared by size, and its outputs."""

WORK_PLACE, OUTPUT_PLACE = MOST_IMAGES, MOST_IMAGES + 1
"""Where a step's addresses count from, beside the inputs: the memory for a call; the first output, further
ones follow."""

PLACES = OUTPUT_PLACE + MOST_IMAGES
"""How many there are."""

ABSENT = -1
"""In the place of a dimension that a shape of lower rank does not have."""


class Patch(ctypes.Structure):
    """The address `offset` bytes into place `source` goes to byte `place` of a step's arguments."""

    _fields_ = (("place", Size), ("source", Size), ("offset", Size))


class StepBlock(ctypes.Structure):
    """A kernel of a prepared size. Where one of its flags is NaN afterwards, all begins anew with `exact`."""

    _fields_ = (
        ("next", Pointer),  # a StepBlock, or null
        ("kernel", Pointer),
        ("arguments", Pointer),
        ("arguments_size", Size),
        ("parts", Size),
        ("flags_size", Size),  # of all parts, 0 for none; they start the memory for a call
        ("patches", Pointer),
        ("patch_count", Size),
    )


class Result(ctypes.Structure):
    """The shape of an output."""

    _fields_ = (("rank", Size), ("dims", ctypes.c_int64 * RANK))


class ImageSize(ctypes.Structure):
    """Shapes that an operator is prepared for; see `sized`. Those of inputs end with ABSENT."""

    _fields_ = (
        ("dims", ctypes.c_int64 * (RANK * MOST_IMAGES)),
        ("results", Result * MOST_IMAGES),
        ("first", Pointer),  # a StepBlock; null where the result is empty
        ("memory_size", Size),
        ("slot", Pointer),  # a ScratchSlot that is large enough, for one call at a time
        ("exact", Pointer),  # the ImageSize for values that are not finite; null until there were some
        ("used", Size),  # 1 since a call has met it
    )


class OperatorBlock(ctypes.Structure):
    """See the module's head. Places are byte offsets into the kernel's arguments; sizes are bytes.

    With `count` positions (rows, or pixels of one image), the pitches are `x_pitch_count * count +
    x_pitch_fixed`.
    """

    _fields_ = (
        ("table", OperatorTable),
        ("name", Pointer),
        ("inputs", Size),
        ("outputs", Size),
        *((name, Pointer) for name in CALLED),
        ("memory", Pointer),  # OrtMemoryInfo of ordinary CPU memory, for scratch
        ("kernel", Pointer),
        ("arguments", Pointer),  # template, copied to the stack at each call
        ("arguments_size", Size),
        ("rows", Size),  # 1: count = all elements / channels; 0: the channels are a dimension
        ("axis", Size),  # which one; batch is the product of those before it, count of those behind
        ("channels_in", Size),
        ("channels_out", Size),
        ("parts", Size),  # most parts to divide the work in
        ("unit", Size),  # positions below which a part is not worth a thread
        ("scratch_size", Size),  # per part
        ("slots", Pointer),  # ScratchSlot array, shared by all operators of a session
        ("slot_count", Size),
        ("x_pitch_count", Size),
        ("x_pitch_fixed", Size),
        ("y_pitch_count", Size),
        ("y_pitch_fixed", Size),
        ("y_place", Size),
        ("x_pitch_place", Size),
        ("y_pitch_place", Size),
        ("count_place", Size),
        ("batch_place", Size),
        ("parts_place", Size),
        ("scratch_place", Size),
        ("shape_words", Pointer),  # the message of a shape that is not as planned
        ("rules", InputRule * MOST_INPUTS),
        ("output_rank", Size),
        ("output_rules", OutputRule * MOST_DIMENSIONS),
        ("sizes", Pointer),  # of an operator prepared by size: pointers to ImageSizes, and how many there are
        ("size_count", Size),
        ("prepare", Pointer),  # ImageSize *prepare(const int64_t dims[inputs][RANK], int exact)
        ("running", Size),  # calls under way
    )


def offset(field: str, structure: type[ctypes.Structure] = OperatorBlock) -> int:
    """The byte offset of `field` in an OperatorBlock, or another structure."""
    return getattr(structure, field).offset
