"""A run of element-wise work with no product in it: what lies between two chains can run natively too.

    ElementwiseRun((MulScalar(0.5), TensorAdd()), (None, 0))          y = 0.5 * x + extra

`axis` says where the channel of the Channel operators is: "last" (x [..., N]) or "first" (x [batch, N, P],
the pixels of an image). Without Channel operators the tensor is flat and `channels` is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from regweave.errors import InputError, unknown_name
from regweave.operators.elementwise import Elementwise
from regweave.operators.operands import Operand, all_of, check_operands, extra_count, resolved, structure
from regweave.values import frozen

Axis = Literal["last", "first"]
AXES = ("last", "first")


@frozen
class RunSignature:
    """The structure of a run without its data: equal signatures can share one kernel."""

    ops: tuple[Elementwise, ...]
    extras: tuple[int | None, ...]
    axis: Axis
    channels: int | None

    @property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return extra_count((self.extras,))


@frozen(eq=False)
class ElementwiseRun:
    """One or more element-wise operators on a whole tensor. Errors: InputError."""

    ops: tuple[Elementwise, ...]
    operands: tuple[Operand, ...] = ()
    axis: Axis = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops", all_of(Elementwise, self.ops, "ElementwiseRun.ops", "(Relu(),)"))
        if not self.ops:
            raise InputError("a run has no operators", where="ElementwiseRun.ops", expected="at least one")
        if self.axis not in AXES:
            raise unknown_name("axis", self.axis, AXES, where="ElementwiseRun.axis")
        where = "ElementwiseRun.operands"
        object.__setattr__(self, "operands", check_operands(self.ops, self.operands, None, where))
        sizes = {operand.size for operand in self.operands if isinstance(operand, np.ndarray)}
        if len(sizes) > 1:
            raise InputError(f"channel vectors of {sorted(sizes)} floats", where=where, expected="one length")

    @property
    def channels(self) -> int | None:
        """The length of the channel axis, or None where no operator looks at it."""
        return next((operand.size for operand in self.operands if isinstance(operand, np.ndarray)), None)

    @property
    def signature(self) -> RunSignature:
        """The structure without the data, hashable."""
        return RunSignature(self.ops, structure(self.operands), self.axis, self.channels)

    @property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return self.signature.extra_inputs

    def reference(self, x: np.ndarray, extras: Sequence[np.ndarray] = ()) -> np.ndarray:
        """The result in float64, of x's shape; extras have that shape too."""
        y = np.asarray(x, np.float64)
        for op, operand in zip(self.ops, self.operands, strict=True):
            y = op.reference(y, resolved(operand, extras, self.axis == "first"))
        return y
