"""A rearrangement as one JSON document, for programs.

`matrix` and `expressions` describe the exchange even where a cheaper strategy was chosen; they are null and
empty where no exchange of whole registers exists, and so is `group`. An entry of the matrix is [p, q, r],
or null where the lane sits the round out; p counts within a segment of `moduli[round]` lanes. `code` is
null for a plan to refuse, and where its language has no words for it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from regweave.emitters import check_target
from regweave.errors import UnsupportedError
from regweave.rearrangement import CoordinationMatrix, Cost, Plan
from regweave.rearrangement.shared.banks import bank_conflicts


def plan_document(plan: Plan, target: str | None = None) -> dict[str, Any]:
    """The plan as a JSON-ready mapping, with its code for `target`, by default the machine's own language.

    InputError for an unknown target.
    """
    group = plan.group
    return {
        "source": plan.source.name,
        "destination": plan.destination.name,
        "machine": plan.machine.name,
        "group": None if group is None else {"lanes": list(group.lanes), "registers": list(group.registers)},
        "strategy": plan.strategy,
        "rounds": plan.rounds,
        "exchanges": plan.cost.exchanges,
        "selects": plan.cost.selects,
        "byte_permutes": plan.cost.byte_permutes,
        "lower_bound": plan.lower_bound,
        "one_hop_minimum": plan.one_hop_minimum,
        "fold": None if plan.fold is None else list(plan.fold),
        "matrix": _rows(plan.matrix),
        "expressions": [{name: str(getattr(entry, name)) for name in "fghs"} for entry in plan.expressions],
        "bank_conflicts": plan_conflicts(plan),
        "verified": plan.chosen.applies,
        "code": plan_code(plan, target),
        "language": target or plan.language,
        "tile": list(plan.source.shape),
        "form": plan.form,
        "producer_order": None if plan.producer_order is None else list(plan.producer_order),
        "reason": plan.chosen.reason,
        "instructions": plan.cost.instructions,
        "issue_slots": plan.cost.slots(plan.machine.costs),
        "cost": _cost(plan.cost),
        "next_load": _next_load(plan),
        "lane_offsets": None if group is None else list(group.lane_offsets),
        "register_offsets": None if group is None else list(group.register_offsets),
        "moduli": [entry.width for entry in plan.expressions],
        "preliminary": _rows(plan.preliminary),
        "candidates": [
            {
                "strategy": candidate.strategy,
                "form": candidate.form,
                "applies": candidate.applies,
                "reason": candidate.reason,
                "instructions": candidate.cost.instructions if candidate.applies else None,
                "cost": _cost(candidate.cost) if candidate.applies else None,
            }
            for candidate in plan.candidates
        ],
    }


def _next_load(plan: Plan) -> dict[str, Any] | None:
    load, usual = plan.next_load, plan.offers.other
    if load is None or usual is None:
        return None
    return {
        "place": usual.next.place,
        "along": usual.next.along,
        "order": list(load.order),
        "result_order": None if load.result_order is None else list(load.result_order),
        "loads": {str(size): count for size, count in load.widths.items()},
        "instructions": load.instructions,
        "in_true_order": usual.true.instructions,
    }


def plan_conflicts(plan: Plan) -> int:
    """Bank conflicts of the chosen program in shared memory; 0 for one that uses none."""
    program = plan.chosen.program
    return 0 if program is None or not program.memories else bank_conflicts(program, plan.machine)


def plan_code(plan: Plan, target: str | None = None) -> str | None:
    """The plan's code; None if it refuses, or if its own language has no words for it."""
    if target is not None:
        check_target(target)
    if not plan.chosen.applies:
        return None
    try:
        return plan.emit(target)
    except UnsupportedError:
        if target is not None:
            raise
        return None


def _rows(matrix: CoordinationMatrix | None) -> list[list[list[int] | None]] | None:
    if matrix is None:
        return None
    return [[None if entry is None else list(entry) for entry in row] for row in matrix.rows]


def _cost(cost: Cost) -> dict[str, int]:
    return asdict(cost)
