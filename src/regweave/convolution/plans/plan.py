"""What `plan_conv` decides about a convolution on a device, and the arithmetic that follows from it.

    row direction      a group reads whole storage rows:  threads = storage row / (outputs * element size)
    column direction   threads = ceil(output height / outputs each); neighbours share `overlap` image rows
    registers          accumulators + rows in flight + weights + addresses, none to memory

A plan is the whole input of the kernels: the lane-level programs are generated from it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regweave.convolution.forms import plane_shifts, plane_width
from regweave.errors import UnsupportedError
from regweave.machines.compute import ComputeMachine
from regweave.operators import Convolution
from regweave.values import frozen

if TYPE_CHECKING:
    import numpy as np

    from regweave.programs import Program

ELEMENT_BYTES = {"f32": 4, "f16": 2}
#: Multiply-adds that a kernel writes out at most.
WRITTEN_OUT = 1300
#: Bytes of a result from which on it is not kept in a processor's caches.
STREAMED = 8 << 20
#: The same for a processor whose tile shares no image rows: its compiler orders the loads of more so that
#: registers no longer suffice, and takes seconds for it.
_WRITTEN_OUT_VECTORS = 150


@frozen
class Registers:
    """Registers of 32 bits that a thread of the convolution holds at once, and those that it may have.

    `ahead` are those that a compiler fills with loads and addresses before they are needed, where there is
    room: with fewer the kernel works as well.
    """

    accumulators: int
    rows: int
    weights: int
    addresses: int
    available: int
    ahead: int = 0

    def __post_init__(self) -> None:
        assert min(self.accumulators, self.rows, self.weights, self.addresses, self.ahead) >= 0, self

    @property
    def needed(self) -> int:
        """Those without which something is spilled."""
        return self.accumulators + self.rows + self.weights + self.addresses

    @property
    def used(self) -> int:
        """All that may be held at once."""
        return self.needed + self.ahead


@frozen
class Alternative:
    """A way that was not taken: its form and outputs per thread, what it would take, and why it lost."""

    form: str
    outputs_per_thread: tuple[int, int, int]
    predicted_ms: float
    reason: str


@frozen
class ConvPlan:
    """A convolution on a device.

    `form` says how rows are rearranged. A thread computes `outputs_per_thread` (along the row, along the
    column, filters); `group` threads (along the row, along the column) work together on whole storage rows.
    `strip_rows` output rows are rearranged at a time. `order` is that of the image in memory; neighbouring
    `lanes` are pixels of a row, filters, or channels. `limit` names what bounds `predicted_ms`; `notes` say
    what else a person should know; `most_rows` is the largest number of outputs along the column that fits
    the registers; `own_workspace` is the memory of kernels that have their own way of keeping rows.
    """

    convolution: Convolution
    dtype: str
    machine: ComputeMachine
    form: str
    outputs_per_thread: tuple[int, int, int]
    group: tuple[int, int]
    strip_rows: int
    registers: Registers
    most_rows: int
    predicted_ms: float
    limit: str
    notes: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    own_workspace: int | None = None
    order: str = "nchw"
    lanes: str = "pixels"

    @property
    def element(self) -> int:
        """Bytes of an element in memory."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def columns(self) -> int:
        """Outputs of a row that a group computes."""
        return self.group[0] * self.outputs_per_thread[0]

    @property
    def threads(self) -> tuple[int, int]:
        """Threads in both directions, for one image and one block of filters."""
        c = self.convolution
        across = -(-c.horizontal.outputs // self.columns) * self.group[0]
        return across, -(-c.vertical.outputs // self.outputs_per_thread[1])

    @property
    def taps_at_once(self) -> bool:
        """Whether all taps of a channel are written out, so that output rows share the image's."""
        (ox, oy, oc), c = self.outputs_per_thread, self.convolution
        products = ox * oy * oc * c.vertical.kernel * c.horizontal.kernel
        if self.machine.kind == "gpu" or oc == 1:
            return products <= WRITTEN_OUT
        return oy == 1 and products <= _WRITTEN_OUT_VECTORS

    @property
    def streamed(self) -> bool:
        """Whether results pass the caches: large ones of one filter, which a thread writes as whole lines."""
        c, lanes = self.convolution, self.group[0]
        size = self.element * c.batch * c.filters * c.vertical.outputs * c.horizontal.outputs
        lines = self.element * lanes == self.machine.storage_row and c.horizontal.outputs % lanes == 0
        return (
            self.machine.kind == "vectors" and self.outputs_per_thread[2] == 1 and lines and size >= STREAMED
        )

    @property
    def overlap(self) -> int:
        """Image rows that threads above one another both read."""
        axis = self.convolution.vertical
        return max(0, axis.span - axis.stride)

    @property
    def planes(self) -> int:
        """Rows that each image row becomes."""
        return len(plane_shifts(self.convolution.horizontal, self.form))

    @property
    def pitch(self) -> int:
        """Elements from one rearranged row to the next: whole storage rows, as far as any group reads."""
        axis, row = self.convolution.horizontal, self.machine.storage_row // self.element
        reach = plane_width(axis, self.form) - axis.outputs
        return -(-(self.threads[0] * self.outputs_per_thread[0] + reach) // row) * row

    @property
    def expansion(self) -> float:
        """Elements of the rearranged rows for each element of the image's, padding aside."""
        axis = self.convolution.horizontal
        if self.form == "none":
            return 1.0
        return self.planes * plane_width(axis, self.form) / axis.size

    @property
    def strip_lines(self) -> int:
        """Image rows that are rearranged at a time."""
        axis = self.convolution.vertical
        return (self.strip_rows - 1) * axis.stride + axis.span

    @property
    def strips(self) -> int:
        """How often rows are rearranged, and then convolved."""
        return -(-self.convolution.vertical.outputs // self.strip_rows)

    @property
    def strip_starts(self) -> tuple[int, ...]:
        """The first output row of each strip; the last one ends with the result."""
        last = self.convolution.vertical.outputs - self.strip_rows
        return tuple(min(strip * self.strip_rows, last) for strip in range(self.strips))

    @property
    def workspace_bytes(self) -> int:
        """Memory beyond image, weights and result."""
        if self.own_workspace is not None:
            return self.own_workspace
        if self.form == "none":
            return 0
        c = self.convolution
        return c.batch * c.channels * self.strip_lines * self.planes * self.pitch * self.element

    @property
    def bytes(self) -> int:
        """Bytes moved to and from memory: image, weights and result once, rearranged rows there and back."""
        c, held = self.convolution, self.element
        count = c.batch * c.channels * c.vertical.size * c.horizontal.size
        outputs = c.batch * c.filters * c.vertical.outputs * c.horizontal.outputs
        weights = c.filters * c.group_channels * c.vertical.kernel * c.horizontal.kernel
        rearranged = 2 * self.strips * self.workspace_bytes if self.machine.kind == "gpu" else 0
        return held * (count + outputs) + 4 * weights + rearranged

    @property
    def flops(self) -> int:
        """Operations: an addition and a multiplication for each product."""
        return 2 * self.convolution.products

    def programs(self) -> tuple[Program, ...]:
        """The lane-level kernels: the convolution, and before it the rearrangement where the form has one.

        UnsupportedError for a machine whose kernels are assembly.
        """
        if self.machine.kind == "assembly":
            raise UnsupportedError(
                f"{self.machine.name} has no lane-level kernels",
                where="machine",
                expected="opencl-cpu or a GPU",
                fix="regweave.conv2d runs on this processor",
            )
        from regweave.convolution.lanes.kernel import convolve_program
        from regweave.convolution.lanes.rearranging import rearrange_program

        first = () if self.form == "none" else (rearrange_program(self),)
        return (*first, convolve_program(self))

    def pack_weights(self, weights: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Weights and bias, f32, in the order in which the kernels of `emit` read them.

        InputError for arrays of other shapes than the convolution's.
        """
        from regweave.convolution.lanes.packing import pack_weights

        return pack_weights(self, weights, bias)

    def emit(self, target: str = "opencl") -> str:
        """The kernels as text for `opencl` (as vectors on a processor), `hip` or `cuda`; for `host` a program
        in C that launches those in OpenCL C, tests and times them.

        Errors: UnsupportedError as `programs`, InputError for an unknown target.
        """
        if target == "host":
            from regweave.convolution.lanes.hosting import host_text

            return host_text(self)
        from regweave.convolution.lanes.emitting import plan_text

        return plan_text(self, target)

    def to_svg(self) -> str:
        """Image, threads, registers and rows drawn, as `regweave conv --svg` does."""
        from regweave.views.convolution_svg import convolution_svg

        return convolution_svg(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def explain(self) -> str:
        """The plan in words: choices, registers, rows that neighbours share, and what else there was."""
        from regweave.views.convolution_text import convolution_text

        return convolution_text(self)

    def _launches(self) -> list[dict[str, Any]]:
        """For each strip: kernels, their blocks along x, y and z, the threads of a block.

        On a processor through OpenCL a block is one work-item.
        """
        if self.machine.kind == "assembly":
            return []
        from regweave.convolution.lanes.emitting import grids

        vectors = self.machine.kind == "vectors"
        return [
            {
                "kernel": program.name,
                "blocks": list(grid),
                "threads_per_block": 1 if vectors else program.lanes * program.warps,
            }
            for program, grid in zip(self.programs(), grids(self), strict=True)
        ]

    def to_document(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        c = self.convolution
        return {
            "machine": self.machine.name,
            "convolution": str(c),
            "dtype": self.dtype,
            "order": self.order,
            "form": self.form,
            "expansion": round(self.expansion, 4),
            "threads": list(self.threads),
            "threads_per_group": list(self.group),
            "lanes": self.lanes,
            "outputs_per_thread": list(self.outputs_per_thread),
            "overlap": self.overlap,
            "registers": {
                "used": self.registers.used,
                "available": self.registers.available,
                "accumulators": self.registers.accumulators,
                "rows": self.registers.rows,
                "weights": self.registers.weights,
                "addresses": self.registers.addresses,
                "ahead": self.registers.ahead,
            },
            "bytes": self.bytes,
            "flops": self.flops,
            "workspace_bytes": self.workspace_bytes,
            "strip_rows": self.strip_rows,
            "launches": self._launches(),
            "predicted_ms": self.predicted_ms,
            "limit": self.limit,
            "notes": list(self.notes),
            "alternatives": [
                {
                    "form": other.form,
                    "outputs_per_thread": list(other.outputs_per_thread),
                    "predicted_ms": other.predicted_ms,
                    "reason": other.reason,
                }
                for other in self.alternatives
            ],
        }
