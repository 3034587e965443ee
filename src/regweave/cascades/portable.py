"""The portable device: the same results on any processor, in NumPy float32, slowly.

It stands in where the processor has neither AVX-512 nor AVX2 with FMA, or where `REGWEAVE_ISA=portable`
asks for it, and says so once. Activations run the very code that the native kernels are generated from.

Rows go through the whole chain in blocks of one fixed size (the last one padded), so that here too the bits
of a row depend on nothing but the row: a BLAS may choose another summation order for another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.vectormath import NumpyMath
from regweave.operators import Chain, ElementwiseRun, Operand, from_blocks, to_blocks

BLOCK_ROWS = 64


def run_chain(chain: Chain, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
    """y = chain(x, extras) for contiguous or strided arrays of the chain's order."""
    if chain.order == "rows":
        _run_rows(chain, x, extras, y)
        return
    if chain.order == "blocked":
        x = from_blocks(x, chain.widths[0])
        extras = [from_blocks(e, n) for e, n in zip(extras, chain.extra_widths, strict=True)]
    result = np.empty((x.shape[0], chain.widths[-1], x.shape[2]), np.float32)
    for image in range(x.shape[0]):
        _run_rows(chain, x[image].T, [extra[image].T for extra in extras], result[image].T)
    y[...] = to_blocks(result, chain.block) if chain.order == "blocked" else result


def _run_rows(chain: Chain, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
    math_ = NumpyMath()
    for start in range(0, len(x), BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, len(x)))
        value = _padded(x[rows])
        beside = [_padded(extra[rows]) for extra in extras]
        for stage in chain.stages:
            with np.errstate(all="ignore"):
                value = value @ stage.weight
            value = activate_all(math_, stage.epilogue, value, _loader(stage.operands, beside))
        y[rows] = value[: rows.stop - rows.start]


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x [M, K] @ weight [K, N], in blocks of one size too."""
    with np.errstate(all="ignore"):
        blocks = [_padded(x[start : start + BLOCK_ROWS]) @ weight for start in range(0, len(x), BLOCK_ROWS)]
    return np.concatenate(blocks)[: len(x)]


def _loader(operands: Sequence[Operand], extras: Sequence[np.ndarray]) -> Callable[[int], np.ndarray]:
    """What `activate_all` asks for operands: operator i's vector or its extra input."""

    def load(index: int) -> np.ndarray:
        operand = operands[index]
        assert operand is not None, "asked for an operand that the operator does not have"
        return extras[operand] if isinstance(operand, int) else operand

    return load


def _padded(rows: np.ndarray) -> np.ndarray:
    """A contiguous block of BLOCK_ROWS rows, zero beyond those given."""
    block = np.zeros((BLOCK_ROWS, rows.shape[1]), np.float32)
    block[: len(rows)] = rows
    return block


def run_elementwise(run: ElementwiseRun, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
    """y = run(x, extras), all of one shape; with axis "first" the channel is dimension 1."""
    shape = (-1,) + (1,) * (x.ndim - 2) if run.axis == "first" else (-1,)

    vectors = [v.reshape(shape) if isinstance(v, np.ndarray) else v for v in run.operands]
    y[...] = activate_all(NumpyMath(), run.ops, x, _loader(vectors, extras))
