"""One product of any size: C = epilogue(A @ B), sizes known only at run time.

    c [M, N] = epilogue(a [M, K] @ b [K, N])          one kernel per epilogue and machine

B is packed first (`gemm_packing`), into panels of 64 columns that are K rows long; A is read where it is.
The loops are those of a chain with a single stage: blocks of 336 rows, in them panels, in them tiles of 6 x
64. What was measured against blocking over K as well: a panel of K = 25088 (6.4 MB) still runs at 94 % of
the peak, because it is read straight on and once per 6 rows, and results would have to be written and read
again at each step over K. With AVX2 a panel has 16 columns, a row of it is one line, and the first tile of
a panel asks for the lines of the next one, which else come from beyond the core's own cache just when they
are needed. Depths of 256 steps, with B's panels in the first-level cache and the rows of A copied side by
side, were tried and slower.

Work is divided over parts by tiles of rows, or by panels where there are too few rows: then each part reads
only its own share of B, which is what a product with few rows is bound by.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.errors import UnsupportedError
from regweave.kernels.chains.packing import PackStep
from regweave.kernels.chains.plan import MOST_TENSORS, SINGLE_ROWS
from regweave.kernels.chains.scalars import Rows
from regweave.kernels.chains.stage import Ahead, Stage, call_last
from regweave.kernels.common.division import divide_up, share_rows_or_panels, take_rows
from regweave.kernels.common.epilogue import Columns, Epilogue
from regweave.kernels.common.geometry import Geometry, geometry_of
from regweave.kernels.common.places import Strided
from regweave.kernels.common.workspace import Workspace
from regweave.machines.x86 import VectorMachine
from regweave.operators import Elementwise

#: Rows that are packed for all panels before the next ones, where panels are a line wide: beside each line
#: the next panel's waits in a cache, but of lines a large power of two apart only some hundred can.
_TOGETHER = 256


class GemmArguments(ctypes.Structure):
    """Argument of a GEMM kernel: `void gemm(const GemmArguments *, size_t part)`.

    Addresses and bytes from row to row of a, c and the extra tensors (TensorAdd, TensorMul: [M, N], in the
    order of the epilogue); m, n >= 0, k >= 1; packed: address of the packed B; flags: STREAM.
    """

    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in ("a", "c", "packed", "a_pitch", "c_pitch", "m", "n", "k", "parts", "flags")
        ),
        ("extras", ctypes.c_int64 * MOST_TENSORS),
        ("extra_pitch", ctypes.c_int64),
    )


def gemm_packing(
    b: np.ndarray, operands: tuple[np.ndarray, ...], machine: VectorMachine, parts: int = 1
) -> tuple[int, tuple[tuple[PackStep, ...], ...]]:
    """(bytes of the packed B, the steps of each part) for b [K, N] of any strides and channel operands [N].

    Memory must start at a multiple of 64 bytes. All parts must have packed before a kernel starts.
    """
    g = geometry_of(machine.name)
    k, n = b.shape
    panels = -(-n // g.columns)
    step = g.panel_bytes * (k + len(operands))
    shares = []
    for part in range(parts):
        first, last = panels * part // parts, panels * (part + 1) // parts
        columns = slice(first * g.columns, min(n, last * g.columns))
        matrices = [b[:, columns], *(operand[None, columns] for operand in operands)]
        row, steps = first * step, []
        for matrix in matrices if last > first else ():
            together = _TOGETHER if g.line_panels else k
            for start in range(0, matrix.shape[0] if matrix.size else 0, together):
                rows = matrix[start : start + together]
                steps.append(PackStep(row + start * g.panel_bytes, rows, g.columns, step))
            row += g.panel_bytes * matrix.shape[0]
        shares.append(tuple(steps))
    return panels * step, tuple(shares)


@lru_cache(maxsize=64)
def gemm_kernel(epilogue: tuple[Elementwise, ...], machine: VectorMachine) -> Listing:
    """The kernel of `epilogue(a @ b)`: see GemmArguments; K >= 1.

    Errors: UnsupportedError for machines without kernels, or more than four extra tensors.
    """
    if sum(op.operand == "tensor" for op in epilogue) > MOST_TENSORS:
        raise UnsupportedError("too many extra tensors for one product", expected=f"at most {MOST_TENSORS}")
    geometry = geometry_of(machine.name)
    w = Workspace(machine, geometry, "rw_gemm", GemmArguments)
    return _GemmDriver(w, geometry, Epilogue(epilogue, by_vector=True)).write()


class _GemmDriver:
    """Writes the kernel: this part's rows and panels, then block by block the stage's routines."""

    def __init__(self, w: Workspace, geometry: Geometry, epilogue: Epilogue) -> None:
        self.w, self.b, self.g, self.epilogue = w, w.b, geometry, epilogue

    def write(self) -> Listing:
        w, b = self.w, self.b
        top, done = b.fresh_label("block"), b.fresh_label("done")
        b.emit("mov", w.slot("args"), b["args"])
        panels = b.general("panels")
        b.emit("mov", panels, w.field("n", args=b["args"]))
        divide_up(w, panels, self.g.columns)
        share_rows_or_panels(w, "m", panels, done)
        w.copy_slot("next", "first")
        b.label(top)
        take_rows(w, SINGLE_ROWS, done)
        self._panels()
        b.emit("jump", top)
        b.label(done)
        return w.finish()

    def _panels(self) -> None:
        """The stage's slots for this block, then its routines: full panels, the narrow one if it is ours."""
        b, w, g = self.b, self.w, self.g
        args, value = b.general("arguments"), b.general("value")
        b.emit("mov", args, w.slot("args"))
        self._set_row(args, ("a", 0), "source", "a_pitch", "pitch", panels=False)
        self._set_row(args, ("c", 0), "out", "c_pitch", "out_pitch", panels=True)
        for t in range(self.epilogue.tensors):
            self._set_row(args, ("extras", t), f"extra{t}", "extra_pitch", "extra_pitch", panels=True)
        b.emit("mov", value, w.field("k", args=args))
        b.emit("mov", w.slot("k"), value)
        b.emit("add", value, self.epilogue.channels)
        b.emit("imul", value, value, g.panel_bytes)
        if g.line_panels:
            b.emit("mov", w.slot("panel_step"), value)
        b.emit("imul", value, w.slot("first_panel"))
        b.emit("add", value, w.field("packed", args=args))
        b.emit("mov", w.slot("panel"), value)
        full, last, no_full, no_narrow = b.general("full"), b.general("last"), "no_full", "no_narrow"
        b.emit("mov", full, w.field("n", args=args))
        b.emit("shr", full, g.columns.bit_length() - 1)
        b.emit("mov", w.slot("full_panels"), full)
        b.emit("mov", last, w.slot("last_panel"))
        b.emit("min", full, last)
        b.emit("sub", full, w.slot("first_panel"))
        b.emit("jump_less_equal", no_full)
        b.emit("mov", w.slot("panels"), full)
        call_last(w, self._stage(narrow=False))
        b.label(no_full)
        b.emit("mov", last, w.slot("last_panel"))
        b.emit("cmp", last, w.slot("full_panels"))
        b.emit("jump_less_equal", no_narrow)
        self._set_narrow()
        w.call(self._stage(narrow=True))
        b.label(no_narrow)

    def _set_row(
        self,
        args: Variable,
        matrix: tuple[str, int],
        slot: str,
        pitch: str,
        pitch_slot: str,
        *,
        panels: bool,
    ) -> None:
        """A matrix's first element of this block, of the part's first panel if `panels`."""
        b, w = self.b, self.w
        start, step = b.general("start"), b.general("step")
        b.emit("mov", step, w.field(pitch, args=args))
        b.emit("mov", w.slot(pitch_slot), step)
        b.emit("mov", start, w.slot("begin"))
        b.emit("imul", start, step)
        b.emit("add", start, w.field(*matrix, args=args))
        if panels:
            b.emit("imul", step, w.slot("first_panel"), self.g.panel_bytes)
            b.emit("add", start, step)
        b.emit("mov", w.slot(slot), start)

    def _set_narrow(self) -> None:
        """Slots vectors, full_bytes, rest and panels for the N % 64 columns of the narrow panel."""
        b, w, g = self.b, self.w, self.g
        columns, value = b.general("columns"), b.general("value")
        b.emit("mov", w.slot("panels"), 1)
        b.emit("mov", columns, w.field("n"))
        b.emit("and", columns, g.columns - 1)
        b.emit("lea", value, b.at(columns, g.lanes - 1))
        b.emit("shr", value, g.lanes.bit_length() - 1)
        b.emit("mov", w.slot("vectors"), value)
        b.emit("mov", value, columns)
        b.emit("and", value, g.lanes - 1)
        b.emit("mov", w.slot("rest"), value)
        b.emit("sub", columns, value)
        b.emit("shl", columns, 2)
        b.emit("mov", w.slot("full_bytes"), columns)

    def _stage(self, *, narrow: bool) -> Stage:
        g = self.g
        return Stage(
            scalars=Rows(),
            place=Strided(),
            extras=Strided(),
            epilogue=self.epilogue,
            widths=tuple(range(1, g.vectors + 1)) if narrow else (g.vectors,),
            pitch=g.panel_bytes,
            columns=Columns(None, None) if narrow else Columns(g.vectors, ()),
            stream=False,
            claim=not narrow,
            ahead=Ahead(0, 0, apart=False),
            follows=g.line_panels and not narrow,
        )
