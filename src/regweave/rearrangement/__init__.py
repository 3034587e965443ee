"""From one layout to another inside a warp: relation, group, coordination matrix, strategy, proof.

A `request` has a `relation`, of `words` or `parts` of words, and a `group`. `offers` lists what could carry
it out: `folding`, `swap`, the `exchange` in rounds (a matrix by `schedule`, its `expressions`, `networks` of
selects), in `steps` or by `picks`, and `shared` memory. The `planner` takes the cheapest by `cost`, the
`proof` runs it on every slot, and the `plan` explains itself. `chains` does it for products that follow one
another.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.rearrangement.chains import ChainLayouts, ChainProduct, ChainSeam, chain_layouts
    from regweave.rearrangement.conditions import Conditions
    from regweave.rearrangement.cost import Cost
    from regweave.rearrangement.group import Group
    from regweave.rearrangement.next_operand import NextOperand
    from regweave.rearrangement.plan import Plan
    from regweave.rearrangement.planner import STRATEGIES, rearrange
    from regweave.rearrangement.relation import Relation, relate
    from regweave.rearrangement.request import layout
    from regweave.rearrangement.schedule.matrix import CoordinationMatrix, Entry
    from regweave.rearrangement.schedule.rounds import RoundExpressions
    from regweave.rearrangement.seams import SeamStrategy, seam_strategy

__all__ = [
    "STRATEGIES",
    "ChainLayouts",
    "ChainProduct",
    "ChainSeam",
    "Conditions",
    "CoordinationMatrix",
    "Cost",
    "Entry",
    "Group",
    "NextOperand",
    "Plan",
    "Relation",
    "RoundExpressions",
    "SeamStrategy",
    "chain_layouts",
    "layout",
    "rearrange",
    "relate",
    "seam_strategy",
]

__getattr__ = lazy_names(
    __name__,
    chains=("ChainLayouts", "ChainProduct", "ChainSeam", "chain_layouts"),
    conditions=("Conditions",),
    cost=("Cost",),
    group=("Group",),
    next_operand=("NextOperand",),
    plan=("Plan",),
    planner=("STRATEGIES", "rearrange"),
    relation=("Relation", "relate"),
    request=("layout",),
    seams=("SeamStrategy", "seam_strategy"),
    **{
        "schedule.matrix": ("CoordinationMatrix", "Entry"),
        "schedule.rounds": ("RoundExpressions",),
    },
)
