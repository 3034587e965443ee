"""Pixels as f32 and back: bytes, 16-bit numbers, and f32 as it is.

load       a vector of pixels              vpmovzxbd zmm, xmmword; vcvtdq2ps
element    one pixel, through a register: beyond an image's edges, where no vector is whole
store      vectors of sums: clamped, rounded to even, packed; several where their pixels fill a vector
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.weighted import Kind
from regweave.machines.instructions import Pattern

_SIZES = {"u8": 1, "u16": 2, "f32": 4}
_MOSTS = {"u8": 255.0, "u16": 65535.0}

_LOADS = {
    ("u8", 8): ("vpmovzxbd %=0, qword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("u8", 16): ("vpmovzxbd %=0, xmmword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("u16", 8): ("vpmovzxwd %=0, xmmword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("u16", 16): ("vpmovzxwd %=0, ymmword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("f32", 8): ("vmovups %=0, ymmword ptr %1",),
    ("f32", 16): ("vmovups %=0, zmmword ptr %1",),
}
_ELEMENTS = {
    "u8": Pattern("d:r from:a", "movzx %=0:d, byte ptr %1"),
    "u16": Pattern("d:r from:a", "movzx %=0:d, word ptr %1"),
    "f32": Pattern("d:r from:a", "mov %=0:d, dword ptr %1"),
}
_TO_FLOAT = Pattern(
    "to:a x:r ~t:v",
    ("vmovd %=2:x, %1:d", "vcvtdq2ps %+2:x, %+2:x", "vmovss dword ptr %0, %2:x"),
)
_AS_IT_IS = Pattern("to:a x:r", "mov dword ptr %0, %1:d")
_ROUND = Pattern("d:v a:v", "vcvtps2dq %=0, %1", latency=4)
#: On 256 bits, packs mix halves up: which parts go where.
_MEND = (0, 4, 1, 5, 2, 6, 3, 7)
_STORES = {
    ("u8", 8): Pattern(
        "to:a a:v b:v c:v d:v order:v ~t:v ~u:v",
        (
            "vpackusdw %=6, %1, %2",
            "vpackusdw %=7, %3, %4",
            "vpackuswb %+6, %+6, %7",
            "vpermd %+6, %5, %+6",
            "vmovups ymmword ptr %0, %6",
        ),
    ),
    ("u16", 8): Pattern(
        "to:a a:v b:v ~t:v",
        ("vpackusdw %=3, %1, %2", "vpermq %+3, %+3, 216", "vmovups ymmword ptr %0, %3"),
    ),
    ("u8", 16): Pattern("to:a a:v", "vpmovusdb xmmword ptr %0, %1"),
    ("u16", 16): Pattern("to:a a:v", "vpmovusdw ymmword ptr %0, %1"),
    ("f32", 8): Pattern("to:a a:v", "vmovups ymmword ptr %0, %1"),
    ("f32", 16): Pattern("to:a a:v", "vmovups zmmword ptr %0, %1"),
}
#: Vectors that one of these stores takes.
_STORED = {("u8", 8): 4, ("u16", 8): 2}


class FloatPixels:
    """Writes code that reads and writes pixels of a kind."""

    def __init__(self, b: Builder, kind: Kind, lanes: int) -> None:
        self.b, self.kind, self.lanes = b, kind, lanes
        #: Bytes of a pixel.
        self.size = _SIZES[kind]
        self.order = b.vector("order")
        if (kind, lanes) == ("u8", 8):
            b.emit("load", self.order, b.data(np.array(_MEND, np.int32).tobytes()))

    def load(self, place: Memory) -> Variable:
        """A vector of them as f32."""
        vector = self.b.vector("pixels")
        self.b.emit_template(Pattern("d:v from:a", _LOADS[self.kind, self.lanes], latency=12), vector, place)
        return vector

    def element(self, to: Memory, place: Memory, keep: Variable) -> None:
        """One of them as f32 to memory; nothing but what `keep` has of its bits."""
        b, element = self.b, self.b.general("element")
        b.emit_template(_ELEMENTS[self.kind], element, place)
        b.emit("and", element, keep)
        b.emit_template(_AS_IT_IS if self.kind == "f32" else _TO_FLOAT, to, element)

    def store(self, sums: Sequence[Variable], out: Variable) -> None:
        """Sums as pixels: clamped (a NaN is 0), rounded to even."""
        b = self.b
        if self.kind != "f32":
            nought, most = b.vector("nought"), b.vector("most")
            b.emit("zero", nought)
            b.emit("broadcast", most, b.constant(_MOSTS[self.kind]))
            for vector in sums:
                b.emit("max", vector, vector, nought)
                b.emit("min", vector, vector, most)
                b.emit_template(_ROUND, vector, vector)
        key = self.kind, self.lanes
        count = _STORED.get(key, 1)
        for first in range(0, len(sums), count):
            place = b.at(out, first * self.lanes * self.size)
            extra = [self.order] if key == ("u8", 8) else []
            b.emit_template(_STORES[key], place, *sums[first : first + count], *extra)
