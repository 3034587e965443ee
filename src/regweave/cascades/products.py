"""`regweave.gemm`: one product of any size, bias and activation applied while the result is in registers.

    >>> y = regweave.gemm(a, b, bias=b1, activation="gelu")          # gelu(a @ b + b1)

B is packed into panels in native code on every call (a cascade packs once: prefer it for layers), A is read
where it is. One kernel serves all sizes; the bits of a row of the result depend on that row of A and on B
alone.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regweave.cascades import portable
from regweave.cascades.arrays import (
    aligned_bytes,
    aligned_empty,
    as_rows,
    has_row_layout,
    row_pitch,
    take,
    take_out,
)
from regweave.cascades.device import choose_machine
from regweave.cascades.native import loaded_gemm, loaded_packing
from regweave.cascades.running import LINE, STREAM_BYTES, job_parts
from regweave.cascades.threads import run, run_each, thread_count
from regweave.errors import InputError
from regweave.kernels import STREAM, NumpyMath, PackArguments, activate_all
from regweave.kernels.chains.gemm import GemmArguments, gemm_packing
from regweave.machines.x86 import VectorMachine
from regweave.operators import ChannelAdd, Elementwise, TensorAdd, activation

#: Packed matrices whose memory is kept for the next call: fresh memory costs a page fault every 4 KiB.
_KEPT = 2
_MOST_KEPT_BYTES = 64 << 20
_kept: list[np.ndarray] = []


def gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: str | Elementwise | None = None,
    *,
    out: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    threads: int | None = None,
    isa: str | None = None,
) -> Any:
    """activation(a @ b + bias) in float32.

    `a` [..., K] (leading dimensions are rows; [K, M] with `transpose_a`), `b` [K, N] ([N, K] with
    `transpose_b`) of any strides, `bias` [N], or [M, N] and what broadcasts to it. `activation` as in
    `cascade`. Arrays are NumPy's or DLPack tensors on the CPU; the result is of a's kind, or `out`. `threads`
    at most work on it; None: all processors of this process. Errors: InputError for shapes that do not meet,
    other element types or devices.
    """
    count, machine = thread_count(threads), choose_machine(isa)
    left, wrap = take(a, "a")
    right = take(b, "b")[0]
    if transpose_a:
        if left.ndim != 2:
            raise InputError(
                f"the shape is {list(left.shape)}", where="a", expected="[K, M] to be transposed"
            )
        left = left.T
    if right.ndim != 2:
        fix = "b[:, None] makes a column of a vector" if right.ndim == 1 else None
        raise InputError(f"the shape is {list(right.shape)}", where="b", expected="two dimensions", fix=fix)
    right = right.T if transpose_b else right
    if left.ndim == 0 or left.shape[-1] != right.shape[0]:
        raise InputError(
            f"a has {left.shape[-1] if left.ndim else 'no'} columns but b has {right.shape[0]} rows",
            where="a, b",
            expected="equal",
            fix="see transpose_a and transpose_b",
        )
    shape = (*left.shape[:-1], right.shape[1])
    job = _Job(left, right, *_epilogue(bias, activation, shape))
    if out is None:
        result = aligned_empty(shape)
        job.run(result, count, machine)
        return wrap(result)
    target, direct = take_out(out, shape, (left, right, *job.vectors, *job.tensors))
    result = target if direct else aligned_empty(shape)
    job.run(result, count, machine)
    if not direct:
        target[...] = result
    return out


def _epilogue(
    bias: Any, word: str | Elementwise | None, shape: Sequence[int]
) -> tuple[tuple[Elementwise, ...], tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """(operators, channel vectors [N], tensors [M, N]) of bias and activation."""
    op = activation(word)
    after = () if op is None else (op,)
    if bias is None:
        return after, (), ()
    given, n = take(bias, "bias")[0], shape[-1]
    rows = math.prod(shape[:-1])
    if given.shape in ((), (1,), (n,), (1, 1), (1, n)):
        vector = np.ascontiguousarray(np.broadcast_to(given.reshape(-1), n))
        return (ChannelAdd(), *after), (vector,), ()
    try:
        full = np.broadcast_to(given, tuple(shape))
    except ValueError:
        raise InputError(
            f"the shape is {list(given.shape)}",
            where="bias",
            expected=f"[{n}], or what broadcasts to {list(shape)}",
        ) from None
    return (TensorAdd(), *after), (), (np.ascontiguousarray(full).reshape(rows, n),)


class _Job:
    """One product with its operands checked: a [..., K], b [K, N], channel vectors [N], tensors [M, N]."""

    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        ops: tuple[Elementwise, ...],
        vectors: tuple[np.ndarray, ...],
        tensors: tuple[np.ndarray, ...],
    ) -> None:
        self.a, self.b, self.ops, self.vectors, self.tensors = a, b, ops, vectors, tensors

    def run(self, result: np.ndarray, threads: int, machine: VectorMachine | None) -> None:
        """result [..., N] = the product; it is contiguous, or [M, N] with row layout."""
        if result.size == 0:
            return
        n = self.b.shape[1]
        c = result if result.ndim == 2 else result.reshape(-1, n)
        assert has_row_layout(c), "the result's layout is checked before"
        if machine is None or self.b.shape[0] == 0:
            self._run_portable(c)
        else:
            self._run_native(c, threads, machine)

    def _run_portable(self, c: np.ndarray) -> None:
        product = portable.product(self.a.reshape(c.shape[0], self.b.shape[0]), self.b)
        operands = (*self.vectors, *self.tensors)
        c[...] = activate_all(NumpyMath(), self.ops, product, lambda index: operands[index])

    def _run_native(self, c: np.ndarray, threads: int, machine: VectorMachine) -> None:
        rows = as_rows(self.a, self.b.shape[0], "a")
        k, n = self.b.shape
        parts = job_parts(2.0 * len(rows) * k * n, threads)
        packed = self._pack(threads, parts, machine)
        aligned = not (c.ctypes.data | row_pitch(c)) % LINE
        arguments: Any = GemmArguments(
            rows.ctypes.data,
            c.ctypes.data,
            packed.ctypes.data,
            row_pitch(rows),
            row_pitch(c),
            len(rows),
            n,
            k,
            parts,
            STREAM if aligned and c.nbytes >= STREAM_BYTES else 0,
        )
        for index, tensor in enumerate(self.tensors):
            arguments.extras[index] = tensor.ctypes.data
            arguments.extra_pitch = row_pitch(tensor)
        kernel = loaded_gemm(self.ops, machine)  # held: the cache may let go of it meanwhile
        run(kernel.address, ctypes.addressof(arguments), parts, threads)
        if len(_kept) < _KEPT and packed.nbytes <= _MOST_KEPT_BYTES:
            _kept.append(packed)

    def _pack(self, threads: int, parts: int, machine: VectorMachine) -> np.ndarray:
        """B and the channel vectors in panels; every part packs its own."""
        size, shares = gemm_packing(self.b, self.vectors, machine, parts)
        memory = _packed_memory(size)
        steps = [step for share in shares for step in share]
        blocks = (PackArguments * len(steps))(*(step.arguments(memory.ctypes.data) for step in steps))
        kernel = loaded_packing(machine)
        run_each(kernel.address, blocks, threads)
        return memory


def _packed_memory(size: int) -> np.ndarray:
    """Memory for a packed matrix: from an earlier call if that is large enough, but not needlessly large."""
    try:
        memory = _kept.pop()
    except IndexError:
        return aligned_bytes(size)
    return memory if size <= memory.nbytes <= 4 * size else aligned_bytes(size)
