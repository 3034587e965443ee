"""Following a tensor forward for as long as what happens to it can be done in registers.

A walk starts behind a product (or at any tensor, for a run of element-wise work) and takes one node after
the other, or one written-out activation at a time. It ends at the next product, or at whatever breaks it: a
second reader, an output of the model, an operator that mixes rows. What broke it is kept, in words.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import onnx

from regweave.graphs.elementwise.cursor import Cursor
from regweave.graphs.elementwise.gates import find_gate
from regweave.graphs.elementwise.steps import RESHAPES, Step, element_step
from regweave.graphs.pieces.pieces import output_dims
from regweave.graphs.pieces.products import Product, Refusal, recognise
from regweave.graphs.reading.model import Model
from regweave.graphs.shapes.dimensions import Shape, show

OLDEST_OPSET = 7


@dataclass(frozen=True, eq=False)
class Walk:
    """The steps taken, where they led, and what ended them: the next product, or a reason."""

    steps: tuple[Step, ...]
    cursor: Cursor
    product: Product | None = None
    reason: str = ""


@dataclass
class Scout:
    """A model under exploration, with each node's answer as a product kept: walks ask again and again."""

    model: Model
    _products: dict[int, Product | Refusal | None] = field(default_factory=dict)

    def product(self, index: int) -> Product | Refusal | None:
        """`recognise` of node `index`."""
        if index not in self._products:
            found = recognise(self.model, self.model.nodes[index])
            if self.model.opset < OLDEST_OPSET and found is not None:
                found = Refusal(
                    f"operator set {self.model.opset} broadcasts otherwise; {OLDEST_OPSET} or later is read"
                )
            self._products[index] = found
        return self._products[index]

    def behind(self, product: Product, taken: AbstractSet[str], first: Product) -> Walk:
        """The walk behind a product, in a piece that starts with the product `first`."""
        origin = self.model.symbols.get(first.input)
        if origin is not None and first.transposed:
            origin = origin[::-1]
        return self.follow(product.cursor(self.model), taken, origin)

    def follow(
        self, cursor: Cursor, taken: AbstractSet[str], origin: Shape | None, *, gates: bool = False
    ) -> Walk:
        """Walk from `cursor` around the nodes `taken`; shapes must follow from `origin`, the input's. With
        `gates` an image may meet one number per channel."""
        steps: list[Step] = []
        while True:
            readers = self.model.readers.get(cursor.tensor, ())
            if cursor.tensor in self.model.outputs:
                return Walk(tuple(steps), cursor, reason=f"'{cursor.tensor}' is an output of the model")
            if not readers:
                return Walk(tuple(steps), cursor, reason="nothing reads its result")
            node = self.model.nodes[readers[0]]
            alone = len(readers) == 1 and list(node.input).count(cursor.tensor) == 1
            product = self.product(readers[0]) if alone else None
            if isinstance(product, Product) and product.input == cursor.tensor:
                reason = (
                    f"{describe(node)} belongs to another chain"
                    if node.name in taken
                    else _seam(product, cursor)
                )
                return Walk(tuple(steps), cursor, product if not reason else None, reason)
            if isinstance(product, Refusal):
                return Walk(tuple(steps), cursor, reason=f"{describe(node)}: {product.reason}")
            found = self.step(cursor, taken, alone, gates)
            if isinstance(found, str):
                return Walk(tuple(steps), cursor, reason=found)
            step, moved = found
            if moved.shape != cursor.shape and (
                origin is None or moved.shape is None or output_dims(origin, moved.shape) is None
            ):
                reason = (
                    f"{describe(node)}: the sizes of {show(moved.shape)} do not follow from {show(origin)}"
                )
                return Walk(tuple(steps), cursor, reason=reason)
            steps.append(step)
            cursor = moved

    def step(
        self, cursor: Cursor, taken: AbstractSet[str], alone: bool, gates: bool = False
    ) -> tuple[Step, Cursor] | str:
        """The next step from `cursor`, or why there is none; `alone` if one node reads the tensor, once."""
        model = self.model
        readers = model.readers[cursor.tensor]
        names = [describe(model.nodes[index]) for index in readers]
        if alone:
            node = model.nodes[readers[0]]
            if node.name in taken:
                return f"{names[0]} belongs to another piece"
            found = element_step(model, node, cursor, gates=gates)
            return f"{names[0]} {found}" if isinstance(found, str) else found
        gate = find_gate(model, cursor.tensor)
        if gate is not None and not (taken & set(gate.nodes)):
            return gate, cursor.at(gate.output)
        if len(readers) == 1:
            found = element_step(model, model.nodes[readers[0]], cursor)
            return f"{names[0]} {found if isinstance(found, str) else 'reads it twice'}"
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"its result '{cursor.tensor}' has {len(names)} readers: {shown}"


def describe(node: onnx.NodeProto) -> str:
    """A node for a person: `Conv 'Conv.5'`."""
    return f"{node.op_type} '{node.name}'"


def _seam(product: Product, cursor: Cursor) -> str:
    """Why a product cannot read its operand from registers at `cursor`; empty if it can."""
    if product.transposed:
        return f"Gemm '{product.node}' reads it transposed"
    placed = cursor.axis == product.axis if product.axis >= 0 else cursor.is_last
    if not placed or cursor.channels != product.k:
        return f"'{product.node}' sums over another axis of {show(cursor.shape)}"
    return ""


def trimmed(model: Model, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps without reshapes at the end: they cost nothing where they are."""
    while steps and not steps[-1].ops and _is_reshape(model, steps[-1]):
        steps = steps[:-1]
    return steps


def _is_reshape(model: Model, step: Step) -> bool:
    return all(model.nodes[model.positions[name]].op_type in RESHAPES for name in step.nodes)
