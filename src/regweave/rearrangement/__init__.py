"""From one layout to another inside a warp: relation, group, coordination matrix, strategy, proof."""

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
