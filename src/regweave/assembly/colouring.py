"""The choice of registers: variables in some order, each in a register where it interferes with nobody.

Each register keeps the union of what its tenants interfere with, so that "is register r free for v?" is two
ANDs of integers, however many variables there are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

from regweave.assembly.interference import Interference
from regweave.assembly.program import Program
from regweave.assembly.variables import Variable, members

Registers = dict[Variable, tuple[str, ...]]
_ALL: Mapping[str, int] = {}


class Stuck(Exception):  # noqa: N818 - a message between passes, never shown
    """No register is free for `variable`; `reason` if it is not simply that all are taken."""

    def __init__(self, variable: Variable, reason: str = "") -> None:
        self.variable = variable
        self.reason = reason
        super().__init__(reason)


def colour(
    program: Program, interference: Interference, order: Sequence[int], most: Mapping[str, int] = _ALL
) -> Registers:
    """Registers for all variables, taken in `order`, pinned ones first; Stuck where there is none.

    `most` limits how many registers of a class variables without a pin may take.
    """
    variables = program.variables
    rooms = _Rooms(program, interference, most)
    for v in order:
        if variables[v].pin is not None:
            rooms.give_pinned(v)
    for v in order:
        variable = variables[v]
        if variable.pin is None:
            one = variable.count == variable.alignment == 1
            rooms.give(v, (rooms.single(v),) if one else rooms.run(v))
    return {variables[v]: registers for v, registers in rooms.places.items()}


class _Rooms:
    """Who has which registers so far.

    `tenants` are the variables that each register has, `refused` those that it cannot have: live beside a
    tenant, or while something destroys it. `free` are each class's registers without those that are withheld,
    `wishes` the variables with which one would share a register, since one is moved to the other.
    """

    def __init__(self, program: Program, interference: Interference, most: Mapping[str, int]) -> None:
        self.program, self.interference = program, interference
        self.places: dict[int, tuple[str, ...]] = {}
        self.withheld = {program.machine.frame_register} if program.stack_bytes is not None else set()
        classes = program.machine.classes
        self.free = {
            c.name: tuple(r for r in c.registers[: most.get(c.name)] if r not in self.withheld)
            for c in classes
        }
        self.allowed = {name: frozenset(registers) for name, registers in self.free.items()}
        self.tenants = {register: 0 for c in classes for register in c.registers}
        self.refused = {register: interference.blocked.get(register, 0) for register in self.tenants}
        self.wishes: dict[int, list[int]] = {}
        for destination, source in program.copies:
            self.wishes.setdefault(destination.id, []).append(source.id)
            self.wishes.setdefault(source.id, []).append(destination.id)

    def fits(self, v: int, register: str) -> bool:
        """Whether a register is free for a variable."""
        taken = self.interference.beside[v] & self.tenants[register]
        return not (taken or self.refused[register] & self.program.variables[v].bit)

    def give(self, v: int, registers: tuple[str, ...]) -> None:
        """Let a variable have these registers."""
        self.places[v] = registers
        bit, beside = self.program.variables[v].bit, self.interference.beside[v]
        for register in registers:
            self.tenants[register] |= bit
            self.refused[register] |= beside

    def give_pinned(self, v: int) -> None:
        """Let a variable have the registers that it is pinned to; Stuck if somebody else is there."""
        variable = self.program.variables[v]
        for register in variable.pinned:
            if register in self.withheld or not self.fits(v, register):
                raise Stuck(variable, self._pin_reason(variable, register))
        self.give(v, variable.pinned)

    def single(self, v: int) -> str:
        """A free register for a variable, one that it wishes before others."""
        variable = self.program.variables[v]
        registers = self.free[variable.register_class.name]
        for other in self.wishes.get(v, ()):
            place = self.places.get(other, ())
            if len(place) == 1 and place[0] in registers and self.fits(v, place[0]):
                return place[0]
        # `fits`, written out: most of the time goes here
        tenants, refused = self.tenants, self.refused
        beside, bit = self.interference.beside[v], variable.bit
        for register in registers:
            if not (beside & tenants[register] or refused[register] & bit):
                return register
        raise Stuck(variable)

    def run(self, v: int) -> tuple[str, ...]:
        """The first run of consecutive registers, suitably aligned, that is free for a variable; one that it
        wishes before others."""
        variable = self.program.variables[v]
        register_class = variable.register_class
        registers, count = register_class.registers, variable.count
        step = math.lcm(variable.alignment, register_class.alignment if count > 1 else 1)
        wished = (self.places.get(other, ()) for other in self.wishes.get(v, ()))
        starts = [registers.index(run[0]) for run in wished if len(run) == count]
        for start in (
            *(start for start in starts if start % step == 0),
            *range(0, len(registers) - count + 1, step),
        ):
            found = registers[start : start + count]
            if all(r in self.allowed[register_class.name] and self.fits(v, r) for r in found):
                return found
        what = f"{count} consecutive registers" if count > 1 else f"registers aligned to {step}"
        raise Stuck(variable, f"no {what} are free")

    def _pin_reason(self, variable: Variable, pin: str) -> str:
        if pin in self.withheld:
            return f"{pin} holds the frame of a function with a stack"
        beside = self.interference.beside
        rivals = [
            other.name
            for other in self.program.variables
            if self.tenants[pin] & other.bit
            and (beside[variable.id] & other.bit or beside[other.id] & variable.bit)
        ]
        if rivals:
            return f"{', '.join(rivals)} is pinned to {pin} too and live at the same time"
        return f"{pin} is destroyed while it is live there; copy it to another variable first"


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
