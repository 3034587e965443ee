"""Recording an instruction: every operand looked up by its rule, and the shape worked out or found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regweave.assembly.amd.indexing import Indexing
from regweave.assembly.amd.kernel_program import Touch
from regweave.assembly.amd.lines import Line, argument_of, is_reserved, read_operand
from regweave.assembly.amd.operands import Constraint, Decision
from regweave.assembly.amd.shapes import Bound, Shape, make_shape
from regweave.assembly.reading import check_label
from regweave.assembly.recorder import Recorder
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError, nearest_names
from regweave.machines.amd.assembly.table import SPECIAL, GcnInstruction, Slot, encoding_of
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.values import frozen

_MOST_SHAPES = 10_000
#: Of the number in s_nop the processor reads four bits.
_LONGEST_NOP = 15
_SHAPES: dict[str, dict[Any, Shape]] = {}
Ways = Sequence[tuple[Slot, ...]]
_CLASS = {"v": "vector", "s": "scalar", "a": "accumulation"}


@frozen
class Part:
    """Some of a variable's registers: `count` from number `first` on."""

    variable: Variable
    first: int
    count: int = 1


class InstructionRecorder(Recorder):
    """Collects instructions; `machine` may have fewer registers than `whole_machine`, to fit more waves."""

    machine: GcnMachine

    def __init__(self, machine: GcnMachine, whole_machine: GcnMachine, name: str) -> None:
        super().__init__(machine, name)
        self.whole_machine = whole_machine
        self.arguments: dict[str, tuple[str, int]] = {}
        self._shapes: list[Shape] = []
        self._touches: list[Sequence[Touch]] = []
        self._lines: list[str] = []
        self._decisions: list[Decision] = []
        self._homes: dict[str, tuple[Variable, int]] = {}
        self._indexing = Indexing(name)
        self._known = _SHAPES.setdefault(whole_machine.name, {})

    def _declare(
        self, variable: Variable, class_name: str, count: int, align: int, pin: str | None
    ) -> Variable:
        if not (isinstance(variable.name, str) and variable.name):
            raise AssemblyError(f"{variable.name!r} cannot be a variable's name", where=self.name)
        if not (is_whole(count) and is_whole(align) and isinstance(pin, str | None)):
            raise AssemblyError(
                f"{variable.name!r} of {count!r} registers, aligned to {align!r}, pinned to {pin!r}",
                where=self.name,
                expected="whole numbers, and a register's name",
            )
        if is_reserved(variable.name):
            raise AssemblyError(
                f"{variable.name!r} is a register and cannot be a variable",
                where=self.name,
                fix="give it another name",
            )
        return self._give(variable, class_name, count, align, pin, named=True)

    def _give(
        self, variable: Variable, class_name: str, count: int, align: int, pin: str | None, *, named: bool
    ) -> Variable:
        step = self.machine.alignment(class_name[0], count) if class_name != "special" else 1
        if pin is not None and pin[1:].isdecimal() and int(pin[1:]) % step:
            raise AssemblyError(
                f"{variable.name!r} cannot be {count} registers from {pin} on",
                where=self.machine.name,
                expected=f"a first number that is a multiple of {step}",
            )
        if align & (align - 1) or align < 1:
            raise AssemblyError(f"alignment {align} of {variable.name!r}", expected="a power of two")
        self._register(variable, class_name, count, max(align, step), pin, named=named)
        for k, register in enumerate(variable.pinned):
            self._homes.setdefault(register, (variable, k))
        return variable

    def _reserve(self, constraint: Constraint) -> Variable:
        known = self._names.get(constraint.target)
        if known is not None:
            same = (known.pin, known.count, known.kind[:1]) == (
                constraint.register, constraint.count, constraint.letter,
            )  # fmt: skip
            if not same:
                raise AssemblyError(f"{constraint.target!r} is reserved twice, differently", where=self.name)
            return known
        return self._declare(
            Variable(constraint.target),
            _CLASS[constraint.letter],
            constraint.count,
            constraint.alignment,
            constraint.register,
        )

    def _add(
        self, line: Line, operands: Sequence[Any], demands: dict[str, Constraint], *, bare: bool
    ) -> None:
        """Look up every operand of an instruction and record it."""
        instruction = self.machine.instructions[line.mnemonic]
        texts, modifiers = _own_words(instruction, line)
        own: dict[int, Variable] = {}
        bound, shown, label = [], [], None
        at = len(self._forms)
        ways = instruction.ways(modifiers.split())
        relative = self._indexing.step(instruction, line)
        for number, text in enumerate(texts):
            letters = _letters(ways, number, len(texts))
            if letters == "l":
                name = text.removeprefix("%")
                if name.isdecimal() and int(name) < len(operands):
                    name = str(operands[int(name)])
                label = check_label(name)
                shown.append(label)
                bound.append(Bound(read_operand(f".L{self.name}_{label}", bare=False)))
                self._decisions.append(Decision(at, text, "label", None))
                continue
            entry, words = self._bind(ways, number, len(texts), text, operands, demands, own, bare)
            if number in relative and "v" in letters and entry.operand.kind in ("reference", "register"):
                entry = replace(entry, relative=True)
            bound.append(entry)
            shown.append(words)
        ending = encoding_of(line.mnemonic)
        key = (instruction.name, ending, modifiers, tuple(bound))
        shape = self._known.get(key)
        if shape is None:
            try:
                shape = make_shape(self.whole_machine, instruction, bound, modifiers, ending)
            except AssemblyError as error:
                words = f"{line.mnemonic} {', '.join(shown)} {modifiers}".strip()
                raise AssemblyError(
                    error.what, where=f"{self.name}, {at}: {words}", expected=error.expected, fix=error.fix
                ) from None
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[key] = shape
        self._shapes.append(shape)
        self._touches.append(self._touch(shape, list(own.values())))
        self._lines.append(
            f"{line.mnemonic} {', '.join(shown)}".rstrip() + (f" {modifiers}" if modifiers else "")
        )
        if instruction.name == "s_nop" and not 0 <= _whole(texts[0]) <= _LONGEST_NOP:
            raise AssemblyError(
                f"{self._lines[-1]!r} is no number of states that an s_nop can fill",
                where=f"{self.name}, {at}",
                expected=f"0 to {_LONGEST_NOP}, for 1 to {_LONGEST_NOP + 1} states",
            )
        if shape.form.control is not None:
            self._controls[at] = label
            self._breaks.append(at + 1)
        self._record(shape.form, tuple(own.values()), 0, 0)

    def _bind(
        self,
        ways: Ways,
        number: int,
        total: int,
        text: str,
        operands: Sequence[Any],
        demands: dict[str, Constraint],
        own: dict[int, Variable],
        bare: bool,
    ) -> tuple[Bound, str]:
        """One operand: the rules of `operands`, and the text that shows it under its author's names."""
        at = len(self._forms)
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
            if int(target) >= len(operands):
                raise AssemblyError(
                    f"%{target} is bound to nothing", where=self.name, expected=f"{len(operands)} operands"
                )
            value = operands[int(target)]
            if isinstance(value, Part):
                if not (is_whole(value.first) and is_whole(value.count)):
                    raise AssemblyError(f"{value!r} is no part", expected="whole numbers")
                read = replace(read, first=value.first, stop=value.first + value.count)
                value = value.variable
            if isinstance(value, Variable):
                variable = value
                rule = "known" if value.kind else "new"
                if not value.kind:
                    self._make_known(ways, number, total, value, demands.get(target))
                elif target in demands:
                    _check_demand(value, demands[target])
            elif isinstance(value, str):
                return self._bind(ways, number, total, value, (), {}, own, True)
            else:
                read = read_operand(_number(value), bare=False)
                rule = read.kind
        elif rule == "reference":
            variable = self._names.get(target)
            keyword = self.whole_machine.keyword(target)
            rule = "keyword" if keyword is not None or (variable and variable.pin) else "name"
            if variable is None and keyword is not None:
                variable = self._reserve(
                    Constraint(target, keyword.letter, keyword.count, 1, keyword.register)
                )
            if variable is None:
                if "x" in _letters(ways, number, total):
                    return Bound(read_operand(f"{text}", bare=False)), text
                variable = self._look_up(target)
        self._decisions.append(
            Decision(at, text, {"special": "register", "off": "word"}.get(rule, rule), variable)
        )
        if variable is None:
            return Bound(read), read.text if read.kind in ("number", "word", "off") else text
        if variable.id >= len(self._variables) or self._variables[variable.id] is not variable:
            raise AssemblyError(
                f"{variable!r} is not a variable of this kernel",
                where=self.name,
                fix="make it with the kernel that uses it",
            )
        own.setdefault(variable.id, variable)
        index = list(own).index(variable.id)
        part = f".{read.first}" if read.stop else ""
        part += f":{read.stop - 1}" if read.stop > read.first + 1 else ""
        words = f"{read.before}{variable.name}{part}{read.after}"
        plain = replace(read, text=str(index))
        return Bound(plain, index, variable.register_class.letter, variable.count), words

    def _look_up(self, name: str) -> Variable:
        known = {*self._names, *(keyword.name for keyword in self.whole_machine.keywords)}
        if name.startswith("src_") or name == "lds_direct":
            raise AssemblyError(
                f"{name!r} reads a register that is not followed under that name",
                where=self.name,
                fix="read SCC by s_cselect_b32, VCC and EXEC by their names, LDS by ds_read",
            )
        if name not in self._names:
            raise AssemblyError(
                f"no register is registered as {name!r}",
                where=self.name,
                nearest=nearest_names(name, known),
                fix=self._packed_thread(name),
            )
        return self._names[name]

    def _packed_thread(self, name: str) -> str | None:
        """Where a work-item's number is found on machines that pack all three into one register."""
        axis = {"thread_x": 0, "thread_y": 1, "thread_z": 2}.get(name)
        if axis is None or not self.whole_machine.unified:
            return None
        bits = f"bits {10 * axis} to {10 * axis + 9}"
        return f"{self.whole_machine.name} has it in {bits} of `thread`: v_bfe_u32 t, thread, {10 * axis}, 10"

    def _make_known(
        self,
        ways: Ways,
        number: int,
        total: int,
        variable: Variable,
        constraint: Constraint | None,
    ) -> None:
        """Register a new variable with what its constraint says, or what the instruction takes there."""
        if constraint is not None:
            self._declare(variable, _CLASS[constraint.letter], constraint.count, constraint.alignment, None)
            return
        for slots in ways:
            letter = (
                next((c for c in slots[number].letters if c in "vsa"), None) if len(slots) == total else None
            )
            if letter is not None:
                self._declare(variable, _CLASS[letter], slots[number].count, 1, None)
                return
        raise AssemblyError(
            f"the instruction takes no register as operand {number}",
            where=f"{self.name}, {variable.name!r}",
        )

    def _touch(self, shape: Shape, own: Sequence[Variable]) -> list[Touch]:
        """What an operation does to which registers of which variables."""
        touches = []
        for place in shape.places:
            if place.variable >= 0:
                touches.append(Touch(own[place.variable].id, place.first, place.stop, place.role))
            else:
                for register in place.registers:
                    variable, k = self._home(register)
                    touches.append(Touch(variable.id, k, k + 1, place.role))
        return touches

    def _home(self, register: str) -> tuple[Variable, int]:
        """The variable that a register named outright belongs to."""
        found = self._homes.get(register)
        if found is None:
            name = "special" if register in SPECIAL or "_" in register else _CLASS[register[0]]
            if register not in self.machine.register_class(name).registers:
                raise AssemblyError(
                    f"{self.machine.name} has no register {register!r} for this kernel",
                    where=self.name,
                    expected=f"up to {self.machine.register_class(name).registers[-1]}",
                )
            self._give(Variable(register), name, 1, 1, register, named=False)
            found = self._homes[register]
        return found


def _own_words(instruction: GcnInstruction, line: Line) -> tuple[tuple[str, ...], str]:
    """Operands and modifiers; an instruction without operands has modifiers only, some take words as one."""
    shapes = {tuple(slot.letters for slot in slots) for slots in instruction.signatures}
    everything = " ".join((*line.operands, *([line.modifiers] if line.modifiers else [])))
    if shapes == {()}:
        return (), everything
    if shapes == {("x",)}:
        return ((everything,) if everything else ()), ""
    return line.operands, line.modifiers


def is_whole(value: object) -> bool:
    """Whether a value counts something: an int of any kind, but no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _check_demand(variable: Variable, demand: Constraint) -> None:
    """AssemblyError if a constraint contradicts a variable that is known."""
    if (demand.letter, demand.count) != (variable.register_class.letter, variable.count):
        raise AssemblyError(
            f"{variable.name!r} is {variable.register_class.letter}{variable.count} and the constraint says "
            f"{demand.letter}{demand.count}",
            fix="leave the constraint out: a known variable has its registers",
        )


def _whole(text: str) -> int:
    """A whole number, or -1."""
    try:
        return int(text, 0)
    except ValueError:
        return -1


def _letters(ways: Ways, number: int, total: int) -> str:
    return "".join(slots[number].letters for slots in ways if len(slots) == total)


def _number(value: Any) -> str:
    """A number as an operand: whole numbers and floats."""
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "__index__"):
        return str(value.__index__())
    raise AssemblyError(
        f"{value!r} cannot be an operand", expected="a variable, a part of one, a name or a number"
    )
