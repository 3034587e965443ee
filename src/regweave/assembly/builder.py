"""The builder: operations in, a listing with every register assigned out.

    from regweave.machines.x86 import AVX512

    b = Builder(AVX512, name="squares", arguments=("x", "n", "out"))
    acc, v = b.vector("acc"), b.vector("v")
    b.emit("zero", acc)
    b.label("loop")
    b.emit("load", v, b.at("x"))
    b.emit("fma", acc, v, v)
    b.emit("add", b["x"], 64)
    b.emit("dec", b["n"])
    b.emit("jump_nonzero", "loop")
    b.emit("store", b.at("out"), acc)
    listing = b.finish()

Nothing is allocated while emitting: `finish` analyses the whole sequence (blocks, liveness through loops and
local routines), assigns registers and prints. Reserved keywords (the `arguments`) are pinned to the calling
convention's registers. An operand may be a variable (looked up by identity), a name (a str: looked up among
the registered variables), a memory operand, an int, or the label of a jump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regweave.assembly.allocation import allocate
from regweave.assembly.declarations import Declarations
from regweave.assembly.failures import unwritten_error
from regweave.assembly.flow import solve
from regweave.assembly.listing import Listing, print_text
from regweave.assembly.outright import check_outright, flags_of
from regweave.assembly.reading import check_label
from regweave.assembly.variables import Immediate, Label, Memory, Variable
from regweave.errors import AssemblyError
from regweave.machines import AssemblyMachine
from regweave.machines.forms import Form
from regweave.machines.instructions import Pattern


class Builder(Declarations):
    """Collects the operations of one function called `name`; its parameters are the keywords `arguments`."""

    def __init__(self, machine: AssemblyMachine, *, name: str, arguments: Sequence[str] = ()) -> None:
        _check_symbol(name)
        if len(arguments) > len(machine.arguments):
            raise AssemblyError(
                f"{name} has {len(arguments)} arguments",
                expected=f"at most {len(machine.arguments)} in registers",
            )
        if len(set(arguments)) != len(arguments):
            raise AssemblyError(f"two arguments of {name} have one name", where=", ".join(arguments))
        super().__init__(machine, name)
        self._known = machine.table.forms
        self._fresh = 0
        self._arguments = tuple(
            self.general(argument, pin=register)
            for argument, register in zip(arguments, machine.arguments, strict=False)
        )

    def emit(self, name: str, *operands: Any) -> None:
        """Add an operation of the machine's table; AssemblyError if it does not take these operands."""
        try:
            form = self._known[(name, *[o.kind for o in operands])]
        except (KeyError, AttributeError):
            instruction = self.machine.table[name]
            label = instruction.takes_label
            operands = tuple([self._operand(name, operand, label) for operand in operands])
            form = self.machine.table.form(name, self._kinds(operands, instruction.patterns))
        if form.special:
            self._record_special(form, operands)
            return
        used = born = 0
        for i in form.reads:
            used |= operands[i].bit
        for i in form.writes:
            born |= operands[i].bit
        self._forms.append(form)
        self._operands.append(operands)
        self._uses.append(used)
        self._defines.append(born)

    def emit_template(self, pattern: Pattern | str, *operands: Any) -> None:
        """Add a template of your own: a Pattern, or text like `vpermps %=0, %1, %2` (several lines if need
        be).

        Text takes its operands' classes from the variables given. AssemblyError for a register named
        outright that the Pattern's `clobbers` do not declare.
        """
        bound = [self._operand("template", operand, False) for operand in operands]
        key = (pattern, *(operand.kind for operand in bound))
        form = self.machine.table.templates.get(key)
        if form is None:
            if isinstance(pattern, str):
                words = " ".join(f"operand{i}:{operand.kind or 'v'}" for i, operand in enumerate(bound))
                lines = tuple(line.strip() for line in pattern.splitlines() if line.strip())
                pattern = Pattern(words, lines, flags=flags_of(lines, self.machine))
            check_outright(pattern, self.machine)
            form = self.machine.table.bind("template", (pattern,), self._kinds(bound, (pattern,)))
            if "" not in key:
                self.machine.table.keep_template(key, form)
        self._check_views(form, bound)
        self._record_special(form, bound)

    def _check_views(self, form: Form, bound: Sequence[Any]) -> None:
        """AssemblyError if a template asks for a view that its register does not have."""
        beyond = len(form.operands) + len(form.constants)
        for index, _, view in form.tokens:
            if not view:
                continue
            what, kind = str(index), ""
            if index < len(bound):
                kind = bound[index].kind
            elif index < beyond:
                kind = form.operands[index].letters[0]
            else:
                what = form.names[index - beyond]
                kind = self[what].kind
            class_name = self._letters.get(kind[0])
            first = class_name and self.machine.register_class(class_name).registers[0]
            views = [name for name, shown in self.machine.views.items() if first in shown]
            if view not in views:
                raise AssemblyError(
                    f"operand %{what} of a template has no view {view!r}",
                    where=self.name,
                    expected=" or ".join(views) or "no view",
                )

    def call_pointer(self, function: Variable, *arguments: Any, result: Variable | None = None) -> None:
        """Call the C function at the address in `function` with integer or pointer arguments.

        Its result goes to `result`. Everything that a C function may change is treated as destroyed: all
        vectors and masks, and the general registers that are not callee-saved. The stack is aligned."""
        registers = self.machine.arguments
        if len(arguments) > len(registers):
            raise AssemblyError(
                f"a C call with {len(arguments)} arguments", expected=f"at most {len(registers)}"
            )
        # Pinned sources could sit in a register that an earlier argument is moved to: they go through a copy.
        sources = []
        for argument in (function, *arguments):
            source = self._operand("call_pointer", argument, False)
            if isinstance(source, Variable) and source.pin is not None:
                copy = self._register(Variable(f"{source.name}'"), "general", named=False)
                self.emit("mov", copy, source)
                source = copy
            sources.append(source)
        used = 0
        for source, register in zip(sources[1:], registers, strict=False):
            place = self._register(Variable(f"argument {register}"), "general", pin=register, named=False)
            self.emit("lea" if isinstance(source, Memory) else "mov", place, source)
            used |= place.bit
        self._stack = self._stack or 0
        self.emit("call_pointer", sources[0])
        self._uses[-1] |= used
        if result is not None:
            place = self._register(Variable("result"), "general", pin=self.machine.result, named=False)
            self._defines[-1] |= place.bit
            self.emit("mov", result, place)

    def label(self, name: str) -> None:
        """The operations that follow are reached by jumps to `name`."""
        if name in self._labels:
            raise AssemblyError(
                f"label {name!r} is defined twice", where=self.name, fix="fresh_label makes new names"
            )
        self._labels[check_label(name)] = len(self._forms)
        self._flags = None

    def fresh_label(self, stem: str = "label") -> str:
        """A label name that is not in use yet; `label` places it."""
        self._fresh += 1
        return f"{stem}_{self._fresh}"

    def comment(self, text: str) -> None:
        """A remark on the next operation, for the annotated listing, where it takes one line."""
        self._comments[len(self._forms)] = " ".join(text.split())

    def finish(self) -> Listing:
        """Analyse, assign registers, print; `return` is added if the last operation can run off the end.

        RegisterError lists what is live if registers run out; AssemblyError for reads of what was never
        written."""
        last = len(self._forms) - 1
        falls = last not in self._controls or self._forms[last].control in ("branch", "call")
        if falls or last + 1 in self._labels.values():
            self.emit("return")
        program = self._program(self._arguments)
        flow = solve(program)
        given = 0
        for argument in self._arguments:
            given |= argument.bit
        unwritten = flow.live_at_entry & ~given
        if unwritten:
            raise unwritten_error(program, unwritten)
        program, flow, registers = allocate(program, flow)
        return Listing(self.name, print_text(program, registers), registers, program, flow)

    def _operand(self, name: str, operand: Any, label: bool) -> Any:
        """An operand as the analysis wants it: names looked up, numbers and labels wrapped."""
        if type(operand) is Variable or isinstance(operand, (Memory, Immediate, Label)):
            return operand
        if type(operand) is int:
            return Immediate(operand)
        if isinstance(operand, str):
            return Label(operand, f".L{self.name}_{operand}") if label else self[operand]
        try:
            return Immediate(operand.__index__())
        except AttributeError:
            raise AssemblyError(
                f"{operand!r} cannot be an operand of {name!r}",
                where=self.name,
                expected="a variable, a name, memory, an int or a label",
                fix="constant(x) makes a float a memory operand" if isinstance(operand, float) else None,
            ) from None

    def _kinds(self, operands: Sequence[Any], patterns: Sequence[Pattern]) -> list[str]:
        """The operands' kinds; variables that nobody knows yet are registered as their constraint says."""
        kinds = [operand.kind for operand in operands]
        if "" in kinds:
            for pattern in patterns:
                bound = [constraint for constraint in pattern.constraints if not constraint.scratch]
                if len(bound) == len(operands):
                    for constraint, operand in zip(bound, operands, strict=True):
                        letter = next((c for c in constraint.letters if c in self._letters), None)
                        if not operand.kind and letter is not None:
                            class_name = self._letters[letter]
                            self._register(operand, class_name, constraint.count, constraint.alignment)
                    break
            kinds = [operand.kind or "?" for operand in operands]
        return kinds


def _check_symbol(name: str) -> None:
    if not (name.isidentifier() and name.isascii()):
        raise AssemblyError(f"{name!r} cannot be a symbol", expected="letters, digits and underscores")
