"""Index expressions: small integer functions of the lane's number, as values.

    >>> f = Binary("or", Binary("and", Binary("shift_right", LANE, Constant(1)), Constant(1)),
    ...            Binary("shift_left", LANE, Constant(1)))
    >>> str(f), (evaluate(f, 4) % 4).tolist()
    ('((lane >> 1) & 1) | (lane << 1)', [0, 2, 1, 3])

They use the opcodes of lane-level programs, so that what they mean and what they cost is said in one place. A
choice between two values by bits of a third stands for a test and a select:

    >>> str(Select(LANE, 4, Constant(0x7632), Constant(0x5410)))
    'lane & 4 ? 0x00007632 : 0x00005410'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from regweave.machines.gpu import StepCosts
from regweave.programs import OPCODES, ProgramBuilder, Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")


def _kept(node: Binary | Select, name: str, make: Callable[[], T]) -> T:
    """What `make` says, asked once: functools.cached_property would take a lock each time."""
    known = node.__dict__.get(name)
    if known is None:
        known = node.__dict__[name] = make()
    return known


@dataclass(frozen=True)
class Lane:
    """The number of the lane itself."""

    def __str__(self) -> str:
        return "lane"


@dataclass(frozen=True)
class Constant:
    """A 32-bit constant."""

    value: int

    def __str__(self) -> str:
        return str(self.value) if self.value < 256 else f"{self.value:#010x}"


@dataclass(frozen=True)
class Binary:
    """An operation of two expressions, named by its opcode."""

    opcode: str
    left: Expression
    right: Expression

    # expressions are looked up often, and later ones are built on earlier ones
    def __str__(self) -> str:
        return _kept(self, "text", self._text)

    def __hash__(self) -> int:
        return _kept(self, "hash", self._hash)

    def _text(self) -> str:
        if self.opcode == "rotate_right":
            return f"rotate_right({self.left}, {self.right})"
        left, right = (f"({side})" if _infix(side) else str(side) for side in (self.left, self.right))
        return f"{left} {_SIGNS[self.opcode]} {right}"

    def _hash(self) -> int:
        return hash((self.opcode, self.left, self.right))


@dataclass(frozen=True)
class Select:
    """`when_true` where `condition & mask` is not zero, `when_false` elsewhere."""

    condition: Expression
    mask: int
    when_true: Expression
    when_false: Expression

    def __str__(self) -> str:
        return _kept(self, "text", self._text)

    def __hash__(self) -> int:
        return _kept(self, "hash", self._hash)

    def _text(self) -> str:
        sides = (f"({side})" if _infix(side) else str(side) for side in (self.when_true, self.when_false))
        condition = f"({self.condition})" if _infix(self.condition) else str(self.condition)
        return f"{condition} & {self.mask} ? " + " : ".join(sides)

    def _hash(self) -> int:
        return hash((self.condition, self.mask, self.when_true, self.when_false))


Expression: TypeAlias = Lane | Constant | Binary | Select
LANE = Lane()

# C's signs
_SIGNS = {
    "or": "|",
    "xor": "^",
    "and": "&",
    "shift_left": "<<",
    "shift_right": ">>",
    "add": "+",
    "subtract": "-",
}
_BITWISE = ("and", "or", "xor")


def _infix(expression: Expression) -> bool:
    return isinstance(expression, Select) or (isinstance(expression, Binary) and expression.opcode in _SIGNS)


@lru_cache(maxsize=65536)
def evaluate(expression: Expression, lanes: int) -> NDArray[np.uint32]:
    """The value of `expression` in each of `lanes` lanes, to be read only."""
    found = _values(expression, lanes)
    found.setflags(write=False)
    return found


def _values(expression: Expression, lanes: int) -> NDArray[Any]:
    if isinstance(expression, Lane):
        return np.arange(lanes, dtype=np.uint32)
    if isinstance(expression, Constant):
        return np.full(lanes, expression.value, dtype=np.uint32)
    if isinstance(expression, Select):
        chosen = (evaluate(expression.condition, lanes) & np.uint32(expression.mask)) != 0
        return np.where(chosen, evaluate(expression.when_true, lanes), evaluate(expression.when_false, lanes))
    meaning = OPCODES[expression.opcode].meaning
    assert meaning is not None
    return meaning((evaluate(expression.left, lanes), evaluate(expression.right, lanes)), ())


def lower_expression(expression: Expression, builder: ProgramBuilder, lane: Value | None = None) -> Value:
    """Write `expression` into a program; parts that are there already are used again.

    `lane` stands for the lane's number, where that is another one: a thread's in its block.
    """
    if isinstance(expression, Lane):
        return builder.step("lane") if lane is None else lane
    if isinstance(expression, Constant):
        return builder.constant(expression.value)
    if isinstance(expression, Select):
        tested = lower_expression(expression.condition, builder, lane)
        test = builder.step("test", (tested,), (expression.mask,))
        sides = [
            lower_expression(side, builder, lane) for side in (expression.when_true, expression.when_false)
        ]
        return builder.step("select", (test, *sides))
    operands = [lower_expression(side, builder, lane) for side in (expression.left, expression.right)]
    return builder.step(expression.opcode, operands)


def expression_cost(expression: Expression, costs: StepCosts, known: Iterable[Expression] = ()) -> int:
    """Issue slots of `expression`, the expressions in `known` and their parts being free.

    Two bit operations in a row, one of them with a constant, are one three-input instruction; the constant
    of a table look-up needs a register of its own, and so does one of two constants that are chosen between.
    """
    return cost_beside(expression, costs, _parts(tuple(known)))


def cost_beside(expression: Expression, costs: StepCosts, free: Set[object]) -> int:
    """The same, where `free` are the parts that `add_parts` has collected."""
    seen = set[object]()

    def visit(node: Expression, fused: bool = False) -> int:
        if isinstance(node, Lane | Constant) or node in free or node in seen:
            return 0
        seen.add(node)
        if isinstance(node, Select):
            cost = costs.select + costs.move * (_is_table(node.when_true) and _is_table(node.when_false))
            if (node.condition, node.mask) not in free and (node.condition, node.mask) not in seen:
                seen.add((node.condition, node.mask))
                cost += costs.test
            return cost + sum(visit(side) for side in (node.condition, node.when_true, node.when_false))
        cost = 0 if fused else getattr(costs, OPCODES[node.opcode].resource)
        if node.opcode == "rotate_right" and isinstance(node.left, Constant):
            cost += costs.move
        partner = None if fused else _partner(node)
        return cost + sum(visit(side, side is partner) for side in (node.left, node.right))

    return visit(expression)


def _is_table(expression: Expression) -> bool:
    return isinstance(expression, Constant) and expression.value != 0


@lru_cache(maxsize=1024)
def _parts(known: tuple[Expression, ...]) -> frozenset[object]:
    seen: set[object] = set()
    for entry in known:
        add_parts(entry, seen)
    return frozenset(seen)


def add_parts(expression: Expression, seen: set[object]) -> None:
    """Collect the parts of an expression that need not be computed again."""
    if expression in seen or isinstance(expression, Lane | Constant):
        return
    seen.add(expression)
    if isinstance(expression, Select):
        seen.add((expression.condition, expression.mask))
        parts = expression.condition, expression.when_true, expression.when_false
    else:
        parts = expression.left, expression.right
    for part in parts:
        add_parts(part, seen)


def _partner(node: Binary) -> Binary | None:
    """The operand that a three-input bit operation would take in together with `node`."""
    if node.opcode not in _BITWISE:
        return None
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, Binary) and side.opcode in _BITWISE:
            constants = sum(isinstance(part, Constant) for part in (side.left, side.right, other))
            if constants == 1:
                return side
    return None
