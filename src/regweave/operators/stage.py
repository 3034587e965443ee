"""One product with the element-wise work behind it, and the structure of a chain of them.

    Stage(w, (ChannelAdd(), Relu()), (bias, None))          y = relu(x @ w + bias)

A `Signature` is what is left of a chain without its data: it hashes, and equal signatures can share a kernel.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from regweave.errors import InputError
from regweave.operators.elementwise import Elementwise
from regweave.operators.operands import Operand, all_of, check_operands, extra_count, owned
from regweave.values import frozen

Order = Literal["rows", "pixels", "blocked"]
ORDERS = ("rows", "pixels", "blocked")


@frozen(eq=False)
class Stage:
    """One product and its epilogue: `epilogue(x @ weight)`.

    `weight` is float32 [K, N]. `operands[i]` belongs to `epilogue[i]`: a float32 vector [N] for the Channel
    operators, the index of a run-time input for the Tensor operators, else None; they may be left out where
    no operator takes one. Weight and vectors are copied unless read-only: a stage never changes. Errors:
    InputError.
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
        object.__setattr__(self, "weight", owned(weight))
        epilogue = all_of(Elementwise, self.epilogue, "Stage.epilogue", "(Relu(),)")
        object.__setattr__(self, "epilogue", epilogue)
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


@frozen
class Signature:
    """The structure of a chain without its data: equal signatures can share one kernel.

    `epilogues[s]` are the operators behind product s, `extras[s][i]` the extra input that operator i reads
    or None. `block` is the channels per block of order "blocked", 0 in the others. `seven`: products may be
    cut in halves and multiplied seven times instead of eight (see kernels/chains/seven.py).
    """

    order: Order
    widths: tuple[int, ...]
    epilogues: tuple[tuple[Elementwise, ...], ...]
    extras: tuple[tuple[int | None, ...], ...]
    block: int = 0
    seven: bool = False

    @property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return extra_count(self.extras)

    def __str__(self) -> str:
        steps = [str(self.widths[0])]
        for width, epilogue in zip(self.widths[1:], self.epilogues, strict=True):
            steps.append(" ".join([str(width), *map(str, epilogue)]))
        return f"{self.order} " + " -> ".join(steps)
