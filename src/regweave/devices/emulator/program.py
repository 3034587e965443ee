"""A kernel as the emulator takes it: one step per line of assembly, with the entry of the table that it is.

    >>> program = read_kernel(kernel)                 # a finished kernel, with what was inserted
    >>> program.steps[3]
    Step(at=3, text='v_mul_f32 v1, 2.0, v1', remark='2: v_mul_f32 value, 2.0, value', ...)

A step keeps the text that its author wrote (the remark), so that a fault can show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.amd.indexing import Indexing
from regweave.assembly.amd.lines import Operand, parse_line, read_operand
from regweave.assembly.amd.signatures import Bound, choose_signature
from regweave.errors import AssemblyError, InputError, nearest_names
from regweave.machines.amd.assembly.table import GcnInstruction, Slot
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.values import frozen

_LABEL = re.compile(r"([.\w$]+):\Z")
_SIGNED = re.compile(r"(-?)sext\((\w+)\)\Z")


@frozen(eq=False)
class Step:
    """One instruction: its text, what its author wrote, its entry, operands with their slots, modifiers.

    `target` is the number of the step that a branch leads to, -1 for none. `signed` are the operands that are
    extended with their sign (`sext(v1)`), `relative` those to whose registers M0 is added.
    """

    at: int
    text: str
    remark: str
    instruction: GcnInstruction
    slots: Sequence[Slot]
    operands: Sequence[Operand]
    modifiers: Mapping[str, str]
    signed: frozenset[int]
    relative: frozenset[int] = frozenset()
    target: int = -1

    @property
    def name(self) -> str:
        """The instruction's name in the table."""
        return self.instruction.name

    def __str__(self) -> str:
        return f"{self.text!r} ({self.remark})" if self.remark else repr(self.text)


@frozen
class Hidden:
    """An argument that the launch fills in: its kind (`hidden_block_count_x`), place and size in bytes."""

    kind: str
    place: int
    size: int


@frozen(eq=False)
class Program:
    """The steps of a kernel, and what it expects when it starts.

    LDS in bytes, arguments `(name, kind, place)`, the workgroup's size (None: the launch says it), how many
    numbers of a work-item stand in registers (0: x only), and which scalar registers hold what
    `(keyword, register)`. `declared` vector registers are there at least.
    """

    name: str
    machine: GcnMachine
    steps: Sequence[Step]
    lds_bytes: int
    arguments: Sequence[tuple[str, str, int]]
    argument_bytes: int
    workgroup: tuple[int, int, int] | None
    thread_numbers: int
    starts: Sequence[tuple[str, int]]
    declared: int
    hidden: Sequence[Hidden] = ()

    @cached_property
    def vectors(self) -> int:
        """How many vector registers there are; accumulation registers are counted behind them."""
        return max(self._highest("v"), self.declared, 3)

    @cached_property
    def accumulators(self) -> int:
        """How many accumulation registers there are."""
        return self._highest("a")

    def _highest(self, letter: str) -> int:
        named = [operand for step in self.steps for operand in step.operands if operand.text == letter]
        return max((operand.stop for operand in named if operand.kind == "register"), default=0)


def read_kernel(kernel: FinishedKernel) -> Program:
    """The steps of a finished kernel, waits and distances included. InputError if it is not finished."""
    if not isinstance(kernel, FinishedKernel):
        raise InputError(f"a {type(kernel).__name__} cannot be run", expected="what finish() returns")
    demands = kernel.demands
    return Program(
        kernel.name,
        kernel.machine,
        read_steps(kernel.body(annotate=True), kernel.machine),
        demands.lds_bytes,
        demands.arguments,
        demands.argument_bytes,
        demands.workgroup,
        demands.thread_numbers,
        tuple((k.name, int(k.register[1:])) for k in kernel.machine.keywords if k.letter == "s"),
        demands.vectors,
    )


def read_steps(lines: Iterable[str], machine: GcnMachine) -> tuple[Step, ...]:
    """The steps in lines of assembly; what follows a semicolon is a step's remark. AssemblyError for a line
    that the machine's table does not know, and for a label that is missing."""
    labels: dict[str, int] = {}
    found: list[tuple[str, str]] = []
    for line in lines:
        text, _, remark = line.partition(";")
        text = text.partition("//")[0].strip()
        label = _LABEL.match(text)
        if label is not None:
            labels[label[1]] = len(found)
        elif text:
            found.append((" ".join(text.split()), remark.strip()))
    indexing = Indexing("the kernel")
    return tuple(
        _step(at, text, remark, machine, labels, indexing) for at, (text, remark) in enumerate(found)
    )


def _step(
    at: int, text: str, remark: str, machine: GcnMachine, labels: Mapping[str, int], indexing: Indexing
) -> Step:
    line = parse_line(text)
    instruction = machine.instructions[line.mnemonic]
    relative = indexing.step(instruction, line)
    own = set("".join(slot.letters for slots in instruction.signatures for slot in slots))
    if own <= {"x"}:  # words of its own, whatever they are
        return Step(at, text, remark, instruction, (), (), {"words": text.partition(" ")[2]}, frozenset())
    words, signed = [], set()
    for number, word in enumerate(line.operands):
        match = _SIGNED.match(word)
        if match is not None:
            signed.add(number)
            word = match[1] + match[2]
        words.append(word)
    operands = [read_operand(word, bare=False) for word in words]
    modifiers = line.modifiers.split()
    slots = choose_signature(instruction, [Bound(operand) for operand in operands], modifiers)
    target = -1
    for slot, operand in zip(slots, operands, strict=True):
        if slot.letters == "l":
            if operand.text not in labels:
                raise AssemblyError(
                    f"label {operand.text!r} is missing",
                    where=text,
                    nearest=nearest_names(operand.text, labels),
                )
            target = labels[operand.text]
    pairs = {word.partition(":")[0]: word.partition(":")[2] for word in modifiers}
    return Step(at, text, remark, instruction, slots, operands, pairs, frozenset(signed), relative, target)
