"""What a chain kernel is called with: one block of 64-bit fields, so that C and Python fill it alike.

    void kernel(const Args *args, size_t part)          part = 0 .. parts - 1, in any order, concurrently

    x, y                  addresses of input and output (float32)
    x_pitch, y_pitch      bytes from one row (rows), channel (pixels), block (blocked) to the next
    rows                  rows: M; pixels and blocked: pixels of one image
    batch                 images; 1 for rows
    parts                 into how many parts the work is divided
    scratch               64-byte aligned, parts * ChainPlan.scratch_bytes bytes, contents irrelevant
    flags                 STREAM: y is written past the caches (y and y_pitch multiples of the vector's bytes)
    extras[]              addresses of the extra inputs, each with the shape of its stage's result
    pitches[]             bytes from one channel of an extra input to the next, 0 where it is contiguous; read
                          for pixels only, and extra inputs of one stage share that of the first
    weights[]             addresses of the packed stages (see packing)

`y` may share memory with no input, except that it may be exactly an extra input of the last stage.
"""

from __future__ import annotations

import ctypes
from functools import cache

from regweave.operators import Signature

#: Flag: write the output past the caches.
STREAM = 1

_HEAD = ("x", "y", "x_pitch", "y_pitch", "rows", "batch", "parts", "scratch", "flags")


@cache
def arguments_type(extras: int, stages: int) -> type[ctypes.Structure]:
    """The structure for a number of extra inputs and stages."""
    fields = [(name, ctypes.c_int64) for name in _HEAD]
    arrays = (("extras", extras), ("pitches", extras), ("weights", stages))
    fields += [(name, ctypes.c_int64 * count) for name, count in arrays]
    return type("ChainArguments", (ctypes.Structure,), {"_fields_": fields})


def chain_arguments(signature: Signature) -> type[ctypes.Structure]:
    """The structure that a chain's kernel takes; its fields as in the module docstring."""
    return arguments_type(signature.extra_inputs, len(signature.epilogues))


def field_offset(structure: type[ctypes.Structure], name: str, index: int = 0) -> int:
    """Byte offset of a field (of element `index` of an array field)."""
    return getattr(structure, name).offset + 8 * index
