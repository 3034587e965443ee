"""A native operator with its kernel, and what operators that count their positions at each call share.

    x [2, 96, 40, 40], channels at 1     batch 2, count 1600; PLACES says which field of the arguments each is

See `devices.onnxruntime.operator` for what these words mean there.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from regweave.assembly import Listing
from regweave.devices import cpu
from regweave.devices.onnxruntime import Extra, NativeOperator, SizedOperator
from regweave.errors import UnsupportedError
from regweave.graphs import Piece
from regweave.kernels import ChainPlan
from regweave.kernels.common.arguments import field_offset
from regweave.operators import OutputDim, Same

PLACES = {
    "x": "x", "y": "y", "x_pitch": "x_pitch", "y_pitch": "y_pitch", "count": "rows", "batch": "batch",
    "parts": "parts", "scratch": "scratch",
}  # fmt: skip

PART_FLOPS = 1 << 21
"""Work below which a part is not worth waking a thread for; about 20 microseconds."""

PART_ELEMENTS = 1 << 14
"""The same for a pass over memory."""


@dataclass(frozen=True, eq=False)
class Native:
    """A built operator with its kernel and, for chains, its plan."""

    operator: NativeOperator | SizedOperator
    kernel: cpu.Function
    plan: ChainPlan | None = None

    @property
    def listing(self) -> Listing:
        """The kernel's assembly with its register map."""
        return self.kernel.listing


def axis_of(piece: Piece) -> int:
    """The dimension of the channels of a piece of images."""
    shape = piece.input_shape
    assert shape is not None, "a piece of images has a shape"
    return piece.channel_axis % len(shape)


def output_rule(piece: Piece, channels: int | None) -> tuple[OutputDim, ...]:
    """The rule for the output's shape; `channels` replaces the channels of an image where they are padded."""
    dims, shape = piece.output_dims, piece.input_shape
    if dims is None:
        if shape is None:
            raise UnsupportedError(f"the rank of '{piece.input}' is not known", where=piece.name)
        same = tuple(Same(axis) for axis in range(len(shape)))
        return same if piece.kind == "elementwise" else (*same[:-1], piece.widths[-1])
    return dims if channels is None else (dims[0], channels, *dims[2:])


def extra_input(kind: type[ctypes.Structure], index: int, per_position: int, per_image: int) -> Extra:
    """Input `index` behind the first, whose address goes into arguments of that `kind`."""
    return Extra(field_offset(kind, "extras", index), per_position, per_image)


def padded(width: int, block: int) -> int:
    """Channels that whole blocks have."""
    return -(-width // block) * block
