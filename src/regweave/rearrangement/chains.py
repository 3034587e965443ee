"""The layouts along a chain of products on one machine, and what happens at each seam.

    >>> [seam.strategy for seam in chain_layouts(["f16", "f16", "tf32"], "sm_80").seams]
    ['identity', 'fold']
    >>> [seam.strategy for seam in chain_layouts(["f16", "f16", "f16"], "gfx942").seams]
    ['swap', 'swap']
    >>> [product.transposed for product in chain_layouts(["f16", "f16"], "gfx942").products]
    [True, False]

A product may also be computed *transposed*: D^T = W^T X^T, with the weights as the first operand and the
result before it as the second. Its accumulators then hold the transposed tile, and the next product takes
them as its B if it is computed transposed too. So every seam is one of four rearrangements:

    from \\ to     normal            transposed
    normal        C   -> A          C^T -> B
    transposed    C^T -> A          C   -> B

and the cheapest way through the chain is found step by step: the least cost of all seams so far, for each
orientation of the product at hand. Transposing costs nothing itself, for weights can be laid out either
way; where it is no gain, products stay as they are. A seam whose registers can stay as they are because of
it is called *swap*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from regweave.errors import InputError, RegweaveError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_instruction, find_machine, machine_names
from regweave.machines.gpu import MatrixInstruction, WarpMachine
from regweave.rearrangement.conditions import Conditions, check_conditions
from regweave.rearrangement.plan import Plan
from regweave.rearrangement.planner import rearrange
from regweave.rearrangement.products import product_instruction

SWAP = "swap"
_ORIENTATIONS = (False, True)


@dataclass(frozen=True)
class ChainProduct:
    """One product: its instruction, and whether the transposed product is computed.

    `previous` is the layout in which it takes the result before it, `weights` that of its other factor,
    `result` that of its accumulators, all of one instruction's tile.
    """

    instruction: MatrixInstruction
    transposed: bool

    @property
    def previous(self) -> Layout:
        """Operand A, or B of a transposed product."""
        return self.instruction.fragments["B" if self.transposed else "A"]

    @property
    def weights(self) -> Layout | None:
        """Operand B, or A of a transposed product; None where it is not in registers."""
        return self.instruction.fragments.get("A" if self.transposed else "B")

    @property
    def result(self) -> Layout:
        """The accumulators, of the transposed tile for a transposed product."""
        return self.instruction.fragments["D"]


@dataclass(frozen=True)
class ChainSeam:
    """One seam: the plan, and the name of its strategy in the chain with the reason."""

    plan: Plan
    strategy: str
    reason: str


@dataclass(frozen=True, repr=False)
class ChainLayouts:
    """The products of a chain with their layouts, and the seams between them (one fewer)."""

    machine: WarpMachine
    products: tuple[ChainProduct, ...]
    seams: tuple[ChainSeam, ...]

    def explain(self) -> str:
        """The chain from top to bottom: products with their operands, seams with strategy and cost."""
        from regweave.views.chain_text import chain_text

        return chain_text(self)

    def to_document(self) -> dict[str, Any]:
        """The chain as a JSON-ready mapping."""
        from regweave.views.chain_text import chain_document

        return chain_document(self)

    def _repr_html_(self) -> str:
        """Products and seams with the plans drawn, for a notebook."""
        from regweave.views.chain_text import chain_html

        return chain_html(self)

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        products = ", ".join(product.instruction.name for product in self.products)
        seams = ", ".join(seam.strategy for seam in self.seams)
        return f"<ChainLayouts on {self.machine.name}: {products}; seams {seams}>"


class _Price(NamedTuple):
    """What a way costs, compared from left to right; instructions and slots are per 1024 elements."""

    refused: int
    instructions: float
    slots: float
    transposed: int

    def plus(self, plan: Plan, transposed: bool) -> _Price:
        share = 1024 / plan.destination.elements
        return _Price(
            self.refused + (not plan.chosen.applies),
            self.instructions + plan.cost.instructions * share,
            self.slots + plan.cost.slots(plan.machine.costs) * share,
            self.transposed + transposed,
        )


@dataclass(frozen=True)
class _Way:
    price: _Price
    transposed: tuple[bool, ...]
    plans: tuple[Plan, ...]


def chain_layouts(
    products: Sequence[str],
    machine: str | WarpMachine | None = None,
    *,
    strategy: str = "auto",
    conditions: Conditions | None = None,
) -> ChainLayouts:
    """Lay a chain of products out on a machine and say what happens at each seam.

    `products` names them in order: matrix instructions (`mma.m16n8k16.f16`), or element types, for which
    the machine's largest instruction is taken. Without `machine` it is the first that executes all
    instructions. `strategy` is taken at every seam: `auto` for the cheapest chain, products transposed
    where that helps; `swap` for transposed products whose registers stay as they are; or a strategy of
    `rearrange`, nothing transposed. `conditions` describe all seams, by default with element-wise work
    between the products.

    Raises InputError for fewer than two products and unknown names, UnsupportedError if the machine does
    not execute an instruction or the strategy does not apply at a seam.
    """
    if isinstance(products, str) or not isinstance(products, Sequence) or len(products) < 2:
        raise InputError(
            f"a chain of {products!r} has no seam", where="products", expected="at least two products"
        )
    target = _target(products, machine)
    instructions = [_instruction(name, target) for name in products]
    # transposed products are decided on here, for the chain as a whole
    given = Conditions(work_between=True) if conditions is None else check_conditions(conditions)
    around = replace(given, swap_allowed=False)
    choice = _Choice(target, strategy, around)
    start = _Price(0, 0.0, 0.0, 0)
    ways = [_Way(start._replace(transposed=int(turned)), (turned,), ()) for turned in _ORIENTATIONS]
    for before, after in pairwise(instructions):
        ways = choice.next_ways(ways, before, after)
    best = min(ways, key=lambda way: way.price)
    return ChainLayouts(
        target,
        tuple(ChainProduct(*pair) for pair in zip(instructions, best.transposed, strict=True)),
        tuple(_seam(*pair) for pair in zip(best.plans, pairwise(best.transposed), strict=True)),
    )


class _Choice:
    """The plans of one call, each made once."""

    def __init__(self, machine: WarpMachine, strategy: str, conditions: Conditions) -> None:
        self.machine, self.strategy, self.conditions = machine, strategy, conditions
        self._plans: dict[tuple[str, str, bool, bool], Plan | RegweaveError] = {}

    def next_ways(self, ways: list[_Way], before: MatrixInstruction, after: MatrixInstruction) -> list[_Way]:
        """The best way to each orientation of the product `after`."""
        found: list[_Way] = []
        faults: list[RegweaveError] = []
        for turned in _ORIENTATIONS:
            reached: list[_Way] = []
            for way in ways:
                plan = self.plan(before, after, way.transposed[-1], turned)
                if isinstance(plan, RegweaveError):
                    faults.append(plan)
                    continue
                price = way.price.plus(plan, turned)
                reached.append(_Way(price, (*way.transposed, turned), (*way.plans, plan)))
            if reached:
                found.append(min(reached, key=lambda way: way.price))
        if not found:
            raise faults[0]
        return found

    def plan(
        self, before: MatrixInstruction, after: MatrixInstruction, turned: bool, turning: bool
    ) -> Plan | RegweaveError:
        """The plan between two orientations, or the error that there is none."""
        key = before.name, after.name, turned, turning
        if key not in self._plans:
            try:
                self._plans[key] = self._made(before, after, turned, turning)
            except RegweaveError as error:
                self._plans[key] = error
        return self._plans[key]

    def _made(self, before: MatrixInstruction, after: MatrixInstruction, turned: bool, turning: bool) -> Plan:
        swapped = turned or turning
        if swapped and self.strategy not in ("auto", SWAP):
            raise UnsupportedError("nothing is transposed where a strategy is asked for", where="strategy")
        if not swapped and self.strategy == SWAP:
            raise UnsupportedError(
                "strategy 'swap' does not apply: no transposed product makes the layouts agree",
                where="strategy",
                fix="ask for another strategy, or for auto",
            )
        operand = "B" if turning else "A"
        if operand not in after.fragments:
            raise UnsupportedError(
                f"operand {operand} of {after.name} is not in registers",
                where=f"{before.name} -> {after.name}",
            )
        source = f"{before.name}:D" + ("^T" if turned != turning else "")
        wanted = "identity" if self.strategy == SWAP else self.strategy
        return rearrange(source, f"{after.name}:{operand}", self.machine, wanted, conditions=self.conditions)


def _seam(plan: Plan, turned: tuple[bool, bool]) -> ChainSeam:
    before, after = turned
    reason = plan.chosen.reason
    if not (before or after):
        return ChainSeam(plan, plan.strategy, reason)
    words = {
        (False, True): "the next product is computed transposed",
        (True, True): "both products are computed transposed",
        (True, False): "the product before is computed transposed",
    }[turned]
    strategy = SWAP if plan.strategy == "identity" else plan.strategy
    return ChainSeam(plan, strategy, f"{words}: {reason}")


def _target(products: Sequence[str], machine: str | WarpMachine | None) -> WarpMachine:
    if machine is not None:
        target = find_machine(machine) if isinstance(machine, str) else machine
        if not isinstance(target, WarpMachine):
            raise InputError(f"{getattr(target, 'name', target)!r} is no machine with warps", where="machine")
        return target
    faults: list[RegweaveError] = []
    for name in ("sm_80", *machine_names()):
        target = find_machine(name)
        try:
            for product in products:
                _instruction(product, target)
        except RegweaveError as error:
            faults.append(error)
        else:
            return target
    raise faults[0]


def _instruction(name: str, machine: WarpMachine) -> MatrixInstruction:
    """The instruction of a name or a type; it has to be the machine's own."""
    if not isinstance(name, str):
        raise InputError(f"{name!r} is no product", where="products", expected="an instruction or a type")
    if name.isalnum():
        return product_instruction(name, machine, several_warps=True)
    return machine.require_native(find_instruction(name, machine).name)
