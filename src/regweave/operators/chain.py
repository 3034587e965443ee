"""A chain of matrix products with element-wise work behind each: what is computed, and nothing about how.

    Chain((Stage(w1, (ChannelAdd(), Relu()), (b1, None)), Stage(w2)))       y = relu(x @ w1 + b1) @ w2

Two orders of the same arithmetic exist, because two exist in models:

    "rows"     x [M, K0]         -> y [M, N]          MatMul and Gemm: a row is one sample
    "pixels"   x [batch, K0, P]  -> y [batch, N, P]   a 1x1 convolution of NCHW images: a column is one pixel

A chain splits into structure and data. `signature` is the structure: widths, operators, which extra input
goes where. It hashes, so that a kernel is generated once for all chains that differ in weights only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from regweave.errors import InputError, nearest_names
from regweave.operators.elementwise import Elementwise
from regweave.operators.operands import Operand, check_operands, extra_count, structure

Order = Literal["rows", "pixels"]
ORDERS = ("rows", "pixels")


@dataclass(frozen=True, eq=False)
class Stage:
    """One product and its epilogue: `epilogue(x @ weight)`.

    `weight` is float32 [K, N], made C-contiguous if it is not. `operands[i]` belongs to `epilogue[i]`: a
    float32 vector [N] for the Channel operators, the index of a run-time input for the Tensor operators, else
    None; they may be left out where no operator takes one. Errors: InputError.
    """

    weight: np.ndarray
    epilogue: tuple[Elementwise, ...] = ()
    operands: tuple[Operand, ...] = ()

    def __post_init__(self) -> None:
        weight = self.weight
        if not isinstance(weight, np.ndarray) or weight.dtype != np.float32:
            found = weight.dtype.str if isinstance(weight, np.ndarray) else type(weight).__name__
            raise InputError(
                f"a weight is {found}",
                where="Stage.weight",
                expected="a native float32 array",
                fix="convert it with .astype(numpy.float32)",
            )
        if weight.ndim != 2 or 0 in weight.shape:
            raise InputError(
                f"a weight has shape {list(weight.shape)}",
                where="Stage.weight",
                expected="[K, N] with K >= 1 and N >= 1",
            )
        object.__setattr__(self, "weight", np.require(weight, requirements=("C", "A")))
        object.__setattr__(self, "epilogue", tuple(self.epilogue))
        object.__setattr__(
            self, "operands", check_operands(self.epilogue, self.operands, weight.shape[1], "Stage.operands")
        )

    @property
    def k(self) -> int:
        """Columns of the input: the length of each dot product."""
        return self.weight.shape[0]

    @property
    def n(self) -> int:
        """Columns of the result."""
        return self.weight.shape[1]


@dataclass(frozen=True)
class Signature:
    """The structure of a chain without its data: equal signatures can share one kernel.

    `epilogues[s]` are the operators behind product s, `extras[s][i]` the extra input that operator i reads
    or None.
    """

    order: Order
    widths: tuple[int, ...]
    epilogues: tuple[tuple[Elementwise, ...], ...]
    extras: tuple[tuple[int | None, ...], ...]

    @property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return extra_count(self.extras)

    def __str__(self) -> str:
        steps = [str(self.widths[0])]
        for width, epilogue in zip(self.widths[1:], self.epilogues, strict=True):
            steps.append(" ".join([str(width), *map(str, epilogue)]))
        return f"{self.order} " + " -> ".join(steps)


@dataclass(frozen=True, eq=False)
class Chain:
    """One or more stages, each fed by the one before. Errors: InputError where widths do not meet."""

    stages: tuple[Stage, ...]
    order: Order = "rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise InputError("a chain has no stages", where="Chain.stages", expected="at least one")
        if self.order not in ORDERS:
            raise InputError(
                f"unknown order {self.order!r}",
                where="Chain.order",
                expected="'rows' or 'pixels'",
                nearest=nearest_names(str(self.order), ORDERS),
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

    @property
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
        )

    @property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return self.signature.extra_inputs

    @property
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
        """The result in float64 for x [M, K0] or [batch, K0, P]; extras have their stages' result shapes."""
        y = np.asarray(x, np.float64)
        for stage in self.stages:
            with np.errstate(invalid="ignore", over="ignore"):
                weight = stage.weight.astype(np.float64)
                y = y @ weight if self.order == "rows" else weight.T @ y
            for op, operand in zip(stage.epilogue, stage.operands, strict=True):
                y = op.reference(y, resolved(operand, extras, self.order == "pixels"))
        return y


def resolved(operand: Operand, extras: Sequence[np.ndarray], channel_first: bool) -> np.ndarray | None:
    """An operand as a float64 array that broadcasts against [..., N], or [..., N, P] if `channel_first`."""
    if operand is None:
        return None
    if isinstance(operand, np.ndarray):
        vector = operand.astype(np.float64)
        return vector[:, None] if channel_first else vector
    return np.asarray(extras[operand], np.float64)
