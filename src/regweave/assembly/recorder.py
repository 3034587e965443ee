"""The recorder: what a builder has collected so far, and how one operation is added to it.

The usual operation (an `fma` of three registers) is added by `Builder.emit` itself in a microsecond. What
needs more comes here: scratch registers, table constants, named operands, operands that must differ, flags,
jumps and calls."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from regweave.assembly.pool import Pool
from regweave.assembly.program import Program
from regweave.assembly.variables import Memory, Variable
from regweave.errors import AssemblyError, nearest_names
from regweave.machines import AssemblyMachine
from regweave.machines.forms import Form


class Recorder:
    """Operations, variables, labels and constants of one function, in the order of their arrival."""

    def __init__(self, machine: AssemblyMachine, name: str) -> None:
        self.machine = machine
        self.name = name
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
        self._pool = Pool(name)
        self._stack: int | None = None
        self._letters = {c.letter: c.name for c in machine.classes}

    def __contains__(self, name: object) -> bool:
        """Whether a register is registered under `name`."""
        return name in self._names

    def __getitem__(self, name: str) -> Variable:
        """The variable registered under `name` (the latest, if several are); AssemblyError if none is."""
        try:
            return self._names[name]
        except KeyError:
            raise AssemblyError(
                f"no register is registered as {name!r}",
                where=self.name,
                nearest=nearest_names(name, self._names),
            ) from None

    def _register(
        self,
        variable: Variable,
        class_name: str,
        count: int = 1,
        align: int = 1,
        pin: str | None = None,
        *,
        named: bool = True,
    ) -> Variable:
        """Make a variable known: its class, its bit, and (`named`) its name in the table of registers."""
        register_class = self.machine.register_class(class_name)
        if not variable.name.isprintable():  # names stand in comments of the annotated text
            raise AssemblyError(f"{variable.name!r} cannot be a register's name", expected="one line of text")
        if pin is not None and pin not in register_class.registers:
            raise AssemblyError(
                f"{variable.name!r} cannot be pinned to {pin!r}",
                nearest=nearest_names(pin, register_class.registers),
            )
        if not 1 <= count <= register_class.count or align < 1:
            raise AssemblyError(
                f"{variable.name!r} asks for {count} registers aligned to {align}",
                expected=f"1 to {register_class.count}",
            )
        if pin is not None and register_class.registers.index(pin) + count > register_class.count:
            raise AssemblyError(f"{variable.name!r} asks for {count} registers from {pin} on, the last is "
                                f"{register_class.registers[-1]}")  # fmt: skip
        variable.register_class = register_class
        variable.kind = register_class.letter if count == 1 else f"{register_class.letter}{count}"
        variable.count, variable.alignment, variable.pin = count, align, pin
        variable.id = len(self._variables)
        variable.bit = 1 << variable.id
        self._variables.append(variable)
        if named:
            self._names[variable.name] = variable
        return variable

    def _record(self, form: Form, operands: Sequence[Any], used: int, born: int) -> None:
        self._forms.append(form)
        self._operands.append(operands)
        self._uses.append(used)
        self._defines.append(born)

    def _record_special(self, form: Form, bound: Sequence[Any]) -> None:
        """Add an operation with scratch registers, constants, names, flags, control or limited numbers."""
        operands = list(bound)
        for i, limit in form.limits:
            if not 0 <= operands[i].value < limit:
                raise AssemblyError(
                    f"{form.name!r} cannot have the number {operands[i].value}",
                    where=self.name,
                    expected=f"0 to {limit - 1}",
                )
        for scratch in form.scratch:
            temporary = Variable(f"{form.name}.{scratch.name}")
            class_name = self._letters[scratch.letters[0]]
            self._register(temporary, class_name, scratch.count, scratch.alignment, named=False)
            operands.append(temporary)
        redirected = self._keep_apart(form, operands)
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
            destination, source = form.copy
            self._copies.append((operands[destination], operands[source]))
        if form.control is not None:
            self._controls[at] = operands[0].name if operands else None
        if form.control is not None or form.clobbers:
            self._breaks.append(at + 1)
        self._record(form, operands, used, born)
        for written, substitute in redirected:
            move = self.machine.table.form("move", (written.kind, substitute.kind))
            self._record_special(move, (written, substitute))

    def _keep_apart(self, form: Form, operands: list[Any]) -> list[tuple[Variable, Variable]]:
        """See that operands which need different registers get them.

        If one variable stands at both places, a fresh one takes the written place; the pairs (variable, fresh
        one) that are returned must be copied back behind the operation."""
        redirected = []
        for i, j in form.conflicts:
            written = operands[i]
            if not written.bit & operands[j].bit:
                continue
            if i in form.reads or written.count > 1:
                raise AssemblyError(
                    f"{form.name!r} changes {written.name!r} before it reads it as another operand",
                    where=self.name,
                    fix="copy it to a variable of its own first",
                )
            fresh = Variable(f"{written.name}'")
            operands[i] = self._register(fresh, written.register_class.name, named=False)
            redirected.append((written, fresh))
        for i, j in form.conflicts:
            written, others = operands[i], operands[j].bit
            if others:
                self._extra[written.id] = self._extra.get(written.id, 0) | others
        return redirected

    def _word(self, word: str) -> Memory:
        """A constant that a table entry names: every lane the same word, or the lane numbers."""
        machine = self.machine
        if word == "iota":
            content = struct.pack(f"<{machine.lanes}I", *range(machine.lanes))
        else:
            content = struct.pack("<I", int(word, 16)) * machine.repeats
        return self._constant(content, "m", min(64, len(content)))

    def _constant(self, content: bytes, kind: str, align: int) -> Memory:
        return Memory(kind, self.machine.data_base(self._pool.place(content, align)))

    def _note_flags(self, form: Form) -> None:
        """Check that flags are read right behind what set them, with no label between."""
        if form.flags != "read":
            self._flags = "set" if form.flags == "set" else form.name
        elif self._flags != "set":
            why = "a label stands before it" if self._flags is None else f"{self._flags!r} changed them"
            raise AssemblyError(
                f"{form.name!r} reads the flags, but {why}",
                where=self.name,
                fix="put cmp or test right before it",
            )

    def _program(self, arguments: Sequence[Variable]) -> Program:
        """Everything so far, as a value; AssemblyError if an operand is another builder's variable."""
        known = set(self._variables)
        for operand in set().union(*self._operands):
            for variable in (operand.base, operand.index) if isinstance(operand, Memory) else (operand,):
                if isinstance(variable, Variable) and variable not in known:
                    raise AssemblyError(
                        f"{variable!r} is not a variable of this builder",
                        where=self.name,
                        fix="make it with the builder that uses it",
                    )
        return Program(
            name=self.name,
            machine=self.machine,
            variables=tuple(self._variables),
            arguments=arguments,
            forms=tuple(self._forms),
            operands=tuple(self._operands),
            uses=tuple(self._uses),
            defines=tuple(self._defines),
            labels=dict(self._labels),
            controls=dict(self._controls),
            breaks=tuple(self._breaks),
            extra=dict(self._extra),
            copies=tuple(self._copies),
            comments=dict(self._comments),
            pool=self._pool.text(),
            stack_bytes=self._stack,
        )
