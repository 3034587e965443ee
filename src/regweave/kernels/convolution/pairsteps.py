"""The steps of a vector of two rows of results (see paired), and an order in which they take turns.

    load      an image row, as a group of kernel columns reads it
    sum       what a product takes of two image rows
    product   one for each kernel column, onto B or C of the column's step
    share     B + C and B - C, with which both rows begin; products of A and D go straight to them
    slide     a row, moved on by a lane for the next step

A vector of 5 x 5 takes 35 products, 24 sums, 4 slides and 12 loads. As listed they take 43 cycles: a
processor looks ahead by some sixty operations, and finds nothing but products there, then nothing but sums.
In the order of `ordered`, which is when each could begin, they take 38. Few image rows are in registers at a
time, so that more weights are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from regweave.kernels.convolution.rowpairs import B, C, D, column_groups, pairs
from regweave.values import frozen

#: Of each kind of step: what does it, cycles until that is free again, cycles until its result is there.
_TIMES = {
    "load": ("load", 1.4, 14),
    "add": ("sum", 1.0, 4),
    "subtract": ("sum", 1.0, 4),
    "begin": ("product", 1.0, 5),
    "multiply": ("product", 1.0, 5),
    "slide": ("slide", 1.0, 4),
    "copy": ("none", 0.1, 0),
}
#: Groups of columns up to which terms wait for their sums.
_FEW_GROUPS = 2
#: Weights that an order must leave registers for: read from memory they take longer than its turns spare.
_FEW_WEIGHTS = 4
#: Registers that are kept from vector to vector beside those of the slides, and one for what is done last.
_KEPT = 3


@frozen
class Step:
    """`result` of `sources`. `number`: of a load the image row, of a product its weight; `group`: of a load
    which group of columns reads. "begin" and "multiply" are products, the first of a sum and all others."""

    kind: str
    result: str
    sources: tuple[str, ...] = ()
    number: int = 0
    group: int = 0


#: The rows of results. What a slide takes of the vector before is `before1_0` of step 1, row 0.
RESULTS = ("row0_0", "row0_1")
#: The sum that begins with the bias.
BIASED = "B0"


@cache
def vector_steps(rows: int, columns: int) -> tuple[Step, ...]:
    """The steps of a kernel of so many rows and columns, in an order in which they could be done."""
    return tuple(_Steps(rows, columns).found)


class _Steps:
    """Collects the steps, group of columns by group."""

    def __init__(self, rows: int, columns: int) -> None:
        self.pairs, self.groups = pairs(rows), column_groups(columns)
        self.found: list[Step] = []
        self.names: set[str] = set()
        #: Terms of A and D whose columns' steps are not complete yet: (group, term, column, step).
        self.waiting: list[tuple[int, int, int, int]] = []
        step = len(self.groups[0])
        for number, group in enumerate(self.groups):
            end = max((len(later) for later in self.groups[number + 1 :]), default=0)
            self._products(number, group)
            for done in range(step - 1, end - 1, -1):
                self._complete(done, first=done == len(self.groups[0]) - 1)
            step = end

    def _add(self, kind: str, result: str, *sources: str, number: int = 0, group: int = 0) -> None:
        self.names.add(result)
        self.found.append(Step(kind, result, sources, number, group))

    def _products(self, number: int, group: range) -> None:
        """Products of B and C of a group. Those of A and D wait for the sums of both, or, where three groups
        would keep too many terms waiting, go to sums of their own."""
        if len(self.groups) > _FEW_GROUPS:  # where steps stay as listed, it is best to load all rows first
            for row in range(self.pairs.image_rows):
                self._image(number, row)
            for at in range(self.pairs.products):
                self._term(number, at)
        for at, term in enumerate(self.pairs.terms):
            for column in group:
                if term.sum in (B, C) or len(self.groups) > _FEW_GROUPS:
                    self._product(f"{'ABCD'[term.sum]}{group[-1] - column}", number, at, column)
                else:
                    self.waiting.append((number, at, column, group[-1] - column))

    def _product(self, total: str, number: int, at: int, column: int) -> None:
        kind = "multiply" if total in self.names else "begin"
        self._add(kind, total, self._term(number, at), number=1 + column * self.pairs.products + at)

    def _term(self, number: int, at: int) -> str:
        """What a group's products of that term take, made if need be."""
        first, sign, second = self.pairs.terms[at].rows
        image, name = self._image(number, first), f"term{number}_{at}"
        if sign and name not in self.names:
            self._add("add" if sign > 0 else "subtract", name, image, self._image(number, second))
        return name if sign else image

    def _image(self, number: int, row: int) -> str:
        name = f"image{number}_{row}"
        if name not in self.names:
            self._add("load", name, number=row, group=number)
        return name

    def _complete(self, step: int, *, first: bool) -> None:
        """Both rows of a step: B + C and B - C, the products of A and D, the step before."""
        both = [f"row{step}_{row}" for row in range(2)]
        if f"C{step}" in self.names:
            for kind, row in zip(("add", "subtract"), both, strict=True):
                self._add(kind, row, f"B{step}", f"C{step}")
        else:
            for row in both:
                self._add("copy", row, f"B{step}")
        for number, at, column, of in self.waiting:
            if of == step:
                self._product(both[self.pairs.terms[at].sum == D], number, at, column)
        self.waiting = [term for term in self.waiting if term[-1] != step]
        for row, total in enumerate(both):
            if f"{'AD'[row]}{step}" in self.names:
                self._add("add", total, total, f"{'AD'[row]}{step}")
            if not first:
                self._add("add", total, total, f"moved{step + 1}_{row}")
            if step:
                self._add("slide", f"moved{step}_{row}", total, f"before{step}_{row}")
                self._add("copy", f"before{step}_{row}", total)


@cache
def ordered(rows: int, columns: int, registers: int) -> tuple[tuple[Step, ...], int]:
    """The steps in their order for a machine of so many vector registers, and how many of these they need for
    what is under way: as listed, where an order in which they take turns would leave few for weights."""
    steps, free = vector_steps(rows, columns), registers - kept_registers(columns)
    for room in range(1, free - _FEW_WEIGHTS + 1):
        order = _Order(steps, room)
        while order.take():
            pass
        if len(order.taken) == len(steps):
            return tuple(steps[at] for at in order.taken), room
    return steps, _registers(steps)


def _registers(steps: Sequence[Step]) -> int:
    """Registers that the steps need for what is under way, one after the other as they are."""
    last = {name: at for at, step in enumerate(steps) for name in _fleeting(step)}
    live: set[str] = set()
    most = 0
    for at, step in enumerate(steps):
        live |= _fleeting(step)
        live -= {name for name in live if last[name] <= at}
        most = max(most, len(live))
    return most


class _Order:
    """Steps taken one by one: the one that can begin first; of several the one that most depends on."""

    def __init__(self, steps: Sequence[Step], room: int) -> None:
        self.steps, self.room = steps, room
        self.needs = _needs(steps)
        self.urgency = [0.0] * len(steps)
        for at in range(len(steps) - 1, -1, -1):
            for earlier, whole in self.needs[at].items():
                wait = _TIMES[steps[earlier].kind][2] if whole else 0
                self.urgency[earlier] = max(self.urgency[earlier], self.urgency[at] + wait)
        self.users: dict[str, set[int]] = {}
        for at, step in enumerate(steps):
            for name in _fleeting(step):
                self.users.setdefault(name, set()).add(at)
        self.taken: list[int] = []
        self.begins: dict[int, float] = {}
        self.free: dict[str, float] = {}
        self.live: set[str] = set()

    def take(self) -> bool:
        """Take one step; False if there is no room for any."""
        ready = [at for at in range(len(self.steps)) if at not in self.begins and self._fits(at)]
        if not ready:
            return False
        now = self.begins[self.taken[-1]] if self.taken else 0.0
        at = min(ready, key=lambda at: (max(now, self._time(at)), -self.urgency[at], at))
        unit, cycles, _ = _TIMES[self.steps[at].kind]
        self.begins[at] = self._time(at)
        self.free[unit] = self.begins[at] + cycles
        self.taken.append(at)
        self.live |= _fleeting(self.steps[at])
        self.live -= {name for name in self.live if self.users[name] <= self.begins.keys()}
        return True

    def _time(self, at: int) -> float:
        """When a step can begin."""
        time = self.free.get(_TIMES[self.steps[at].kind][0], 0.0)
        for earlier, whole in self.needs[at].items():
            wait = _TIMES[self.steps[earlier].kind][2] if whole else 0
            time = max(time, self.begins[earlier] + wait)
        return time

    def _fits(self, at: int) -> bool:
        """Whether what the step needs is there, and a register for what it makes."""
        if any(earlier not in self.begins for earlier in self.needs[at]):
            return False
        names, done = _fleeting(self.steps[at]), {*self.begins, at}
        dying = sum(self.users[name] <= done for name in names)
        new = len(names - self.live)
        return len(self.live) + max(0, new - dying) <= self.room


def _fleeting(step: Step) -> set[str]:
    """Names of a step that are not kept from vector to vector."""
    return {name for name in (step.result, *step.sources) if not name.startswith("before")}


def _needs(steps: Sequence[Step]) -> list[dict[int, bool]]:
    """Of each step those that come before it, and whether their results are waited for: else it only writes
    to what they have read."""
    written: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    needs: list[dict[int, bool]] = []
    for at, step in enumerate(steps):
        read = [*step.sources, *[step.result] * (step.kind == "multiply")]
        found = dict.fromkeys(readers.get(step.result, ()), False)
        found |= {written[name]: True for name in read if name in written}
        needs.append(found)
        written[step.result] = at
        readers[step.result] = []
        for name in read:
            readers.setdefault(name, []).append(at)
        found.pop(at, None)
    return needs


def kept_registers(columns: int) -> int:
    """Registers that stay from vector to vector: both rows of all slides, bias, what is not finite; one."""
    return 2 * (len(column_groups(columns)[0]) - 1) + _KEPT


@cache
def held_products(rows: int, columns: int, registers: int) -> tuple[int, ...]:
    """Numbers of the products, column by column, whose weights find vector registers; the others are read."""
    total = columns * pairs(rows).products
    held = min(total, registers - kept_registers(columns) - ordered(rows, columns, registers)[1])
    return tuple(total * number // held for number in range(held))


def sums_under_way(rows: int, columns: int, registers: int) -> int:
    """Of these registers those that sums and terms take, but for image rows."""
    return min(ordered(rows, columns, registers)[1], 4 * len(column_groups(columns)[0]))
