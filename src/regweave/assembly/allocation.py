"""Register assignment: every variable gets its registers once, before anything runs.

Two variables interfere if one is written while the other is live. Interference is kept one-sided (for each
variable, what was live where it was written) and each register keeps the union over its tenants, so that "is
register r free for v?" is two ANDs of integers, however many variables there are. Variables are taken in the
order of first appearance, which needs no more registers than are live at once in straight-line code. Should
that fail (pinned registers, tuples, values that live around loops), they are taken again, hardest first,
before anything is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from regweave.assembly.flow import Flow
from regweave.assembly.program import Program
from regweave.assembly.variables import Variable


@dataclass(frozen=True)
class Interference:
    """`beside[v]`: variables live where v is written; `blocked[register]`: variables live where it is
    destroyed; `order`: the variables that occur, by first appearance."""

    beside: Sequence[int]
    blocked: dict[str, int]
    order: Sequence[int]


def interfere(program: Program, flow: Flow) -> Interference:
    """What each variable must not share a register with."""
    count = len(program.variables)
    beside = [0] * count
    for v, others in program.extra.items():
        beside[v] |= others
    first = [-1] * count
    blocked: dict[str, int] = {}
    uses, defines, forms = program.uses, program.defines, program.forms
    for block in reversed(flow.blocks):
        live = block.live_out
        last = block.stop - 1
        clobbers = forms[last].clobbers
        if clobbers:
            kept = live & ~defines[last]
            if forms[last].lines > 1:
                kept |= uses[last] | defines[last]
            for register in clobbers:
                blocked[register] = blocked.get(register, 0) | kept
        for i in range(last, block.start - 1, -1):
            used = uses[i]
            born = defines[i]
            if born:
                born ^= born & used
                rest = born
                while rest:
                    v = rest.bit_length() - 1
                    beside[v] |= live
                    first[v] = i
                    rest ^= 1 << v
                live ^= live & born
            live |= used
    entry = flow.live_at_entry
    for variable in program.arguments:
        beside[variable.id] |= entry
        first[variable.id] = 0
    order = sorted((v for v in range(count) if first[v] >= 0), key=first.__getitem__)
    return Interference(beside, blocked, order)


class Stuck(Exception):  # noqa: N818 - a message between passes, never shown
    """No register is free for `variable`; `tenants` hold the registers that it could have."""

    def __init__(self, variable: Variable, reason: str) -> None:
        self.variable = variable
        self.reason = reason
        super().__init__(reason)


def assign(
    program: Program, interference: Interference, withheld: Iterable[str] = ()
) -> dict[Variable, tuple[str, ...]]:
    """Registers for every variable that occurs; Stuck if there are too few. `withheld` registers are given to
    nobody."""
    withheld = frozenset(withheld)
    try:
        return _colour(program, interference, interference.order, withheld)
    except Stuck as stuck:
        if stuck.variable.pin is not None:
            raise
        return _colour(program, interference, _hardest_first(program, interference), withheld)


def _colour(
    program: Program, interference: Interference, order: Sequence[int], withheld: frozenset[str]
) -> dict[Variable, tuple[str, ...]]:
    variables, beside = program.variables, interference.beside
    tenants: dict[str, int] = {}
    refused: dict[str, int] = {}
    for register_class in program.machine.classes:
        for register in register_class.registers:
            tenants[register] = 0
            refused[register] = interference.blocked.get(register, 0)
    wishes: dict[int, list[int]] = {}
    for destination, source in program.copies:
        wishes.setdefault(destination.id, []).append(source.id)
        wishes.setdefault(source.id, []).append(destination.id)
    places: dict[int, tuple[str, ...]] = {}
    free_lists = {c.name: tuple(r for r in c.registers if r not in withheld) for c in program.machine.classes}

    def give(v: int, registers: tuple[str, ...]) -> None:
        places[v] = registers
        bit, others = variables[v].bit, beside[v]
        for register in registers:
            tenants[register] |= bit
            refused[register] |= others

    def fits(v: int, register: str) -> bool:
        return not (beside[v] & tenants[register] or refused[register] & variables[v].bit)

    later = []
    for v in order:
        pin = variables[v].pin
        if pin is None:
            later.append(v)
            continue
        if not fits(v, pin) or pin in withheld:
            raise Stuck(variables[v], _pin_reason(program, interference, v, tenants[pin], pin in withheld))
        give(v, (pin,))
    for v in later:
        variable = variables[v]
        registers = free_lists[variable.register_class.name]
        if variable.count > 1:
            give(v, _run(variable, frozenset(registers), fits))
            continue
        chosen = None
        if v in wishes:
            for other in wishes[v]:
                place = places.get(other)
                if place and len(place) == 1 and place[0] in registers and fits(v, place[0]):
                    chosen = place[0]
                    break
        if chosen is None:
            others, bit = beside[v], variable.bit
            for register in registers:
                if not (others & tenants[register] or refused[register] & bit):
                    chosen = register
                    break
            else:
                raise Stuck(variable, "")
        places[v] = (chosen,)
        tenants[chosen] |= variable.bit
        refused[chosen] |= beside[v]
    return {variables[v]: registers for v, registers in places.items()}


def _run(variable: Variable, allowed: frozenset[str], fits: Callable[[int, str], bool]) -> tuple[str, ...]:
    """The first run of consecutive registers, suitably aligned, that is free for a tuple."""
    register_class = variable.register_class
    registers = register_class.registers
    step = max(variable.alignment, register_class.alignment)
    for start in range(0, len(registers) - variable.count + 1, step):
        run = tuple(registers[start : start + variable.count])
        if all(register in allowed and fits(variable.id, register) for register in run):
            return run
    raise Stuck(variable, f"no {variable.count} consecutive registers are free")


def _pin_reason(program: Program, interference: Interference, v: int, tenants: int, withheld: bool) -> str:
    pin = program.variables[v].pin
    if withheld:
        return f"{pin} is the frame register of a function with a stack"
    rivals = [
        other.name
        for other in program.variables
        if tenants & other.bit
        and (interference.beside[v] & other.bit or interference.beside[other.id] & program.variables[v].bit)
    ]
    if rivals:
        return f"{', '.join(rivals)}, pinned to {pin} too, is live at the same time"
    return f"{pin} is destroyed while it is live"


def _hardest_first(program: Program, interference: Interference) -> list[int]:
    """Chaitin's order: whoever has few neighbours is set aside and coloured last, tuples counting their
    size."""
    variables = program.variables
    present = 0
    for v in interference.order:
        present |= variables[v].bit
    neighbours = {v: interference.beside[v] & present & ~variables[v].bit for v in interference.order}
    for v in interference.order:
        rest = neighbours[v]
        while rest:
            u = rest.bit_length() - 1
            rest ^= 1 << u
            neighbours[u] |= variables[v].bit
    same: dict[str, int] = {}
    for v in interference.order:
        name = variables[v].register_class.name
        same[name] = same.get(name, 0) | variables[v].bit
    remaining = set(interference.order)
    left = present
    stack: list[int] = []
    while remaining:

        def weight(v: int) -> tuple[int, int]:
            name = variables[v].register_class.name
            return (variables[v].count, (neighbours[v] & left & same[name]).bit_count())  # noqa: B023

        easiest = min(remaining, key=weight)
        remaining.discard(easiest)
        left ^= variables[easiest].bit
        stack.append(easiest)
    return stack[::-1]
