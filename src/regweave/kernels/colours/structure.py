"""What a colour kernel is made for, and what it is called with.

    Colours(3, 3, "u8", "f32", target_planes=True)     a photograph's bytes, by a matrix, to three planes
    Colours(3, 3, "u8", "u8", matrix=False)            no matrix: as many channels, converted only

A round of the kernel takes a tile of pixels: as many as a vector has lanes, or twice as many.
"""

from __future__ import annotations

import ctypes

from regweave.machines.x86 import VectorMachine
from regweave.values import frozen

#: Channels that a pixel may have, before and after.
MOST_CHANNELS = 4
#: Bytes of an element of each type.
ELEMENT_BYTES = {"u8": 1, "u16": 2, "f32": 4}

_FIELDS = ("source", "target", "matrix", "tiles", "source_step", "target_step")


class ColourArguments(ctypes.Structure):
    """Argument of a colour kernel: `void colours(const ColourArguments *)`.

    Addresses of the first pixels and of the matrix (f32, N rows of K factors and the constant); `tiles` of
    `Colours.pixels`, at least 1; the steps are bytes from plane to plane.
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in _FIELDS)


@frozen
class Colours:
    """What a colour kernel is made for: channels before and after, the types of their elements, whether they
    stand in planes, whether a matrix lies between (without one, channels and results are as many), whether
    f32 results pass the caches: then the target starts at a multiple of a vector's bytes; whether all sums
    are known to be smaller than 2 ** 31."""

    channels: int
    results: int
    source: str
    target: str
    source_planes: bool = False
    target_planes: bool = False
    matrix: bool = True
    stream: bool = False
    bounded: bool = False

    def tiles_at_once(self, machine: VectorMachine) -> int:
        """Vectors of pixels that a round of the kernel takes: two from bytes to bytes with AVX-512."""
        planes = self.source_planes or self.target_planes
        return 2 if self.source == self.target == "u8" and not planes and machine.name == "avx512" else 1

    def pixels(self, machine: VectorMachine) -> int:
        """Pixels of one round of the kernel, a tile."""
        return self.tiles_at_once(machine) * machine.lanes
