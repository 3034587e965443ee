"""A rearrangement as one JSON document, for programs.

`matrix` and `expressions` describe the exchange even where a cheaper strategy was chosen; they are null
and empty where no exchange of whole registers exists. `code` is null for a plan to refuse. An entry of
the matrix is [p, q, r], or null where the lane sits the round out.
"""

from __future__ import annotations

from typing import Any

from regweave.rearrangement import CoordinationMatrix, Cost, Plan


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as a JSON-ready mapping."""
    group = plan.group
    return {
        "source": plan.source.name,
        "destination": plan.destination.name,
        "machine": plan.machine.name,
        "tile": list(plan.source.shape),
        "group": None if group is None else {
            "lanes": list(group.lanes),
            "registers": list(group.registers),
            "lane_offsets": list(group.lane_offsets),
            "register_offsets": list(group.register_offsets),
        },
        "strategy": plan.strategy,
        "form": plan.form,
        "reason": plan.chosen.reason,
        "rounds": plan.rounds,
        "exchanges": plan.cost.exchanges,
        "selects": plan.cost.selects,
        "byte_permutes": plan.cost.byte_permutes,
        "instructions": plan.cost.instructions,
        "issue_slots": plan.cost.slots(plan.machine.costs),
        "one_hop_minimum": plan.one_hop_minimum,
        "fold": None if plan.fold is None else list(plan.fold),
        "preliminary": _rows(plan.preliminary),
        "matrix": _rows(plan.matrix),
        "expressions": [
            {**{name: str(getattr(entry, name)) for name in "fghs"}, "modulo": entry.width}
            for entry in plan.expressions
        ],
        "candidates": [
            {
                "strategy": candidate.strategy,
                "form": candidate.form,
                "applies": candidate.applies,
                "reason": candidate.reason,
                "cost": _cost(candidate.cost) if candidate.applies else None,
            }
            for candidate in plan.candidates
        ],
        "verified": plan.chosen.applies,
        "code": plan.emit("cuda") if plan.chosen.applies else None,
    }  # fmt: skip


def _rows(matrix: CoordinationMatrix | None) -> list[list[list[int] | None]] | None:
    if matrix is None:
        return None
    return [[None if entry is None else list(entry) for entry in row] for row in matrix.rows]


def _cost(cost: Cost) -> dict[str, int]:
    return {
        "exchanges": cost.exchanges,
        "selects": cost.selects,
        "byte_permutes": cost.byte_permutes,
        "moves": cost.moves,
        "converts": cost.converts,
        "logic": cost.logic,
        "tests": cost.tests,
    }
