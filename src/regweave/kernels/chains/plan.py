"""What is decided before a chain kernel is written: panels, blocks of rows, where each intermediate lives.

A block of rows goes through all stages before the next one starts, so an intermediate is a block of one
width, written and read while it is in the core's own cache. Two buffers suffice for any number of stages:

    x -> [stage 0] -> buffer 0 -> [stage 1] -> buffer 1 -> [stage 2] -> buffer 0 -> [stage 3] -> y

Within a stage the panels of weights are the outer loop and the rows of the block the inner one: each weight
is fetched once per block however large the matrix is. For pixels a block is one vector panel of pixels and
the loops are the other way round by nature: weights are the scalars.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from regweave.errors import UnsupportedError
from regweave.kernels.chains.seven import by_seven, operand_bytes
from regweave.kernels.common.geometry import Geometry, Panel, geometry_of
from regweave.operators import Signature
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.machines.x86 import VectorMachine

#: Extra tensors that one epilogue may read: each needs a pointer in a register.
MOST_TENSORS = 4

#: Rows of one block of several stages: fewer fetch weights too often, more gain nothing.
_FEWEST_ROWS, _MOST_ROWS = 24, 96
#: Most rows of one block of a single product, where no intermediate has to stay in a cache.
SINGLE_ROWS = 336
#: Strides of this many bytes would put all rows of a tile into one set of the first-level cache.
_PAGE = 4096


@frozen
class ChainPlan:
    """The static plan of one chain on one machine.

    `block` is the most rows (pixels) that go through all stages at once; `pitches[s]` the bytes from row to
    row (channel to channel) of the intermediate behind stage s; `buffers` the offsets of the two buffers in
    a part's scratch memory (pixels: behind the copied input); `scratch_bytes` the size of that memory per
    part; `ahead` how many 64-byte lines (pixels: rows) of the next block's input each full tile asks for;
    `seven[s]` whether stage s multiplies halves (see seven.py), with its left operands at `operands`.
    """

    geometry: Geometry
    panels: tuple[tuple[Panel, ...], ...]
    block: int
    pitches: tuple[int, ...]
    buffers: tuple[int, int]
    scratch_bytes: int
    ahead: int
    seven: tuple[bool, ...] = ()
    operands: int = 0

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the tile of results held in registers."""
        return self.geometry.scalars, self.geometry.columns


def chain_plan(signature: Signature, machine: VectorMachine) -> ChainPlan:
    """The plan that a chain's kernel follows. UnsupportedError: blocks that do not fit, too many extras."""
    geometry = geometry_of(machine.name)
    misfit = signature.block % geometry.lanes or signature.block > geometry.columns
    if signature.order == "blocked" and misfit:
        raise UnsupportedError(
            f"blocks of {signature.block} channels on {machine.name}",
            expected=f"a multiple of {geometry.lanes}, at most {geometry.columns}",
        )
    for stage, epilogue in enumerate(signature.epilogues):
        tensors = sum(op.operand == "tensor" for op in epilogue)
        if tensors > MOST_TENSORS:
            raise UnsupportedError(
                f"{tensors} extra tensors in one epilogue",
                where=f"stage {stage}",
                expected=f"at most {MOST_TENSORS}",
            )
    plan = _plan_pixels if signature.order == "pixels" else _plan_rows
    return plan(signature, geometry)


def computed_columns(signature: Signature, stage: int) -> int:
    """Columns that stage computes: its width, of a blocked output rounded up to whole blocks."""
    width = signature.widths[stage + 1]
    if signature.order == "blocked" and stage == len(signature.epilogues) - 1:
        return -(-width // signature.block) * signature.block
    return width


def _plan_rows(signature: Signature, geometry: Geometry) -> ChainPlan:
    widths = signature.widths
    stages = len(widths) - 1
    panels = tuple(geometry.panels(computed_columns(signature, stage)) for stage in range(stages))
    pitches = tuple(
        _spread(-(-width // geometry.lanes) * geometry.vector_bytes, geometry) for width in widths[1:-1]
    )
    block = _block_rows(widths, geometry)
    seven = tuple(by_seven(signature, stage, geometry) for stage in range(stages))
    pair = 2 * geometry.scalars
    if any(seven):
        block = block // pair * pair
    left = max(
        (operand_bytes(k, geometry) for k, yes in zip(widths[:-1], seven, strict=True) if yes), default=0
    )
    sizes = [block * max(pitches[parity::2], default=0) for parity in (0, 1)]
    lines = geometry.scalars * -(-widths[0] * 4 // 64)
    return ChainPlan(
        geometry,
        panels,
        block,
        pitches,
        (0, sizes[0]),
        _separate(sum(sizes) + block // pair * left),
        min(16, -(-lines // sum(len(cut) for cut in panels))),
        seven,
        sum(sizes),
    )


def _block_rows(widths: tuple[int, ...], geometry: Geometry) -> int:
    """Rows of a block: as many as leave an intermediate in the core's own cache beside a panel.

    Weights that do not fit there themselves are fetched anew for each block: then blocks are as large as
    allowed, and the intermediate, which is read far more slowly than the weights, may leave that cache.
    """
    if len(widths) == 2:
        most = SINGLE_ROWS
    elif 4 * sum(k * n for k, n in pairwise(widths)) > geometry.cache_bytes:
        most = _MOST_ROWS
    else:
        panel = max(4 * k * geometry.columns for k in widths[:-1])
        rows = (geometry.cache_bytes - panel) // max(4 * (k + n) for k, n in pairwise(widths))
        most = max(_FEWEST_ROWS, min(_MOST_ROWS, rows))
    return most // geometry.scalars * geometry.scalars


def _plan_pixels(signature: Signature, geometry: Geometry) -> ChainPlan:
    widths = signature.widths
    line = geometry.panel_bytes
    sizes = [line * max(widths[1:-1][parity::2], default=0) for parity in (0, 1)]
    copied = line * widths[0]
    tiles = sum(len(geometry.scalar_tiles(n)) for n in widths[1:])
    return ChainPlan(
        geometry,
        tuple(() for _ in widths[1:]),
        geometry.columns,
        tuple(line for _ in widths[1:-1]),
        (copied, copied + sizes[0]),
        _separate(copied + sum(sizes)),
        min(4, -(-widths[0] // tiles)),
    )


def _spread(pitch: int, geometry: Geometry) -> int:
    return pitch + geometry.vector_bytes if pitch % _PAGE == 0 else pitch


def _separate(size: int) -> int:
    """Rounded up so that parts start on different pages and in different sets."""
    return -(-size // _PAGE) * _PAGE + 256
