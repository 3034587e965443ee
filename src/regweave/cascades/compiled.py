"""A chain compiled for this machine: plan, packed weights, and the call.

    compiled = compile_chain(chain, threads=2)
    y = compiled(x)                              # or compiled(x, extras, out=y)
    print(compiled.plan)

A compiled chain may be called from several Python threads at once. For callers that go by address
(onnxruntime calls kernels itself) it has `entry`, `bind` and `scratch_bytes`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from regweave.cascades.arrays import aligned_empty, as_rows, contiguous, take, take_extras, take_out
from regweave.cascades.device import choose_machine
from regweave.cascades.native import NativeChain
from regweave.cascades.plan import CascadePlan, seams
from regweave.cascades.running import NativeRunner, PortableRunner, Runner
from regweave.cascades.threads import thread_count
from regweave.errors import InputError, UnsupportedError
from regweave.machines.x86 import VectorMachine
from regweave.operators import Chain


class CompiledChain:
    """See the module. Made by `compile_chain`."""

    def __init__(self, chain: Chain, threads: int, machine: VectorMachine | None) -> None:
        self.chain = chain
        self.threads = threads
        self._isa = machine.name if machine is not None else "portable"
        self.native = NativeChain(chain, machine) if machine is not None else None
        self._runner: Runner = NativeRunner(self.native, threads) if self.native else PortableRunner(chain)
        self.plan = _plan(chain, threads, self.native)
        self._single: CompiledChain | None = None
        #: extra input -> the stage whose result's shape it has
        self._extra_stages = {
            extra: stage
            for stage, used in enumerate(chain.signature.extras)
            for extra in used
            if extra is not None
        }

    def __repr__(self) -> str:
        return f"<compiled {self.plan.signature}; {self.plan.device}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # code belongs to the process that made it: a copy is compiled anew
        return partial(compile_chain, threads=self.threads, isa=self._isa), (self.chain,)

    # -- for callers that go by address ---------------------------------------------------------------------

    def required_native(self) -> NativeChain:
        """The native kernel; UnsupportedError on the portable device, which has none."""
        if self.native is None:
            raise UnsupportedError(
                "the portable device has no kernel to be called by address", fix="call the chain with arrays"
            )
        return self.native

    @property
    def entry(self) -> int:
        """The address of `void kernel(const Args *, size_t part)`; UnsupportedError if portable."""
        return self.required_native().entry

    def scratch_bytes(self, parts: int = 1) -> int:
        """Scratch memory that `parts` parts need."""
        return self.required_native().scratch_bytes(parts)

    def parts(self, rows: int) -> int:
        """Into how many parts a job of `rows` rows (pixels of all images) is divided."""
        return self._runner.parts(rows)

    def bind(
        self,
        x: int,
        y: int,
        extras: Sequence[int] = (),
        *,
        rows: int,
        batch: int = 1,
        parts: int = 1,
        scratch: int = 0,
        flags: int = 0,
    ) -> ctypes.Structure:
        """The kernel's argument block for the addresses of contiguous tensors.

        `rows` is M, or for images the pixels of one; `batch` the images; `scratch` the address of
        `scratch_bytes(parts)` bytes. Keep this object alive while the kernel may run.
        """
        chain = self.chain
        arguments: Any = self.required_native().arguments()
        arguments.x, arguments.y, arguments.rows, arguments.batch = x, y, rows, batch
        arguments.parts, arguments.scratch, arguments.flags = parts, scratch, flags
        if chain.order == "rows":
            arguments.x_pitch, arguments.y_pitch = 4 * chain.widths[0], 4 * chain.widths[-1]
        else:
            arguments.x_pitch = arguments.y_pitch = 4 * rows * max(chain.block, 1)
        for index, extra in enumerate(extras):
            arguments.extras[index] = extra
        return arguments

    # -- the call -------------------------------------------------------------------------------------------

    def __call__(self, x: Any, extras: Sequence[Any] = (), *, out: Any = None) -> Any:
        """The result for x, of x's kind; into `out` (returned as given) if there is one.

        Order "rows": x [..., K0] -> [..., N]. "pixels": x [batch, K0, ...] -> [batch, N, ...]. "blocked":
        x [batch, ceil(K0 / block), P, block]. Each extra input has the shape of its stage's result. Errors:
        InputError for wrong shapes, element types or devices.
        """
        if out is not None and isinstance(extras, tuple) and not extras and self._runner.again(x, out):
            return out
        given, wrap = take(x, "x")
        beside = take_extras(extras, self.chain.extra_inputs)
        shape = self.result_shape(given.shape)
        if out is None:
            result = aligned_empty(shape)
            self._fill(given, beside, result)
            return wrap(result)
        target, direct = take_out(out, shape, (given, *beside))
        if self.chain.order != "rows":
            direct = direct and target.flags.c_contiguous
        result = target if direct else aligned_empty(shape)
        self._fill(given, beside, result)
        if not direct:
            target[...] = result
        return out

    def result_shape(self, shape: Sequence[int], stage: int = -1) -> tuple[int, ...]:
        """The shape of a stage's result (the last one's by default) for an x of this shape.

        Errors: InputError if x cannot have it.
        """
        chain, block = self.chain, self.chain.block
        k, n = chain.widths[0], chain.widths[1:][stage]
        if chain.order == "rows":
            fits, expected = len(shape) >= 1 and shape[-1] == k, f"[..., {k}]: {k} columns"
            result = (*shape[:-1], n)
        elif chain.order == "pixels":
            fits, expected = len(shape) >= 3 and shape[1] == k, f"[batch, {k}, pixels...]"
            result = (*shape[:1], n, *shape[2:])
        else:
            blocks = -(-k // block)
            fits = len(shape) == 4 and shape[1] == blocks and shape[3] == block
            expected = f"[batch, {blocks}, pixels, {block}]"
            result = (*shape[:1], -(-n // block), *shape[2:])
        if not fits:
            raise InputError(f"the shape is {list(shape)}", where="x", expected=expected)
        return result

    def _fill(self, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
        """y = the result; y has the right shape, and rows or (images) contiguous layout."""
        beside = [
            contiguous(extra, self.result_shape(x.shape, self._extra_stages[index]), f"extras[{index}]")
            for index, extra in enumerate(extras)
        ]
        if y.size == 0:
            return
        plain = x.flags.c_contiguous and y.flags.c_contiguous and not extras
        shapes = (x.shape, y.shape) if plain else None
        if self.chain.order == "rows":
            rows = as_rows(x, self.chain.widths[0], "x")
            y = y if y.ndim == 2 else y.reshape(len(rows), self.chain.widths[-1])
            self._runner.run(rows, beside, y, len(rows), 1, shapes)
            return
        pixels = x.shape[2] if self.chain.order == "blocked" else math.prod(x.shape[2:])
        images = contiguous(x, x.shape, "x")
        if pixels == 1 and self.chain.order == "pixels":
            self._fill_single(images, beside, y)
        else:
            self._runner.run(images, beside, y, pixels, x.shape[0], shapes)

    def _fill_single(self, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
        """Images of one pixel are rows: then the lanes are columns, not one pixel and fifteen idle ones."""
        if self._single is None:
            machine = self.native.machine if self.native else None
            self._single = CompiledChain(Chain(self.chain.stages, "rows"), self.threads, machine)
        batch = x.shape[0]
        flat = [array.reshape(batch, -1) for array in (x, y, *extras)]
        self._single._fill(flat[0], flat[2:], flat[1])


def _plan(chain: Chain, threads: int, native: NativeChain | None) -> CascadePlan:
    signature = chain.signature
    if native is None:
        from regweave.cascades.portable import BLOCK_ROWS

        rows = BLOCK_ROWS
        tile = (rows, max(chain.widths))
        return CascadePlan("portable", 1, signature, tile, rows, 0, 0, seams(signature, None))
    return CascadePlan(
        native.machine.name,
        threads,
        signature,
        native.plan.tile,
        native.plan.block,
        native.scratch_bytes(),
        native.packed_bytes,
        seams(signature, native.plan),
        native.kernel,
    )


def compile_chain(chain: Chain, *, threads: int | None = 1, isa: str | None = None) -> CompiledChain:
    """Build the kernel of a chain for this machine and pack its weights.

    `threads` at most work on a call (None: all processors of this process). `isa` is "avx512", "avx2" or
    "portable"; by default what REGWEAVE_ISA says, else the best there is. Errors: InputError,
    UnsupportedError.
    """
    count = thread_count(threads)
    if not isinstance(chain, Chain):
        raise InputError(f"{chain!r} is no chain", where="chain", expected="a regweave.operators.Chain")
    return CompiledChain(chain, count, choose_machine(isa))
