"""Register assignment: every variable gets its registers once, before anything runs.

Variables are taken by first appearance, which needs no more registers than are live at once in straight-line
code. If that gets stuck (pinned registers, tuples, values that live around loops), they are taken again,
hardest first. If that gets stuck too, variables that were reused for unrelated values are split, so that each
value can have a register of its own, and both orders are tried once more. Only then registers have run out.
"""

from __future__ import annotations

from regweave.assembly.colouring import Registers, Stuck, colour, hardest_first, interfere
from regweave.assembly.failures import register_error
from regweave.assembly.flow import Flow, solve
from regweave.assembly.program import Program
from regweave.assembly.splitting import split


def allocate(program: Program, flow: Flow) -> tuple[Program, Flow, Registers]:
    """Registers for every variable that occurs, with the program that they are for (its variables may be
    split).

    RegisterError, with what is live where it is tightest, if there are too few.
    """
    try:
        return program, flow, _attempt(program, flow)
    except Stuck as stuck:
        finer = split(program, flow)
        if finer is not None:
            again = solve(finer)
            try:
                return finer, again, _attempt(finer, again)
            except Stuck:
                pass
        raise register_error(program, flow, stuck) from None


def _attempt(program: Program, flow: Flow) -> Registers:
    interference = interfere(program, flow)
    try:
        return colour(program, interference, interference.order)
    except Stuck as stuck:
        if stuck.variable.pin is not None:
            raise
        return colour(program, interference, hardest_first(program, interference))
