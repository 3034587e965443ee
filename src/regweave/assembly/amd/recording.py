"""Recording an instruction: every operand looked up by its rule, and the shape worked out or found again.

Three classes, one on the other, are what a `Kernel` collects with: `registry.VariableRegistry` knows who has
which registers, `operand_lookup.OperandLookup` finds what an operand's text stands for, and this one keeps
the instruction with what it does to which registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regweave.assembly.amd.indexing import Indexing
from regweave.assembly.amd.kernel_program import Touch
from regweave.assembly.amd.lines import Line, read_operand
from regweave.assembly.amd.operand_lookup import OperandLookup, Operands
from regweave.assembly.amd.operands import Constraint, Decision
from regweave.assembly.amd.shapes import Shape, make_shape
from regweave.assembly.amd.signatures import Bound
from regweave.assembly.reading import check_label
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.table import GcnInstruction, encoding_of
from regweave.machines.amd.assembly.targets import GcnMachine

_MOST_SHAPES = 10_000
#: Of the number in s_nop the processor reads four bits.
_LONGEST_NOP = 15
_SHAPES: dict[str, dict[Any, Shape]] = {}


class InstructionRecorder(OperandLookup):
    """Collects instructions."""

    def __init__(self, machine: GcnMachine, whole_machine: GcnMachine, name: str) -> None:
        super().__init__(machine, whole_machine, name)
        self._shapes: list[Shape] = []
        self._touches: list[Sequence[Touch]] = []
        self._lines: list[str] = []
        self._indexing = Indexing(name)
        self._known = _SHAPES.setdefault(whole_machine.name, {})

    def _add(
        self, line: Line, operands: Sequence[Any], demands: dict[str, Constraint], *, bare: bool
    ) -> None:
        """Look up every operand of an instruction and record it."""
        instruction = self.machine.instructions[line.mnemonic]
        texts, modifiers = _own_words(instruction, line)
        given = Operands(instruction.ways(modifiers.split()), len(texts), operands, demands, {})
        bound, shown, label = [], [], None
        at = len(self._forms)
        relative = self._indexing.step(instruction, line)
        for number, text in enumerate(texts):
            letters = given.letters(number)
            if letters == "l":
                name = text.removeprefix("%")
                if name.isdecimal() and int(name) < len(operands):
                    name = str(operands[int(name)])
                label = check_label(name)
                shown.append(label)
                bound.append(Bound(read_operand(f".L{self.name}_{label}", bare=False)))
                self._decisions.append(Decision(at, text, "label", None))
                continue
            entry, words = self._bind(given, number, text, bare=bare)
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
        self._touches.append(self._touch(shape, list(given.own.values())))
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
        self._record(shape.form, tuple(given.own.values()), 0, 0)

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


def _own_words(instruction: GcnInstruction, line: Line) -> tuple[tuple[str, ...], str]:
    """Operands and modifiers; an instruction without operands has modifiers only, some take words as one."""
    shapes = {tuple(slot.letters for slot in slots) for slots in instruction.signatures}
    everything = " ".join((*line.operands, *([line.modifiers] if line.modifiers else [])))
    if shapes == {()}:
        return (), everything
    if shapes == {("x",)}:
        return ((everything,) if everything else ()), ""
    return line.operands, line.modifiers


def _whole(text: str) -> int:
    """A whole number, or -1."""
    try:
        return int(text, 0)
    except ValueError:
        return -1
