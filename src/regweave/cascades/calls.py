"""`regweave.cascade`: layers in, one callable out.

    >>> layers = regweave.cascade([w1, w2], [b1, b2], "relu", threads=2)
    >>> y = layers(x)                       # relu(relu(x @ w1 + b1) @ w2 + b2)
    >>> print(layers.plan)

Weights are packed once, when the cascade is made. x may be a NumPy array or a DLPack tensor (torch, jax) on
the CPU; it is not copied, and the result is of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from regweave.cascades.arrays import take
from regweave.cascades.compiled import CompiledChain, compile_chain
from regweave.errors import InputError
from regweave.operators import Chain, ChannelAdd, Elementwise, Operand, Stage, activation

Activation = str | Elementwise | None


def cascade(
    weights: Sequence[Any],
    biases: Sequence[Any] | None = None,
    activations: Activation | Sequence[Activation] = None,
    *,
    threads: int | None = None,
    isa: str | None = None,
) -> CompiledChain:
    """Compile layers `activation(x @ weight + bias)`, two or more, into one kernel.

    `weights[i]` is float32 [K_i, N_i] with K_(i+1) = N_i; `biases[i]` float32 [N_i] or None; `activations`
    one for all layers or one per layer: a name ("relu", "gelu", "leaky_relu:0.1"), an operator of
    regweave.operators, or None. `threads` at most work on a call; None: all processors of this process.

    The result is called with x [..., K_0] and gives [..., N_last]; `out=` takes a buffer for it. It may be
    called from several threads. Errors: InputError where widths do not meet, for one layer (which is no
    cascade), wrong element types or activations.
    """
    if not isinstance(weights, Sequence) or isinstance(weights, (str, bytes)):
        raise InputError(
            f"weights is {type(weights).__name__}",
            where="weights",
            expected="a list of arrays, one per layer",
        )
    if len(weights) < 2:
        raise InputError(
            f"{len(weights)} layer{'s' * (len(weights) != 1)}: a cascade has two or more",
            where="weights",
            fix="regweave.gemm does a single product",
        )
    taken = _per_layer(biases, len(weights), "biases")
    words = _per_layer(activations, len(weights), "activations")
    stages = tuple(
        _stage(weight, bias, word, index)
        for index, (weight, bias, word) in enumerate(zip(weights, taken, words, strict=True))
    )
    for index, (first, second) in enumerate(pairwise(stages)):
        if first.n != second.k:
            raise InputError(
                f"weights[{index}] gives {first.n} columns but weights[{index + 1}] takes {second.k}",
                where="weights",
                expected="[K, N] each, with K equal to the N before",
                fix="give the transposed weight" if second.n == first.n else None,
            )
    return compile_chain(Chain(stages), threads=threads, isa=isa)


def _per_layer(given: Any, layers: int, where: str) -> list[Any]:
    """One value per layer: a single activation, also what is none (a function), or None counts for all."""
    if given is None or isinstance(given, (str, Elementwise)) or callable(given):
        return [given] * layers
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise InputError(
            f"{where} is {type(given).__name__}", where=where, expected="a list, one per layer, or None"
        )
    if len(given) != layers:
        raise InputError(f"{len(given)} {where} for {layers} layers", where=where, expected="one per layer")
    return list(given)


def _stage(weight: Any, bias: Any, word: Activation, index: int) -> Stage:
    array = take(weight, f"weights[{index}]")[0]
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"the shape is {list(array.shape)}",
            where=f"weights[{index}]",
            expected="[K, N], neither of them 0",
        )
    ops: list[Elementwise] = []
    operands: list[Operand] = []
    if bias is not None:
        ops.append(ChannelAdd())
        operands.append(bias_vector(bias, array.shape[1], f"biases[{index}]"))
    op = activation(word, f"activations[{index}]")
    if op is not None:
        ops.append(op)
        operands.append(None)
    return Stage(array, tuple(ops), tuple(operands))


def bias_vector(bias: Any, width: int, where: str) -> np.ndarray:
    """A bias as a contiguous float32 vector [N]; [1, N] is taken too. Errors: InputError."""
    vector = take(bias, where)[0]
    if vector.shape not in ((width,), (1, width)):
        raise InputError(f"the shape is {list(vector.shape)}", where=where, expected=f"[{width}]")
    return np.ascontiguousarray(vector.reshape(width))
