"""A chain of matrix products with element-wise work behind each: what is computed, and nothing about how.

    Chain((Stage(w1, (ChannelAdd(), Relu()), (b1, None)), Stage(w2)))       y = relu(x @ w1 + b1) @ w2

Three orders of the same arithmetic exist, because three exist in models:

    "rows"     x [M, K0]         -> y [M, N]          MatMul and Gemm: a row is one sample
    "pixels"   x [batch, K0, P]  -> y [batch, N, P]   a 1x1 convolution of NCHW images: a column is one pixel
    "blocked"  x [batch, ceil(K0 / block), P, block] -> y [batch, ceil(N / block), P, block]
               the same in blocks of channels, as onnxruntime keeps them between convolutions; channels of the
               last block beyond N are zero in y

A chain splits into structure and data. `signature` is the structure: widths, operators, which extra input
goes where. It hashes, so that a kernel is generated once for all chains that differ in weights only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from regweave.errors import InputError, unknown_name
from regweave.operators.blocks import from_blocks, to_blocks
from regweave.operators.operands import all_of, resolved, structure
from regweave.operators.stage import ORDERS, Order, Signature, Stage
from regweave.values import frozen


@frozen(eq=False)
class Chain:
    """One or more stages, each fed by the one before; `block` only with order "blocked" (8 or 16 usually).

    `seven` allows kernels to multiply halves seven times instead of eight: faster, but the bits of a row then
    depend on the rows beside it. Not with order "pixels".

    Errors: InputError where widths do not meet.
    """

    stages: tuple[Stage, ...]
    order: Order = "rows"
    block: int = 0
    seven: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", all_of(Stage, self.stages, "Chain.stages", "(Stage(weight),)"))
        if not self.stages:
            raise InputError("a chain has no stages", where="Chain.stages", expected="at least one")
        if self.order not in ORDERS:
            raise unknown_name("order", self.order, ORDERS, where="Chain.order")
        whole = isinstance(self.block, int) and (
            self.block > 0 if self.order == "blocked" else not self.block
        )
        if not whole:
            raise InputError(
                f"block {self.block!r} with order {self.order!r}",
                where="Chain.block",
                expected="channels per block with order 'blocked', 0 with the others",
            )
        if self.seven and self.order == "pixels":
            raise InputError(
                "products of pixels are not cut in halves",
                where="Chain.seven",
                expected="order 'rows' or 'blocked'",
            )
        for index, (first, second) in enumerate(zip(self.stages, self.stages[1:], strict=False)):
            if first.n != second.k:
                raise InputError(
                    f"stage {index} gives {first.n} columns but stage {index + 1} takes {second.k}",
                    where="Chain.stages",
                    expected="equal widths at each seam",
                )
        used = {e for stage in self.signature.extras for e in stage if e is not None}
        if used != set(range(len(used))):
            raise InputError(
                f"extra inputs {sorted(used)} are used",
                where="Chain.stages",
                expected="indices 0, 1, ... without gaps",
            )
        self._check_shared_extras()

    def _check_shared_extras(self) -> None:
        widths: dict[int, int] = {}
        for stage, extras in zip(self.stages, self.signature.extras, strict=True):
            for extra in extras:
                if extra is not None and widths.setdefault(extra, stage.n) != stage.n:
                    raise InputError(
                        f"extra input {extra} would need {widths[extra]} and {stage.n} columns",
                        where="Chain.stages",
                        expected="one width per extra input",
                    )

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """(K0, N0, N1, ...): the columns at the input, at each seam, and at the output."""
        return (self.stages[0].k, *(stage.n for stage in self.stages))

    @cached_property
    def signature(self) -> Signature:
        """The structure without the data, hashable."""
        return Signature(
            self.order,
            self.widths,
            tuple(stage.epilogue for stage in self.stages),
            tuple(structure(stage.operands) for stage in self.stages),
            self.block,
            self.seven,
        )

    @cached_property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return self.signature.extra_inputs

    @cached_property
    def extra_widths(self) -> tuple[int, ...]:
        """The number of columns (channels) of each extra input."""
        found = {
            extra: stage.n
            for stage, extras in zip(self.stages, self.signature.extras, strict=True)
            for extra in extras
            if extra is not None
        }
        return tuple(found[index] for index in range(len(found)))

    def reference(self, x: np.ndarray, extras: Sequence[np.ndarray] = ()) -> np.ndarray:
        """The result in float64 for an x of this chain's order; extras have their stages' result shapes."""
        y = np.asarray(x, np.float64)
        if self.order == "blocked":
            y = from_blocks(y, self.widths[0])
            extras = [from_blocks(e, n) for e, n in zip(extras, self.extra_widths, strict=True)]
        for stage in self.stages:
            with np.errstate(invalid="ignore", over="ignore"):
                weight = stage.weight.astype(np.float64)
                y = y @ weight if self.order == "rows" else weight.T @ y
            for op, operand in zip(stage.epilogue, stage.operands, strict=True):
                y = op.reference(y, resolved(operand, extras, self.order != "rows"))
        return to_blocks(y, self.block) if self.order == "blocked" else y
