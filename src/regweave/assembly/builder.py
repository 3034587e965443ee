"""The builder: operations in, a listing with every register assigned out.

    from regweave.machines.x86 import AVX512

    b = Builder(AVX512, name="dot", arguments=("x", "n"))
    acc, v = b.vector("acc"), b.vector("v")
    b.emit("zero", acc)
    b.label("loop")
    b.emit("load", v, b.at(b["x"]))
    b.emit("fma", acc, v, v)
    b.emit("add", b["x"], 64)
    b.emit("dec", b["n"])
    b.emit("jump_nonzero", "loop")
    ...
    listing = b.finish()

Nothing is allocated while emitting: `finish` analyses the whole sequence (blocks, liveness through loops and
local routines), assigns registers and prints. Reserved keywords (the `arguments`) are pinned to the calling
convention's registers. An operand may be a variable (looked up by identity), a name (a str: looked up among
the registered variables), a memory operand, an int, or the label of a jump.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from regweave.assembly.allocation import Stuck, assign, interfere
from regweave.assembly.failures import register_error, unwritten_error
from regweave.assembly.flow import solve
from regweave.assembly.listing import Listing, print_text
from regweave.assembly.program import Program
from regweave.assembly.variables import Immediate, Label, Memory, Variable
from regweave.errors import AssemblyError, nearest_names
from regweave.machines import AssemblyMachine
from regweave.machines.forms import Form
from regweave.machines.instructions import Pattern


class Builder:
    """Collects the operations of one function called `name` whose parameters are the reserved keywords
    `arguments`."""

    def __init__(self, machine: AssemblyMachine, *, name: str, arguments: Sequence[str] = ()) -> None:
        if not name.isidentifier():
            raise AssemblyError(f"{name!r} cannot be a symbol", expected="letters, digits and underscores")
        if len(arguments) > len(machine.arguments):
            raise AssemblyError(
                f"{name} has {len(arguments)} arguments",
                expected=f"at most {len(machine.arguments)} in registers",
            )
        self.machine = machine
        self.name = name
        self._forms_of = machine.table.forms
        self._variables: list[Variable] = []
        self._names: dict[str, Variable] = {}
        self._forms: list[Form] = []
        self._operands: list[Sequence[Any]] = []
        self._uses: list[int] = []
        self._defines: list[int] = []
        self._labels: dict[str, int] = {}
        self._controls: dict[int, str | None] = {}
        self._breaks: list[int] = []
        self._extra: dict[int, int] = {}
        self._copies: list[tuple[Variable, Variable]] = []
        self._comments: dict[int, str] = {}
        self._flags: str | None = None
        self._pool: dict[tuple[bytes, int], str] = {}
        self._fresh = 0
        self._stack: int | None = None
        self._arguments = tuple(
            self.general(argument, pin=register)
            for argument, register in zip(arguments, machine.arguments, strict=False)
        )

    # -- variables ------------------------------------------------------------------------------------------------

    def vector(self, name: str = "v", *, count: int = 1, align: int = 1, pin: str | None = None) -> Variable:
        """A variable of one (or `count` consecutive) vector registers."""
        return self._register(Variable(name), "vector", count, align, pin)

    def vectors(self, name: str, count: int) -> list[Variable]:
        """`count` separate variables name0, name1, ..."""
        return [self._register(Variable(f"{name}{i}"), "vector", 1, 1, None) for i in range(count)]

    def general(self, name: str = "r", *, pin: str | None = None) -> Variable:
        """A 64-bit general register; `pin` names the register that it must be."""
        return self._register(Variable(name), "general", 1, 1, pin)

    def mask(self, name: str = "k") -> Variable:
        """A lane mask: a k register, or a vector where the machine has none."""
        return self._register(Variable(name), self.machine.mask_class, 1, 1, None)

    def __getitem__(self, name: str) -> Variable:
        """The variable registered under `name` (the latest, if several are)."""
        try:
            return self._names[name]
        except KeyError:
            raise AssemblyError(
                f"no register is registered as {name!r}",
                where=self.name,
                nearest=nearest_names(name, self._names),
            ) from None

    def _register(
        self, variable: Variable, class_name: str, count: int, align: int, pin: str | None
    ) -> Variable:
        register_class = self.machine.register_class(class_name)
        if pin is not None and pin not in register_class.registers:
            raise AssemblyError(
                f"{variable.name!r} cannot be pinned to {pin!r}",
                nearest=nearest_names(pin, register_class.registers),
            )
        if not 1 <= count <= register_class.count or align < 1:
            raise AssemblyError(
                f"{variable.name!r} asks for {count} registers", expected=f"1 to {register_class.count}"
            )
        variable.register_class = register_class
        variable.kind = register_class.letter if count == 1 else f"{register_class.letter}{count}"
        variable.count, variable.alignment, variable.pin = count, align, pin
        variable.id = len(self._variables)
        variable.bit = 1 << variable.id
        self._variables.append(variable)
        self._names[variable.name] = variable
        return variable

    # -- memory ---------------------------------------------------------------------------------------------------

    def at(
        self,
        base: Variable | str,
        offset: int = 0,
        *,
        index: Variable | str | None = None,
        scale: int = 1,
        repeat: bool = False,
    ) -> Memory:
        """Memory at base + index * scale + offset (bytes). With `repeat` its one element goes to all
        lanes."""
        base = self[base] if isinstance(base, str) else base
        index = self[index] if isinstance(index, str) else index
        for variable in (base, index):
            if variable is not None and variable.kind != "r":
                raise AssemblyError(
                    f"{variable!r} cannot be part of an address", expected="general registers"
                )
        if scale not in (1, 2, 4, 8):
            raise AssemblyError(f"address scale {scale} of {base.name!r}", expected="1, 2, 4 or 8")
        if not -(2**31) <= offset < 2**31:
            raise AssemblyError(f"address offset {offset} of {base.name!r}", expected="32 bits, signed")
        return Memory("b" if repeat else "m", base, offset, index, scale)

    def constant(self, value: float | int) -> Memory:
        """One 32-bit constant, to be repeated to all lanes: a float, or an int for its bit pattern."""
        word = struct.pack("<I", value & 0xFFFFFFFF) if isinstance(value, int) else struct.pack("<f", value)
        machine = self.machine
        return self._pooled(word * machine.repeats, "b" if machine.repeats == 1 else "c")

    def constants(self, values: Iterable[float], *, align: int = 64) -> Memory:
        """A row of float32 constants in read-only memory."""
        row = tuple(values)
        return self.data(struct.pack(f"<{len(row)}f", *row), align=align)

    def data(self, content: bytes, *, align: int = 64) -> Memory:
        """Bytes in read-only memory beside the code, at a multiple of `align`."""
        return self._pooled(content, "m", align)

    def stack(self, size: int, *, align: int = 8) -> Memory:
        """`size` bytes of the function's stack (align up to 64). Takes rbp as the frame's register."""
        if size < 0 or align not in (1, 2, 4, 8, 16, 32, 64):
            raise AssemblyError(
                f"stack of {size} bytes aligned to {align}", expected="a size >= 0, a power of two <= 64"
            )
        start = -(-(self._stack or 0) // align) * align
        self._stack = start + size
        return Memory("m", self.machine.frame_register, start)

    def _pooled(self, content: bytes, kind: str, align: int = 0) -> Memory:
        align = align or min(64, len(content))
        symbol = self._pool.setdefault((content, align), f".L{self.name}_data{len(self._pool)}")
        return Memory(kind, self.machine.data_base(symbol))

    # -- operations -----------------------------------------------------------------------------------------------

    def emit(self, name: str, *operands: Any) -> None:
        """Add the operation `name` of the machine's table; AssemblyError if it does not take these
        operands."""
        try:
            form = self._forms_of[(name, *[o.kind for o in operands])]
        except (KeyError, AttributeError):
            operands = tuple(self._operand(name, operand) for operand in operands)
            form = self.machine.table.form(name, self._kinds(operands, self.machine.table[name].patterns))
        if form.special:
            self._emit_special(form, operands)
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

    def emit_template(self, pattern: Pattern | str, *operands: Any, constraints: str | None = None) -> None:
        """Add a template of your own: `vpermps %=0, %1, %2`. Constraints default to the operands' own
        classes."""
        bound = tuple(self._operand("", operand) for operand in operands)
        if isinstance(pattern, str):
            if constraints is None:
                constraints = " ".join(f"operand{i}:{o.kind or 'v'}" for i, o in enumerate(bound))
            pattern = Pattern(
                constraints, tuple(line.strip() for line in pattern.splitlines() if line.strip())
            )
        form = self.machine.table.bind("template", (pattern,), self._kinds(bound, (pattern,)))
        form.special = True
        self._emit_special(form, bound)

    def label(self, name: str) -> None:
        """The operations that follow are reached by jumps to `name`."""
        if name in self._labels:
            raise AssemblyError(
                f"label {name!r} is defined twice", where=self.name, fix="b.fresh_label makes new ones"
            )
        if not name.isidentifier():
            raise AssemblyError(f"{name!r} cannot be a label", expected="letters, digits and underscores")
        self._labels[name] = len(self._forms)
        self._flags = None

    def fresh_label(self, stem: str = "label") -> str:
        """A label name that is not in use yet; `label` places it."""
        self._fresh += 1
        return f"{stem}_{self._fresh}"

    def comment(self, text: str) -> None:
        """A remark on the next operation, for the annotated listing."""
        self._comments[len(self._forms)] = text

    def _operand(self, name: str, operand: Any) -> Any:
        """An operand as the analysis wants it: names looked up, numbers and labels wrapped."""
        if isinstance(operand, (Variable, Memory, Immediate, Label)):
            return operand
        if isinstance(operand, str):
            takes_label = name in self.machine.table and any(
                constraint.letters == ("l",)
                for p in self.machine.table[name].patterns
                for constraint in p.constraints
            )
            return Label(operand, f".L{self.name}_{operand}") if takes_label else self[operand]
        try:
            return Immediate(operand.__index__())
        except AttributeError:
            raise AssemblyError(
                f"{operand!r} cannot be an operand of {name!r}",
                expected="a variable, a name, memory, an int or a label",
                fix="b.constant(x) makes a float a memory operand" if isinstance(operand, float) else None,
            ) from None

    def _kinds(self, operands: Sequence[Any], patterns: Sequence[Pattern]) -> tuple[str, ...]:
        """The operands' kinds; variables that nobody knows yet are registered as their constraint says."""
        if all(operand.kind is not None for operand in operands):
            return tuple(operand.kind for operand in operands)
        for pattern in patterns:
            bound = [constraint for constraint in pattern.constraints if not constraint.scratch]
            if len(bound) != len(operands):
                continue
            for constraint, operand in zip(bound, operands, strict=True):
                letters = {c.letter: c for c in self.machine.classes}
                letter = next((letter for letter in constraint.letters if letter in letters), None)
                if operand.kind is None and letter is not None:
                    self._register(
                        operand, letters[letter].name, constraint.count, constraint.alignment, None
                    )
            break
        return tuple(operand.kind or "?" for operand in operands)

    def _emit_special(self, form: Form, operands: Sequence[Any]) -> None:
        """Operations with scratch registers, constants, names, flags or control."""
        operands = list(operands)
        after: list[tuple[Variable, Variable]] = []
        letters = {c.letter: c.name for c in self.machine.classes}
        for constraint in form.scratch:
            operands.append(
                self._register(
                    Variable(f"{form.name}.{constraint.name}"),
                    letters[constraint.letters[0]],
                    constraint.count,
                    constraint.alignment,
                    None,
                )
            )
            del self._names[f"{form.name}.{constraint.name}"]
        for i, j in form.conflicts:
            written, other = operands[i], operands[j]
            if written.bit & other.bit:
                if i in form.reads or written.count > 1:
                    raise AssemblyError(
                        f"{form.name!r} changes {written.name!r} before it reads it as another operand",
                        where=self.name,
                        fix="copy it to a variable of its own first",
                    )
                fresh = Variable(f"{written.name}'")
                self._register(fresh, written.register_class.name, 1, 1, None)
                del self._names[fresh.name]
                operands[i] = fresh
                after.append((written, fresh))
        for i, j in form.conflicts:
            written, other = operands[i], operands[j]
            if other.bit:
                self._extra[written.id] = self._extra.get(written.id, 0) | (other.bit & ~written.bit)
        used = born = 0
        for i in form.reads:
            used |= operands[i].bit
        for i in form.writes:
            born |= operands[i].bit
        for word in form.constants:
            operands.append(self._word(word))
        for name, read, written in zip(form.names, form.name_reads, form.name_writes, strict=True):
            variable = self[name]
            operands.append(variable)
            used |= variable.bit if read else 0
            born |= variable.bit if written else 0
        at = len(self._forms)
        if form.flags is not None:
            self._note_flags(form)
        if form.copy is not None:
            self._copies.append((operands[form.copy[0]], operands[form.copy[1]]))
        if form.control is not None:
            self._controls[at] = operands[0].name if operands else None
            self._breaks.append(at + 1)
        elif form.clobbers:
            self._breaks.append(at + 1)
            if form.name == "call_pointer" and self._stack is None:
                self._stack = 0
        self._forms.append(form)
        self._operands.append(operands)
        self._uses.append(used)
        self._defines.append(born)
        for written, fresh in after:
            self.emit("move", written, fresh)

    def _word(self, word: str) -> Memory:
        """A constant that a table entry names: every lane the same word, or the lane numbers."""
        if word == "iota":
            return self._pooled(struct.pack(f"<{self.machine.lanes}I", *range(self.machine.lanes)), "m")
        return self.constant(int(word, 16))

    def _note_flags(self, form: Form) -> None:
        """Check that flags are read right behind what set them: nothing between may change them, no label
        either."""
        if form.flags == "read":
            if self._flags != "set":
                why = "a label stands between" if self._flags is None else f"{self._flags!r} changed them"
                raise AssemblyError(
                    f"{form.name!r} reads the flags, but {why}",
                    where=self.name,
                    fix="put cmp or test right before it",
                )
        else:
            self._flags = "set" if form.flags == "set" else form.name

    # -- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> Listing:
        """Analyse, assign registers, print.

        RegisterError lists what is live if registers run out; AssemblyError for reads of what was never
        written.
        """
        if (
            self._forms == []
            or (len(self._forms) - 1) not in self._controls
            or len(self._forms) in self._labels.values()
        ):
            self.emit("return")
        program = self._program()
        flow = solve(program)
        given = 0
        for argument in self._arguments:
            given |= argument.bit
        unwritten = flow.live_at_entry & ~given
        if unwritten:
            raise unwritten_error(program, unwritten)
        withheld = (self.machine.frame_register,) if self._stack is not None else ()
        try:
            registers = assign(program, interfere(program, flow), withheld)
        except Stuck as stuck:
            raise register_error(program, flow, stuck, withheld) from None
        return Listing(self.name, print_text(program, registers), registers, program, flow)

    def _program(self) -> Program:
        lines = []
        if self._pool:
            lines.append(".section .rodata")
            for (content, align), symbol in sorted(self._pool.items(), key=lambda item: -item[0][1]):
                lines += [f".balign {align}", f"{symbol}:"]
                words, tail = divmod(len(content), 4)
                if words:
                    lines.append(
                        ".long " + ",".join(map(str, struct.unpack(f"<{words}I", content[: 4 * words])))
                    )
                if tail:
                    lines.append(".byte " + ",".join(map(str, content[-tail:])))
        return Program(
            self.name, self.machine, self._variables, self._arguments, self._forms, self._operands,
            self._uses, self._defines, self._labels, self._controls, self._breaks, self._extra, self._copies,
            self._comments, "\n".join(lines), self._stack,
        )  # fmt: skip
