"""A run of element-wise work compiled for this machine: one pass over memory, however many operators.

compiled = compile_elementwise(ElementwiseRun((MulScalar(0.5), TensorAdd(), Gelu()), (None, 0, None)))
y = compiled(x, (residual,))
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regweave.cascades.arrays import aligned_empty, contiguous, take, take_extras, take_out
from regweave.cascades.device import choose_machine
from regweave.cascades.native import NativeRun
from regweave.cascades.threads import run, thread_count
from regweave.errors import InputError, UnsupportedError
from regweave.kernels import RunStructure
from regweave.machines.x86 import VectorMachine
from regweave.operators import ElementwiseRun

#: Elements below which a part is not worth a thread.
_PART_ELEMENTS = 1 << 15


class CompiledRun:
    """See the module. Made by `compile_elementwise`; may be called from several threads at once."""

    def __init__(self, work: ElementwiseRun, threads: int, machine: VectorMachine | None) -> None:
        self.run = work
        self.threads = threads
        self.device = "portable" if machine is None else machine.name
        self.native = None if machine is None else NativeRun(_structure(work), work.operands, machine)

    def __repr__(self) -> str:
        return f"<compiled {' '.join(map(str, self.run.ops))}; {self.device}>"

    @property
    def entry(self) -> int:
        """The address of `void kernel(const Args *, size_t part)`; UnsupportedError if portable."""
        return self._required_native().entry

    def _required_native(self) -> NativeRun:
        if self.native is None:
            raise UnsupportedError(
                "the portable device has no kernel to be called by address", fix="call the run with arrays"
            )
        return self.native

    def bind(
        self, x: int, y: int, extras: Sequence[int] = (), *, rows: int, batch: int = 1, parts: int = 1
    ) -> ctypes.Structure:
        """The kernel's argument block for the addresses of contiguous tensors; keep this object alive.

        `rows` is the number of elements without a channel axis, of rows with axis "last", and of pixels of
        one image with axis "first"; `batch` the number of images.
        """
        arguments: Any = self._required_native().arguments()
        arguments.x, arguments.y, arguments.rows, arguments.batch, arguments.parts = x, y, rows, batch, parts
        for index, extra in enumerate(extras):
            arguments.extras[index] = extra
        return arguments

    def __call__(self, x: Any, extras: Sequence[Any] = (), *, out: Any = None) -> Any:
        """The result for x, of x's shape and kind; into `out` (which may be x itself) if there is one.

        Each extra input has x's shape. Errors: InputError for wrong shapes, element types or devices.
        """
        given, wrap = take(x, "x")
        beside = take_extras(extras, self.run.extra_inputs)
        self._check(given.shape)
        values = contiguous(given, given.shape, "x")
        beside = [contiguous(extra, given.shape, f"extras[{index}]") for index, extra in enumerate(beside)]
        if out is None:
            result = aligned_empty(given.shape)
            self._fill(values, beside, result)
            return wrap(result)
        target, direct = take_out(out, given.shape, (values, *beside))
        direct = direct and target.flags.c_contiguous
        result = target if direct else aligned_empty(given.shape)
        self._fill(values, beside, result)
        if not direct:
            target[...] = result
        return out

    def _check(self, shape: Sequence[int]) -> None:
        channels = self.run.channels
        if channels is None:
            return
        if self.run.axis == "last":
            fits, expected = len(shape) >= 1 and shape[-1] == channels, f"[..., {channels}]"
        else:
            fits, expected = len(shape) >= 2 and shape[1] == channels, f"[batch, {channels}, ...]"
        if not fits:
            raise InputError(f"the shape is {list(shape)}", where="x", expected=expected)

    def _fill(self, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
        if y.size == 0:
            return
        if self.native is None:
            from regweave.cascades import portable

            portable.run_elementwise(self.run, x, extras, y)
            return
        rows, batch = x.size, 1
        if self.run.channels is not None:
            if self.run.axis == "last":
                rows = x.size // self.run.channels
            else:
                rows, batch = math.prod(x.shape[2:]), x.shape[0]
        parts = max(1, min(2 * self.threads, x.size // _PART_ELEMENTS)) if self.threads > 1 else 1
        arguments = self.bind(
            x.ctypes.data,
            y.ctypes.data,
            [extra.ctypes.data for extra in extras],
            rows=rows,
            batch=batch,
            parts=parts,
        )
        run(self.entry, ctypes.addressof(arguments), parts, self.threads)


def compile_elementwise(
    work: ElementwiseRun, *, threads: int | None = 1, isa: str | None = None
) -> CompiledRun:
    """Build the kernel of a run for this machine; `threads` and `isa` as in `compile_chain`.

    Errors: InputError; UnsupportedError for more operands than one kernel takes.
    """
    count = thread_count(threads)
    if not isinstance(work, ElementwiseRun):
        raise InputError(f"{work!r} is no run", where="work", expected="a regweave.operators.ElementwiseRun")
    return CompiledRun(work, count, choose_machine(isa))


def _structure(work: ElementwiseRun) -> RunStructure:
    form = "flat" if work.channels is None else "rows" if work.axis == "last" else "planes"
    return RunStructure(work.ops, work.signature.extras, form, work.channels or 0)
