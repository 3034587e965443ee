"""Who may not share a register with whom, and the choice of registers.

Two variables interfere if one is written while the other is live. Interference is kept one-sided (for each
variable, what was live where it was written) and each register keeps the union over its tenants, so that "is
register r free for v?" is two ANDs of integers, however many variables there are.
"""

from __future__ import annotations

import functools
import heapq
import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence

from regweave.assembly.flow import Flow
from regweave.assembly.program import Program
from regweave.assembly.variables import Variable, members
from regweave.values import frozen

Registers = dict[Variable, tuple[str, ...]]
_ALL: Mapping[str, int] = {}


@frozen
class Interference:
    """`beside[v]`: variables live where v is written, and those it must avoid for another reason.

    `blocked[register]`: variables live where that register is destroyed; `order`: the variables that occur,
    by first appearance."""

    beside: Sequence[int]
    blocked: dict[str, int]
    order: Sequence[int]


class Stuck(Exception):  # noqa: N818 - a message between passes, never shown
    """No register is free for `variable`; `reason` if it is not simply that all are taken."""

    def __init__(self, variable: Variable, reason: str = "") -> None:
        self.variable = variable
        self.reason = reason
        super().__init__(reason)


def interfere(program: Program, flow: Flow) -> Interference:
    """Interference of a solved program, in one backward walk over its operations."""
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
                # What is read too was live before: its rivals met it where either of them began.
                born ^= born & used
                rest = born
                while rest:
                    v = rest.bit_length() - 1
                    beside[v] |= live | born
                    first[v] = i
                    rest ^= 1 << v
                live ^= live & born
            live |= used
    # What only unreachable code reads has a register too, for that code is printed.
    rest = functools.reduce(operator.or_, uses, 0)
    while rest:
        v = rest.bit_length() - 1
        rest ^= 1 << v
        if first[v] < 0:
            first[v] = len(forms)
    entry = flow.live_at_entry
    for variable in program.arguments:
        beside[variable.id] |= entry
        first[variable.id] = 0
    order = sorted((v for v in range(count) if first[v] >= 0), key=first.__getitem__)
    return Interference(beside, blocked, order)


def colour(
    program: Program, interference: Interference, order: Sequence[int], most: Mapping[str, int] = _ALL
) -> Registers:
    """Registers for all variables, taken in `order`, pinned ones first; Stuck where there is none.

    `most` limits how many registers of a class variables without a pin may take.
    """
    variables, beside, blocked = program.variables, interference.beside, interference.blocked
    withheld = {program.machine.frame_register} if program.stack_bytes is not None else set()
    tenants: dict[str, int] = {}
    refused: dict[str, int] = {}
    free: dict[str, tuple[str, ...]] = {}
    for register_class in program.machine.classes:
        allowed = register_class.registers[: most.get(register_class.name)]
        free[register_class.name] = tuple(r for r in allowed if r not in withheld)
        for register in register_class.registers:
            tenants[register] = 0
            refused[register] = blocked.get(register, 0)
    rooms = {name: frozenset(registers) for name, registers in free.items()}
    wishes: dict[int, list[int]] = {}
    for destination, source in program.copies:
        wishes.setdefault(destination.id, []).append(source.id)
        wishes.setdefault(source.id, []).append(destination.id)
    places: dict[int, tuple[str, ...]] = {}

    def fits(v: int, register: str) -> bool:
        return not (beside[v] & tenants[register] or refused[register] & variables[v].bit)

    def give(v: int, registers: tuple[str, ...]) -> None:
        places[v] = registers
        for register in registers:
            tenants[register] |= variables[v].bit
            refused[register] |= beside[v]

    for v in order:
        for register in variables[v].pinned:
            if register in withheld or not fits(v, register):
                raise Stuck(variables[v], _pin_reason(program, interference, v, register, tenants, withheld))
        if variables[v].pinned:
            give(v, variables[v].pinned)
    for v in order:
        variable = variables[v]
        if variable.pin is not None:
            continue
        registers = free[variable.register_class.name]
        if variable.count > 1 or variable.alignment > 1:
            wished = [places[other] for other in wishes.get(v, ()) if other in places]
            give(v, _run(variable, rooms[variable.register_class.name], fits, wished))
            continue
        chosen = None
        for other in wishes.get(v, ()):
            place = places.get(other, ())
            if len(place) == 1 and place[0] in registers and fits(v, place[0]):
                chosen = place[0]
                break
        if chosen is None:
            others, bit = beside[v], variable.bit
            for register in registers:
                if not (others & tenants[register] or refused[register] & bit):
                    chosen = register
                    break
            else:
                raise Stuck(variable)
        places[v] = (chosen,)
        tenants[chosen] |= variable.bit
        refused[chosen] |= beside[v]
    return {variables[v]: registers for v, registers in places.items()}


def hardest_first(program: Program, interference: Interference) -> list[int]:
    """Chaitin's order: again and again whoever has the fewest neighbours left is set aside, to be coloured
    last.

    Tuples count as many as their registers, and are set aside late, as they are hard to place.
    """
    variables = program.variables
    classes: dict[str, int] = {}
    for v in interference.order:
        name = variables[v].register_class.name
        classes[name] = classes.get(name, 0) | variables[v].bit
    neighbours = {
        v: interference.beside[v] & classes[variables[v].register_class.name] & ~variables[v].bit
        for v in interference.order
    }
    for v in interference.order:
        for u in members(neighbours[v]):
            neighbours[u] |= variables[v].bit
    degree = {v: sum(variables[u].count for u in members(rivals)) for v, rivals in neighbours.items()}
    heap = [(variables[v].count, d, v) for v, d in degree.items()]
    heapq.heapify(heap)
    set_aside: list[int] = []
    done = 0
    while heap:
        _, d, v = heapq.heappop(heap)
        if done & variables[v].bit or d != degree[v]:
            continue
        done |= variables[v].bit
        set_aside.append(v)
        for u in members(neighbours[v] & ~done):
            degree[u] -= variables[v].count
            heapq.heappush(heap, (variables[u].count, degree[u], u))
    return set_aside[::-1]


def _run(
    variable: Variable,
    allowed: Collection[str],
    fits: Callable[[int, str], bool],
    wished: Sequence[tuple[str, ...]],
) -> tuple[str, ...]:
    """The first run of consecutive registers, suitably aligned, that is free for a variable; one that is
    `wished` before others."""
    register_class = variable.register_class
    registers = register_class.registers
    step = math.lcm(variable.alignment, register_class.alignment if variable.count > 1 else 1)
    starts = [registers.index(run[0]) for run in wished if len(run) == variable.count]
    for start in (
        *(start for start in starts if start % step == 0),
        *range(0, len(registers) - variable.count + 1, step),
    ):
        run = registers[start : start + variable.count]
        if all(register in allowed and fits(variable.id, register) for register in run):
            return run
    what = f"{variable.count} consecutive registers" if variable.count > 1 else f"registers aligned to {step}"
    raise Stuck(variable, f"no {what} are free")


def _pin_reason(
    program: Program,
    interference: Interference,
    v: int,
    pin: str,
    tenants: dict[str, int],
    withheld: set[str],
) -> str:
    variable = program.variables[v]
    if pin in withheld:
        return f"{pin} holds the frame of a function with a stack"
    rivals = [
        other.name
        for other in program.variables
        if tenants[pin] & other.bit
        and (interference.beside[v] & other.bit or interference.beside[other.id] & variable.bit)
    ]
    if rivals:
        return f"{', '.join(rivals)} is pinned to {pin} too and live at the same time"
    return f"{pin} is destroyed while it is live there; copy it to another variable first"
