"""Registers for a kernel's variables: the fewest, since a wave's neighbours get what it leaves.

What counts is the highest number in use. Variables are taken in several orders (as they appear; hardest
first; largest tuples first; longest lives first), which is cheap, until one order does with the lower bound:
the peak of live registers. If none does, variables that were reused for unrelated values are split and tried
again, and then those that got stuck go first (see `searching`); the best of all is taken. The order of trying
is fixed, so a kernel gets the same registers every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from regweave.assembly.amd.kernel_program import KernelProgram, Touch
from regweave.assembly.amd.moves import wished_pairs
from regweave.assembly.colouring import Registers, Stuck, colour, hardest_first
from regweave.assembly.failures import register_error
from regweave.assembly.flow import Flow, solve
from regweave.assembly.interference import Interference, interfere
from regweave.assembly.maps import Pressure, live_sets, measure_pressure
from regweave.assembly.program import Program
from regweave.assembly.searching import search
from regweave.assembly.splitting import split
from regweave.assembly.variables import members
from regweave.errors import RegisterError
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.values import frozen

_CLASSES = ("vector", "accumulation", "scalar")
#: From how many orders a search for fewer registers starts.
_SEARCHED = 2


@frozen(eq=False)
class Assignment:
    """Chosen registers, the (perhaps split) program that they are for, and what was the least possible."""

    program: KernelProgram
    flow: Flow
    registers: Registers
    used: Mapping[str, int]
    bound: Mapping[str, int]

    @property
    def least(self) -> bool:
        """Whether no assignment can do with fewer."""
        return all(self.used[name] <= self.bound[name] for name in _CLASSES)


def assign(program: KernelProgram, flow: Flow, machine: GcnMachine) -> Assignment:
    """Registers for all variables. RegisterError, with what is live where it is tightest, if they run out."""
    pressure = measure_pressure(program, flow)
    bound = lower_bound(program, pressure)
    best: Assignment | None = None
    failure: Stuck | None = None
    tried = []
    for candidate, candidate_flow in _candidates(program, flow):
        interference = interfere(candidate, candidate_flow)
        tried.append((candidate, candidate_flow, interference))
        for order in _orders(candidate, candidate_flow, interference):
            try:
                registers = colour(candidate, interference, order)
            except Stuck as stuck:
                failure = failure or stuck
                continue
            found = Assignment(candidate, candidate_flow, registers, count_used(registers), bound)
            if best is None or _weight(found, machine) < _weight(best, machine):
                best = found
            if found.least:
                return found
    if all(least <= program.machine.register_class(name).count for name, least in bound.items() if least):
        for candidate, candidate_flow, interference in tried:
            best = _fewer(candidate, candidate_flow, interference, best, bound, machine)
    if best is None:
        assert failure is not None, "no order was tried"
        raise _explained(register_error(program, flow, failure, pressure), program, flow, failure)
    return best


def _weight(assignment: Assignment, machine: GcnMachine) -> tuple[int, int]:
    used = assignment.used
    file = machine.registers_in_file(used["vector"], used["accumulation"])
    return max(file, used["vector"] + used["accumulation"]), used["scalar"]


def _fewer(
    program: KernelProgram,
    flow: Flow,
    interference: Interference,
    best: Assignment | None,
    bound: Mapping[str, int],
    machine: GcnMachine,
) -> Assignment | None:
    """What a search finds that is better than `best`: first any at all, then one with as few registers as the
    bound says, or with half of what is above it."""
    if best is None:
        for order in _orders(program, flow, interference):
            registers = search(program, interference, order, {}, patient=True)
            if registers is not None:
                best = Assignment(program, flow, registers, count_used(registers), bound)
                break
        else:
            return None
    for part in (0, 2):
        most = {name: least + part * (best.used[name] - least) // 4 for name, least in bound.items()}
        if all(best.used[name] <= most[name] for name in _CLASSES):
            break
        for order in islice(_orders(program, flow, interference), _SEARCHED):
            registers = search(program, interference, order, most)
            if registers is not None:
                found = Assignment(program, flow, registers, count_used(registers), bound)
                return min(found, best, key=lambda one: _weight(one, machine))
    return best


def count_used(registers: Registers) -> dict[str, int]:
    """The highest register in use plus one, per class."""
    used: dict[str, int] = dict.fromkeys(_CLASSES, 0)
    for variable, run in registers.items():
        name = variable.register_class.name
        if name in used:
            used[name] = max(used[name], variable.register_class.registers.index(run[-1]) + 1)
    return used


def lower_bound(program: KernelProgram, pressure: Pressure) -> dict[str, int]:
    """Registers that no assignment can do without: the peak of what is live, or the highest pin."""
    bound = {name: pressure.most.get(name, 0) for name in _CLASSES}
    for variable in program.variables:
        name = variable.register_class.name
        if variable.pinned and name in bound:
            last = variable.register_class.registers.index(variable.pinned[-1])
            bound[name] = max(bound[name], last + 1)
    return bound


def _candidates(program: KernelProgram, flow: Flow) -> Iterator[tuple[KernelProgram, Flow]]:
    """The program, where moves wish for one register, then without wishes, then split."""
    pairs = wished_pairs(program)
    if pairs:
        yield replace(program, copies=pairs), flow
    yield program, flow
    finer = split(program, flow)
    if finer is not None:
        assert isinstance(finer, KernelProgram), "splitting keeps the kind of program"
        finer = replace(finer, touches=_touches_on(program, finer))
        yield replace(finer, copies=wished_pairs(finer)), solve(finer)


def _touches_on(program: KernelProgram, finer: Program) -> list[list[Touch]]:
    """The touches of a program on the variables that it was split into.

    Those that stand in an operation are at the same place among its operands; the others are registers that
    were named outright, which are never split.
    """
    pinned = {(variable.name, variable.pin): variable.id for variable in finer.variables}
    found = []
    for i, touches in enumerate(program.touches):
        numbers = {old.id: new.id for old, new in zip(program.operands[i], finer.operands[i], strict=True)}
        row = []
        for touch in touches:
            old = program.variables[touch.variable]
            number = numbers.get(old.id, pinned.get((old.name, old.pin)))
            assert number is not None, "splitting keeps every variable that an operation touches"
            row.append(replace(touch, variable=number))
        found.append(row)
    return found


def _orders(program: Program, flow: Flow, interference: Interference) -> Iterator[Sequence[int]]:
    variables, appearance = program.variables, interference.order
    yield appearance
    with suppress(Stuck):
        yield hardest_first(program, interference)
    place = {v: at for at, v in enumerate(appearance)}
    yield sorted(appearance, key=lambda v: (-variables[v].count, place[v]))
    length: dict[int, int] = dict.fromkeys(appearance, 0)
    for before, after in live_sets(program, flow):
        for v in members(before | after):
            length[v] = length.get(v, 0) + 1
    yield sorted(appearance, key=lambda v: (-length[v], place[v]))
    yield sorted(appearance, key=lambda v: (-variables[v].count * length[v], place[v]))


def _explained(error: RegisterError, program: KernelProgram, flow: Flow, stuck: Stuck) -> RegisterError:
    """The error with what would free most: variables that live through the peak untouched for the longest."""
    name = stuck.variable.register_class.name
    profile = measure_pressure(program, flow).profile[name]
    peak = max(range(len(profile)), key=profile.__getitem__)
    before, after = live_sets(program, flow)[peak]
    idle = []
    for v in members(before | after):
        variable = program.variables[v]
        if variable.register_class.name == name and not variable.pin:
            touched = [i for i, used in enumerate(program.uses) if (used | program.defines[i]) & variable.bit]
            start = max((i for i in touched if i <= peak), default=0)
            stop = min((i for i in touched if i > peak), default=start)
            idle.append(((stop - start) * variable.count, start, stop, variable))
    idle.sort(key=lambda entry: (-entry[0], entry[1]))
    frees = [
        f"{v.name!r} ({v.count} registers, untouched from {start} to {stop})"
        for rest, start, stop, v in idle[:3]
        if rest > v.count
    ]
    fix = f"to free most: reload or recompute {' or '.join(frees)}" if frees else error.fix
    return RegisterError(error.what, where=error.where, expected=error.expected, fix=fix)
