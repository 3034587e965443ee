"""The portable device: the same results on any processor, in NumPy float32, slowly.

It stands in where the processor has neither AVX-512 nor AVX2 with FMA, or where `REGWEAVE_ISA=portable`
asks for it, and says so once. Activations run the very code that the native kernels are generated from.

A BLAS sums in another order for another shape, for another layout, and at the edges of its tiles, and it has
other tiles on another processor. So that here too the bits of a result depend on nothing but the row and the
column that it is made of, every result is one dot product by itself, of vectors that always lie alike:

    x [M, K], w [K, N]   ->   M rows and N columns of K values, each from a cache line on, zeros behind them
    y[i, j]              =    dot(row i, column j), some thousand values at a time

That takes several times as long as a product of matrices, on a device that is there to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from regweave.cascades.arrays import aligned_empty
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.vectormath import NumpyMath
from regweave.operators import Chain, ElementwiseRun, Operand, from_blocks, to_blocks

#: Rows go through a chain in blocks, so that what stands between two products stays small.
BLOCK_ROWS = 64
#: Values of one dot product: of longer vectors a BLAS gives parts to its threads, as many as it finds free.
_MOST_VALUES = 4096
_LINE_VALUES = 16


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
    weights = [_placed(stage.weight.T) for stage in chain.stages]
    for start in range(0, len(x), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        value = x[rows]
        beside = [extra[rows] for extra in extras]
        for stage, weight in zip(chain.stages, weights, strict=True):
            sums = _dots(_placed(value), weight)
            value = activate_all(math_, stage.epilogue, sums, _loader(stage.operands, beside))
        y[rows] = value


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x [M, K] @ weight [K, N]."""
    return _dots(_placed(x), _placed(weight.T))


def _placed(vectors: np.ndarray) -> np.ndarray:
    """A copy of vectors [count, K]: each begins at a cache line, and zeros fill up the last one."""
    count, size = vectors.shape
    places = aligned_empty((count, -(-size // _LINE_VALUES) * _LINE_VALUES))
    places[:, :size] = vectors
    places[:, size:] = 0
    return places


def _dots(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """[M, N]: every row times every column; NumPy makes a product of 1 x K and K x 1 a dot product."""
    sums = np.zeros((len(rows), len(columns)), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, rows.shape[1], _MOST_VALUES):
            part = slice(start, start + _MOST_VALUES)
            sums += np.matmul(rows[:, None, None, part], columns[None, :, part, None])[..., 0, 0]
    return sums


def _loader(operands: Sequence[Operand], extras: Sequence[np.ndarray]) -> Callable[[int], np.ndarray]:
    """What `activate_all` asks for operands: operator i's vector or its extra input."""

    def load(index: int) -> np.ndarray:
        operand = operands[index]
        assert operand is not None, "asked for an operand that the operator does not have"
        return extras[operand] if isinstance(operand, int) else operand

    return load


def run_elementwise(run: ElementwiseRun, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray) -> None:
    """y = run(x, extras), all of one shape; with axis "first" the channel is dimension 1."""
    shape = (-1,) + (1,) * (x.ndim - 2) if run.axis == "first" else (-1,)

    vectors = [v.reshape(shape) if isinstance(v, np.ndarray) else v for v in run.operands]
    y[...] = activate_all(NumpyMath(), run.ops, x, _loader(vectors, extras))
