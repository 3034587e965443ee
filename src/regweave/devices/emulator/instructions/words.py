"""Where an operand's words are: registers by number, scalar registers by name, numbers as bits.

s[2:3]      scalar_places: [2, 3]           v[4:5] of a kernel      vector_places: [4, 5]
vcc         scalar_places: [106, 107]       1.0 of type f16         number_bits: 0x3c00
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.assembly.amd.lines import Operand
from regweave.devices.emulator.program import Program
from regweave.devices.emulator.state.cohort import Cohort, lanes_of
from regweave.devices.emulator.state.registers import PLACES
from regweave.errors import UnsupportedError

Array = Any
Source = Callable[[Cohort], Array]
DTYPES = {
    "u32": np.uint32, "i32": np.int32, "f32": np.float32, "b32": np.uint32, "u16": np.uint16, "i16": np.int16,
    "f16": np.float16, "u64": np.uint64, "i64": np.int64, "f64": np.float64, "b64": np.uint64,
}  # fmt: skip
_INVERSE_TURN = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}


def number_bits(text: str, kind: str) -> int:
    """The bits that a number in an instruction has for an operand of a type."""
    width = 8 * np.dtype(DTYPES.get(kind.lstrip("2"), np.uint32)).itemsize
    try:
        value = int(text, 0)
    except ValueError:
        value = None
    if value is not None:
        if kind == "f64" and not -16 <= value <= 64:
            value <<= 32  # a literal is the high half
        return value & (1 << width) - 1
    if text.startswith(("src_", "lds_direct")):
        raise UnsupportedError(f"the operand {text!r} is not emulated")
    if text == "0.15915494":
        return _INVERSE_TURN[width]
    float_type = {16: np.float16, 32: np.float32, 64: np.float64}[width]
    return int(np.array(float(text), float_type).view(f"u{width // 8}"))


def scalar_places(operand: Operand) -> list[int]:
    """The scalar registers of an operand."""
    if operand.kind == "register":
        return list(range(operand.first, operand.stop))
    low = operand.text if operand.text in PLACES else f"{operand.text}_lo"
    return [PLACES[low]] if operand.text in PLACES else [PLACES[low], PLACES[low] + 1]


def vector_places(program: Program, operand: Operand) -> list[int]:
    """The vector or accumulation registers of an operand by number."""
    base = program.vectors if operand.text == "a" else 0
    return [base + index for index in range(operand.first, operand.stop)]


def scalar_value(operand: Operand) -> Source:
    """A scalar register or a number, [waves, 1]."""
    if operand.kind == "number":
        value = np.full((1, 1), number_bits(operand.text, "u32"), np.uint32)
        return lambda c: np.broadcast_to(value, (c.count, 1))
    (place,) = scalar_places(operand)
    return lambda c: c.read_scalar(place)


def make_mask(operand: Operand) -> Source:
    """A pair of scalar registers as one boolean per lane."""
    low, high = scalar_places(operand)

    def read(c: Cohort) -> Array:
        return lanes_of(c.read_scalar(low)[:, 0], c.read_scalar(high)[:, 0])

    return read
