"""Operands of one instruction, each looked up by its rule (see `operands`).

v_add_f32 %0, %1, thread_x       with variables sum (new) and value (known):
    %0         new      as many registers as the instruction takes, or a constraint says
    %1         known    its registers, or with `Part` some of them
    thread_x   keyword  the register that the processor fills
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regweave.assembly.amd.lines import argument_of, read_operand
from regweave.assembly.amd.operands import Constraint, Decision
from regweave.assembly.amd.registry import CLASSES, VariableRegistry, is_whole
from regweave.assembly.amd.signatures import Bound
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError, nearest_names
from regweave.machines.amd.assembly.table import Slot
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.values import frozen


@frozen
class Part:
    """Some of a variable's registers: `count` from number `first` on."""

    variable: Variable
    first: int
    count: int = 1


@dataclass
class Operands:
    """What an instruction is given: `bound` are the values of %0, %1, ..., `demands` their constraints.

    `ways` are the signatures that it may have, `count` is how many operands are written. `own` collects the
    variables in the order in which the instruction's shape numbers them.
    """

    ways: Sequence[tuple[Slot, ...]]
    count: int
    bound: Sequence[Any]
    demands: Mapping[str, Constraint]
    own: dict[int, Variable]

    def letters(self, number: int) -> str:
        """All that operand `number` may be."""
        return "".join(slots[number].letters for slots in self.ways if len(slots) == self.count)


class OperandLookup(VariableRegistry):
    """Looks operands up, and keeps which rule applied to each."""

    def __init__(self, machine: GcnMachine, whole_machine: GcnMachine, name: str) -> None:
        super().__init__(machine, whole_machine, name)
        self.arguments: dict[str, tuple[str, int]] = {}
        self._decisions: list[Decision] = []

    def _bind(self, given: Operands, number: int, text: str, *, bare: bool) -> tuple[Bound, str]:
        """One operand by its rule, and the text that shows it under its author's names."""
        place = argument_of(text)
        if place is not None:
            if place not in self.arguments:
                raise AssemblyError(
                    f"the kernel has no argument {place!r}", nearest=nearest_names(place, self.arguments)
                )
            text = str(self.arguments[place][1])
        read = read_operand(text, bare=bare)
        rule, variable, target = read.kind, None, read.text
        if rule == "reference" and target.isdecimal():
            value = self._value(given, target)
            if isinstance(value, Part):
                read = replace(read, first=value.first, stop=value.first + value.count)
                value = value.variable
            if isinstance(value, Variable):
                variable, rule = value, self._meet(given, number, value, target)
            elif isinstance(value, str):
                return self._bind(replace(given, bound=(), demands={}), number, value, bare=True)
            else:
                read = read_operand(_number(value), bare=False)
                rule = read.kind
        elif rule == "reference":
            variable, rule = self._named(target)
            if variable is None:
                if "x" in given.letters(number):
                    return Bound(read_operand(f"{text}", bare=False)), text
                variable = self._look_up(target)
        rule = {"special": "register", "off": "word"}.get(rule, rule)
        self._decisions.append(Decision(len(self._forms), text, rule, variable))
        if variable is None:
            return Bound(read), read.text if read.kind in ("number", "word", "off") else text
        if variable.id >= len(self._variables) or self._variables[variable.id] is not variable:
            raise AssemblyError(
                f"{variable!r} is not a variable of this kernel",
                where=self.name,
                fix="make it with the kernel that uses it",
            )
        given.own.setdefault(variable.id, variable)
        index = list(given.own).index(variable.id)
        part = f".{read.first}" if read.stop else ""
        part += f":{read.stop - 1}" if read.stop > read.first + 1 else ""
        words = f"{read.before}{variable.name}{part}{read.after}"
        plain = replace(read, text=str(index))
        return Bound(plain, index, variable.register_class.letter, variable.count), words

    def _value(self, given: Operands, target: str) -> Any:
        """What %`target` is bound to."""
        if int(target) >= len(given.bound):
            raise AssemblyError(
                f"%{target} is bound to nothing", where=self.name, expected=f"{len(given.bound)} operands"
            )
        value = given.bound[int(target)]
        if isinstance(value, Part) and not (is_whole(value.first) and is_whole(value.count)):
            raise AssemblyError(f"{value!r} is no part", expected="whole numbers")
        return value

    def _named(self, name: str) -> tuple[Variable | None, str]:
        """The variable under a name (a keyword's is reserved when it is first met), or None, and the rule."""
        variable = self._names.get(name)
        keyword = self.whole_machine.keyword(name)
        rule = "keyword" if keyword is not None or (variable and variable.pin) else "name"
        if variable is None and keyword is not None:
            variable = self._reserve(Constraint(name, keyword.letter, keyword.count, 1, keyword.register))
        return variable, rule

    def _meet(self, given: Operands, number: int, variable: Variable, target: str) -> str:
        """The rule for a variable bound to %`target`: a new one gets its registers, by its constraint or by
        what the instruction takes there."""
        demand = given.demands.get(target)
        if variable.kind:
            if demand is not None:
                _check_demand(variable, demand)
            return "known"
        if demand is not None:
            self._declare(variable, CLASSES[demand.letter], demand.count, demand.alignment, None)
            return "new"
        for slots in given.ways:
            if len(slots) == given.count:
                letter = next((c for c in slots[number].letters if c in CLASSES), None)
                if letter is not None:
                    self._declare(variable, CLASSES[letter], slots[number].count, 1, None)
                    return "new"
        raise AssemblyError(
            f"the instruction takes no register as operand {number}",
            where=f"{self.name}, {variable.name!r}",
        )


def _check_demand(variable: Variable, demand: Constraint) -> None:
    """AssemblyError if a constraint contradicts a variable that is known."""
    if (demand.letter, demand.count) != (variable.register_class.letter, variable.count):
        raise AssemblyError(
            f"{variable.name!r} is {variable.register_class.letter}{variable.count} and the constraint says "
            f"{demand.letter}{demand.count}",
            fix="leave the constraint out: a known variable has its registers",
        )


def _number(value: Any) -> str:
    """A number as an operand: whole numbers and floats."""
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "__index__"):
        return str(value.__index__())
    raise AssemblyError(
        f"{value!r} cannot be an operand", expected="a variable, a part of one, a name or a number"
    )
