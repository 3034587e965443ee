"""Bringing weights into the order in which a kernel reads them, in native code.

One copying kernel serves all packed forms. It takes a matrix of any strides and writes panels of `width`
columns, rows following each other, columns beyond the matrix as zeros:

    panel 0: row 0, columns 0 .. width-1     row 1, columns 0 .. width-1     ...
    panel 1: row 0, columns width ..         ...

The packed forms of a stage, weights [K, N] and channel operands (bias, scale) [N] each:

    rows, blocked    panels of 64 columns (16 with AVX2), then a narrow one; behind each panel one row per
                     operand. Of halves (seven.py) follow panels of the seven right operands, and behind each
                     the operands of its columns in the left and in the right half
    pixels           tiles of 6 channels (then 4, 2, 1), K rows each; behind each tile, per channel, its
                     operands

`packing_steps` says which copies to make; whoever can load a kernel (devices) makes them. A transposed
matrix (Gemm's transB) is only another pair of strides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from regweave.kernels.chains.plan import ChainPlan
from regweave.kernels.chains.seven import right_operands
from regweave.operators import Chain, Stage
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.assembly import Listing
    from regweave.machines.x86 import VectorMachine


class PackArguments(ctypes.Structure):
    """Argument of the packing kernel: `void pack(const PackArguments *)`. Strides and steps in bytes.

    `to`, `source` addresses; `rows`, `columns` of the matrix, both >= 1; `width` columns of a panel;
    `panel_step` from one panel's first element to the next one's.
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in ("to", "source", "rows", "columns", "width", "row_stride", "column_stride", "panel_step")
    )


@frozen(eq=False)
class PackStep:
    """One call of the packing kernel: from `matrix` [rows, columns] to byte `offset` of the packed stage."""

    offset: int
    matrix: np.ndarray
    width: int
    panel_step: int

    def arguments(self, to: int) -> PackArguments:
        """The argument for a packed stage that starts at address `to`; keep `matrix` alive until it ran."""
        rows, columns = self.matrix.shape
        row_stride, column_stride = self.matrix.strides
        return PackArguments(
            to + self.offset,
            self.matrix.ctypes.data,
            rows,
            columns,
            self.width,
            row_stride,
            column_stride,
            self.panel_step,
        )


@frozen
class PackedStage:
    """Size and making of a packed stage; its memory must start at a multiple of 64 bytes."""

    size: int
    steps: tuple[PackStep, ...]


def packing_steps(chain: Chain, plan: ChainPlan) -> tuple[PackedStage, ...]:
    """How to pack each stage of a chain for the kernel made from `plan`."""
    lanes = plan.geometry.lanes
    if chain.order == "pixels":
        return tuple(_pack_stage(stage, plan.geometry.scalar_tiles(stage.n), True) for stage in chain.stages)
    packed = []
    for stage, cut, seven in zip(chain.stages, plan.panels, plan.seven, strict=True):
        whole = _pack_stage(stage, [panel.vectors * lanes for panel in cut], False)
        packed.append(_with_halves(whole, stage, plan) if seven else whole)
    return tuple(packed)


def _with_halves(whole: PackedStage, stage: Stage, plan: ChainPlan) -> PackedStage:
    """The stage as it is, then as products of halves take it."""
    steps, offset, half, start = list(whole.steps), whole.size, stage.n // 2, 0
    operands = [operand for operand in stage.operands if isinstance(operand, np.ndarray)]
    rights = right_operands(stage.weight)
    sides = [operand[None, side : side + half] for side in (0, half) for operand in operands]
    for vectors, group in groupby(panel.vectors for panel in plan.geometry.panels(half)):
        width, count = vectors * plan.geometry.lanes, len(list(group))
        panel_step, row = 4 * width * sum(matrix.shape[0] for matrix in (*rights, *sides)), offset
        for matrix in (*rights, *sides):
            steps.append(PackStep(row, matrix[:, start : start + width * count], width, panel_step))
            row += 4 * width * matrix.shape[0]
        offset += panel_step * count
        start += width * count
    return PackedStage(offset, tuple(steps))


def _pack_stage(stage: Stage, widths: Sequence[int], interleaved: bool) -> PackedStage:
    """Panels of the given widths, each followed by its operands: row by row, or interleaved per channel.

    Equal panels in a row are one step per matrix. Panels wholly beyond the matrix become zeros.
    """
    matrices = [stage.weight]
    operands = [operand for operand in stage.operands if isinstance(operand, np.ndarray)]
    if interleaved and operands:
        matrices.append(np.stack(operands, axis=1).reshape(1, -1))
    else:
        matrices += [operand[None, :] for operand in operands]
    steps: list[PackStep] = []
    offset = start = 0
    for width, group in groupby(widths):
        count = len(list(group))
        panel_step = 4 * width * (stage.k + len(operands))
        row = offset
        for matrix in matrices:
            scale = matrix.shape[1] // stage.n
            part = matrix[:, start * scale : (start + width * count) * scale]
            missing = count - -(-part.shape[1] // (width * scale))
            if missing:
                part = np.pad(part, ((0, 0), (0, width * count * scale - part.shape[1])))
            steps.append(PackStep(row, part, width * scale, panel_step))
            row += 4 * width * scale * matrix.shape[0]
        offset += panel_step * count
        start += width * count
    return PackedStage(offset, tuple(steps))


@cache
def packing_kernel(machine: VectorMachine) -> Listing:
    """The copying kernel `void pack(const PackArguments *)` of a machine."""
    from regweave.assembly import Builder

    b = Builder(machine, name="rw_pack", arguments=("args",))

    def field(name: str):
        return b.at("args", getattr(PackArguments, name).offset)

    names = ("to", "source", "row_stride", "column_stride", "width", "left")
    to, source, row_stride, column_stride, width, left = (b.general(name) for name in names)
    panel_to, valid, row, from_, column, rows, element = (
        b.general(name) for name in ("panel_to", "valid", "row", "from", "column", "rows", "element")
    )
    for variable, name in (
        (panel_to, "to"),
        (source, "source"),
        (row_stride, "row_stride"),
        (left, "columns"),
    ):
        b.emit("mov", variable, field(name))
    b.emit("mov", column_stride, field("column_stride"))
    b.emit("mov", width, field("width"))
    value = b.vector("value")
    b.label("panel")
    b.emit("mov", valid, left)
    b.emit("min", valid, width)
    b.emit("mov", to, panel_to)
    b.emit("mov", row, source)
    b.emit("mov", rows, field("rows"))
    b.label("row")
    b.emit("mov", from_, row)
    b.emit("zero", column)
    b.emit("cmp", column_stride, 4)
    b.emit("jump_not_equal", "elements")
    b.label("vectors")
    b.emit("lea", element, b.at(column, machine.lanes))
    b.emit("cmp", element, valid)
    b.emit("jump_greater", "elements")
    b.emit("load", value, b.at(from_))
    b.emit("store", b.at(to, index=column, scale=4), value)
    b.emit("add", from_, machine.vector_bytes)
    b.emit("add", column, machine.lanes)
    b.emit("jump", "vectors")
    b.label("elements")
    b.emit("cmp", column, valid)
    b.emit("jump_greater_equal", "zeros")
    b.emit("mov32", element, b.at(from_))
    b.emit("mov32", b.at(to, index=column, scale=4), element)
    b.emit("add", from_, column_stride)
    b.emit("inc", column)
    b.emit("jump", "elements")
    b.label("zeros")
    b.emit("cmp", column, width)
    b.emit("jump_greater_equal", "row_done")
    b.emit("mov32", b.at(to, index=column, scale=4), 0)
    b.emit("inc", column)
    b.emit("jump", "zeros")
    b.label("row_done")
    b.emit("lea", to, b.at(to, index=width, scale=4))
    b.emit("add", row, row_stride)
    b.emit("dec", rows)
    b.emit("jump_nonzero", "row")
    b.emit("add", panel_to, field("panel_step"))
    b.emit("mov", element, width)
    b.emit("imul", element, column_stride)
    b.emit("add", source, element)
    b.emit("sub", left, width)
    b.emit("jump_greater", "panel")
    b.emit("return")
    return b.finish()
