"""Register assignment: every variable gets its registers once, before anything runs.

Variables are taken by first appearance, which needs no more registers than are live at once in straight-line
code. If that gets stuck (pinned registers, tuples, values that live around loops), they are taken again,
hardest first. If that gets stuck too, variables that were reused for unrelated values are split, so that each
value can have a register of its own, and both orders are tried once more. At last those that got stuck go
first (see `searching`). Only then registers have run out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from regweave.assembly.colouring import Registers, Stuck, colour, hardest_first
from regweave.assembly.failures import register_error
from regweave.assembly.flow import Flow, solve
from regweave.assembly.interference import interfere
from regweave.assembly.maps import measure_pressure
from regweave.assembly.program import Program
from regweave.assembly.searching import search
from regweave.assembly.splitting import split


def allocate(program: Program, flow: Flow) -> tuple[Program, Flow, Registers]:
    """Registers for every variable that occurs, with the program that they are for (its variables may be
    split).

    RegisterError, with what is live where it is tightest, if there are too few.
    """
    interference = interfere(program, flow)
    try:
        return program, flow, colour(program, interference, interference.order)
    except Stuck as stuck:
        pressure = measure_pressure(program, flow)
        if all(most <= pressure.limit[name] for name, most in pressure.most.items()):
            with suppress(Stuck):
                return program, flow, colour(program, interference, hardest_first(program, interference))
            finer = split(program, flow)
            if finer is not None:
                again = solve(finer)
                finer_interference = interfere(finer, again)
                for order in (finer_interference.order, hardest_first(finer, finer_interference)):
                    with suppress(Stuck):
                        return finer, again, colour(finer, finer_interference, order)
                program, flow, interference = finer, again, finer_interference
            for order in (interference.order, _largest_first(program, interference.order)):
                registers = search(program, interference, order, {}, patient=True)
                if registers is not None:
                    return program, flow, registers
        raise register_error(program, flow, stuck, pressure) from None


def _largest_first(program: Program, order: Sequence[int]) -> list[int]:
    return sorted(order, key=lambda v: -program.variables[v].count)
