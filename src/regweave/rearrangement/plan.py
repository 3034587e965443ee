"""A plan: how data gets from one layout to another, proved, costed, and able to explain itself.

>>> plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="direct")
>>> plan.matrix.rows[0]
(Entry(peer=0, word=0, keep=0), Entry(peer=0, word=2, keep=1), ...)
>>> plan.cost.exchanges, plan.cost.selects
(4, 8)
>>> print(plan.emit("cuda"))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regweave.errors import UnsupportedError
from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.bounds import lower_bound, one_hop_minimum
from regweave.rearrangement.candidates import Candidate
from regweave.rearrangement.conditions import Conditions
from regweave.rearrangement.cost import Cost
from regweave.rearrangement.group import Group
from regweave.rearrangement.moving import moved
from regweave.rearrangement.offers import Offers
from regweave.rearrangement.operand_loads import OperandLoad
from regweave.rearrangement.proof import prove_candidate
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.schedule.matrix import CoordinationMatrix, preliminary_matrix
from regweave.rearrangement.schedule.rounds import RoundExpressions, round_expressions
from regweave.rearrangement.shared.contract import memory_comments

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from numpy.typing import NDArray


# what the compilers of a family of machines read
_LANGUAGES = {"nvidia": "cuda", "amd": "hip", "x86": "x86"}


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The chosen candidate among `candidates`, which are those of `offers`, with all that led to it.

    `asked` is the strategy or form that was asked for, None for the cheapest.
    """

    relation: Relation
    machine: WarpMachine
    conditions: Conditions
    chosen: Candidate
    offers: Offers
    asked: str | None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates, written now unless they were before."""
        return self.offers.candidates

    @property
    def group(self) -> Group | None:
        """The group of whole registers that are exchanged; None where no exchange exists."""
        problem = self.offers.problem
        return None if isinstance(problem, str) else problem.group

    @cached_property
    def preliminary(self) -> CoordinationMatrix | None:
        """The matrix in which every lane fills its registers in order; None where words are no registers."""
        problem = self.offers.problem
        if isinstance(problem, str) or problem.words is None:
            return None
        return preliminary_matrix(problem.words, problem.group)

    @property
    def matrix(self) -> CoordinationMatrix | None:
        """H of the exchange, also where a cheaper strategy makes it unnecessary; None without one."""
        return self.offers.shown(self.chosen).matrix

    @cached_property
    def expressions(self) -> tuple[RoundExpressions, ...]:
        """f, g, h and s of every round of `matrix`, each proved equal to its table."""
        if self.matrix is None or self.group is None:
            return ()
        return round_expressions(self.matrix, self.group, self.machine)

    @property
    def language(self) -> str:
        """What the machine's compilers read: cuda, hip, x86, or opencl for other machines."""
        return _LANGUAGES.get(self.machine.family, "opencl")

    @property
    def source(self) -> Layout:
        """Where the data is."""
        return self.relation.source

    @property
    def destination(self) -> Layout:
        """Where it is needed."""
        return self.relation.destination

    @property
    def strategy(self) -> str:
        """identity, fold, exchange or refuse."""
        return self.chosen.strategy

    @property
    def form(self) -> str | None:
        """direct or lean for an exchange, None otherwise."""
        return self.chosen.form

    @property
    def cost(self) -> Cost:
        """Instructions of the chosen strategy; nothing if it refuses."""
        return self.chosen.cost

    @property
    def rounds(self) -> int:
        """Rounds in which each copy of the group exchanges words; 0 for a strategy that exchanges nothing.

        An exchange in steps has no matrix: each of its exchanges counts.
        """
        return self.chosen.matrix.rounds if self.chosen.matrix is not None else self.cost.exchanges

    @cached_property
    def lower_bound(self) -> int:
        """Exchanges that no sequence of them can undercut, relays and broadcasts permitted."""
        return lower_bound(self.relation)

    @cached_property
    def one_hop_minimum(self) -> int:
        """Exchanges that none without relays can undercut; bytes that stay in their lane do not count."""
        return one_hop_minimum(self.relation)

    @property
    def fold(self) -> tuple[int, ...] | None:
        """The true k at each position of the next operand if the strategy permutes it; None otherwise."""
        fold = self.chosen.fold
        if fold is None or fold.k_order == tuple(range(len(fold.permutation))):
            return None
        return fold.k_order

    @property
    def producer_order(self) -> tuple[int, ...] | None:
        """The true index that the product before must compute at each index, if not in order; else None."""
        return None if self.chosen.fold is None else self.chosen.fold.producer_order

    @property
    def next_load(self) -> OperandLoad | None:
        """How the next product's other operand is loaded; None where that was not asked for."""
        if self.chosen.load is not None or self.offers.other is None:
            return self.chosen.load
        return self.offers.other.true

    def verify(self) -> Plan:
        """Prove the plan once more, on every slot; VerificationError naming the first slot that is wrong.

        A plan to refuse has nothing to prove.
        """
        prove_candidate(self.chosen, self.relation)
        return self

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """What the destination's slots hold, `[lanes, items]`, when the source's hold `array`.

        The program of the plan is run. Values of any type are moved as they are; where elements change their
        type on the way they are rounded as the program does it, and come back as f16, 8-bit integers, or
        f32 for types that NumPy lacks. Raises InputError for another shape, UnsupportedError if the plan
        is to refuse.
        """
        if self.chosen.program is None:
            raise UnsupportedError(f"nothing is moved: {self.chosen.reason}", where="strategy refuse")
        return moved(self.chosen.program, self.relation, array)

    def explain(self) -> str:
        """All strategies with their costs, which one won and why, and why the others lost."""
        from regweave.views.rearrangement_text import explanation_text

        return explanation_text(self)

    def draw(self) -> str:
        """Fragments, group, matrices, expressions, strategy and code, drawn as text."""
        from regweave.views.rearrangement_text import plan_text

        return plan_text(self)

    def emit(self, target: str | None = None) -> str:
        """The code of the plan: one inline device function, by default in the machine's own language.

        Raises InputError for an unknown target and UnsupportedError if the plan is to refuse.
        """
        from regweave.emitters import check_target, emit

        language = self.language if target is None else check_target(target)
        if self.chosen.program is None:
            raise UnsupportedError(f"there is no code: {self.chosen.reason}", where="strategy refuse")
        return emit(self.chosen.program, language, self._comments())

    def to_document(self, target: str | None = None) -> dict[str, Any]:
        """The plan as a JSON-ready mapping, with its code for `target` (by default the machine's own)."""
        from regweave.views.rearrangement_document import plan_document

        return plan_document(self, target)

    def export(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write a self-contained header, self-tests and a fold's permutation of weights; the files' paths.

        Raises UnsupportedError if the plan is to refuse, InputError if the folder cannot be written to.
        """
        from regweave.interop import export_plan

        return export_plan(self, folder)

    def to_svg(self) -> str:
        """Both tiles coloured by lane, the coordination matrix and the strategy, as one `<svg>` element."""
        from regweave.views.rearrangement_svg import plan_svg

        return plan_svg(self)

    def _repr_svg_(self) -> str | None:
        try:
            return self.to_svg()
        except UnsupportedError:  # too large to draw: a notebook then shows the text
            return None

    def __repr__(self) -> str:
        ends = f"{self.source.name} -> {self.destination.name}"
        return f"<Plan {ends} on {self.machine.name}: {self.chosen.name}, {self.cost}>"

    def __str__(self) -> str:
        return self.draw()

    def _comments(self) -> tuple[str, ...]:
        """What the generated function's reader must know."""
        source, destination = self.source, self.destination
        lines = [
            f"{source.name} -> {destination.name}: {self.chosen.name}, {self.cost}",
            f"source[i]: the {source.dtype} registers of a lane in the layout {source.name}.",
            f"destination[i]: the {destination.dtype} registers of the same lane for {destination.name}.",
        ]
        if self.relation.packing is not None:
            lines.append(
                f"Elements are rounded to {destination.dtype}, the even items of a lane in the low halves."
            )
        if self.fold is not None:
            lines.append(
                "Row p of the next operand's tile must hold true k = " + ", ".join(map(str, self.fold)) + "."
            )
        if self.producer_order is not None:
            order = ", ".join(map(str, self.producer_order))
            lines.append(
                f"The product before must compute, at each k of this tile in turn, true k = {order}."
            )
        if self.language == "x86":
            lines.append(
                "Both are in memory: rdi points to the source's registers, rsi to the destination's."
            )
        elif self.cost.exchanges:
            lines.append(f"All {self.machine.lanes} lanes of the warp must call it together.")
        lines += memory_comments(self.chosen.program)
        return tuple(lines)
