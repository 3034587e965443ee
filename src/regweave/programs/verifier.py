"""Is this a program? Checked between every two passes, so that a wrong one is found where it was made.

>>> check_program(program)      # returns the program, or raises
VerificationError: step 3 uses %7, which no earlier step defines (at %3 = and %7, %2)
"""

from __future__ import annotations

from regweave.errors import VerificationError
from regweave.programs.alike import alike_in_all_lanes
from regweave.programs.lane_moves import move_fault
from regweave.programs.memories import ROW_BYTES
from regweave.programs.opcodes import OPCODES, Opcode
from regweave.programs.program import SPACES, TYPES, Item, Loop, Program, Step, Value, When
from regweave.programs.signatures import ACCESS_BYTES, FIXED, MATRIX_COUNTS, Types, signature

BARRIER_SCOPES = ("warp", "block")
GRID_AXES = ("x", "y", "z")
# whatever fits their types is right
_PLAIN = {
    name: (opcode.operands, opcode.results)
    for name, opcode in OPCODES.items()
    if {opcode.operands, opcode.results} <= FIXED
    and not (opcode.numbers or opcode.symbol or opcode.collective)
}


def check_program(program: Program) -> Program:
    """Return `program` if it is well formed; VerificationError naming the step otherwise.

    Well formed: known opcodes with the right number and types of operands, every value defined once and
    before its use, values of a body used in that body only, words inside the source, accesses at known
    addresses inside their memory and aligned, no step that lanes take together where they may have parted,
    and one result of the right type per destination word.
    """
    for array in (program.source, program.destination):
        if array.type not in TYPES or array.words < 0:
            raise VerificationError(f"array {array.name!r} of {array.words} words of type {array.type!r}")
    names = [memory.name for memory in program.memories]
    for memory in program.memories:
        if memory.space not in SPACES or memory.bytes < 1 or names.count(memory.name) > 1:
            raise VerificationError(
                f"memory {memory.name!r} of {memory.bytes} bytes in space {memory.space!r}",
                where=program.name,
                expected="names of their own, at least one byte, and one of " + ", ".join(SPACES),
            )
    check = _Check(program)
    check.items(program.steps, {}, parted=False)
    if len(program.results) != program.destination.words:
        raise VerificationError(
            f"{len(program.results)} words are defined",
            where=program.name,
            expected=f"{program.destination.words}",
        )
    for index, value in enumerate(program.results):
        if check.known.get(value.number) != value or value.type != program.destination.type:
            raise VerificationError(
                f"word {index} of {program.destination.name} is {value} of type {value.type}",
                where=program.name,
                expected=f"a value that some step defines, of type {program.destination.type}",
            )
    return program


class _Check:
    """A walk through the items in order; `known` is what is defined at the end of the outermost body."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: dict[int, Value] = {}
        self.numbers: set[int] = set()
        self.constants: dict[int, int] = {}
        # operand and result types of the forms that were found right
        self.right: dict[tuple[object, ...], tuple[Types, Types]] = {}
        self.place = 0

    def items(self, items: tuple[Item, ...], outside: dict[int, Value], parted: bool) -> dict[int, Value]:
        """Check a body that sees what is known `outside` of it; all that is known at its end."""
        known = dict(outside)
        self.known = known
        for item in items:
            if isinstance(item, Step):
                fault = self.step(item, known, parted)
                if fault is not None:
                    raise VerificationError(f"step {self.place} {fault}", where=str(item))
                self.place += 1
            elif isinstance(item, When):
                self.use(item.predicate, known, "predicate")
                self.items(item.body, known, parted or not alike_in_all_lanes(self.program, item.predicate))
            else:
                self.loop(item, known, parted)
        self.known = known
        return known

    def loop(self, loop: Loop, known: dict[int, Value], parted: bool) -> None:
        """Check a loop and define its results."""
        if loop.count < 1:
            raise VerificationError(f"a loop runs {loop.count} times", where=self.program.name)
        inside = dict(known)
        self.define(loop.index, inside, "b32")
        for value in loop.carried:
            self.use(value.initial, known, value.inside.type)
            self.define(value.inside, inside, value.initial.type)
        end = self.items(loop.body, inside, parted)
        for value in loop.carried:
            self.use(value.following, end, value.inside.type)
            self.define(value.result, known, value.inside.type)

    def use(self, value: Value, known: dict[int, Value], kind: str) -> None:
        """A value that must be known and of this type."""
        if known.get(value.number) != value or value.type != kind:
            raise VerificationError(
                f"{value} of type {value.type} is used", where=self.program.name,
                expected=f"a value that some earlier step defines, of type {kind}",
            )  # fmt: skip

    def define(self, value: Value, known: dict[int, Value], kind: str) -> None:
        """A value that must be new and of this type."""
        if value.number in self.numbers or value.type != kind:
            raise VerificationError(
                f"{value} of type {value.type} is defined", where=self.program.name,
                expected=f"a new value, of type {kind}",
            )  # fmt: skip
        self.numbers.add(value.number)
        known[value.number] = value

    def step(self, step: Step, known: dict[int, Value], parted: bool) -> str | None:
        """What is wrong with a step, or None; its results are then known."""
        name, operands, numbers, results, symbol = step
        for operand in operands:
            found = known.get(operand[0])
            if found is not operand and found != operand:
                return f"uses {operand}, which no earlier step defines"
        expected = None if numbers or symbol else _PLAIN.get(name)
        if expected is None:
            known_types = self.types_of(step, parted)
            if isinstance(known_types, str):
                return known_types
            expected = known_types
        types = tuple([operand[1] for operand in operands])
        if types != expected[0]:
            return f"has operands of types {types}, not {expected[0]}"
        for result in results:
            number = result[0]
            if number in self.numbers:
                return f"defines {result} again"
            self.numbers.add(number)
            known[number] = result
        types = tuple([result[1] for result in results])
        if types != expected[1]:
            return f"defines values of types {types}, not {expected[1]}"
        if name == "constant":
            self.constants[step.result.number] = numbers[0]
        return None

    def types_of(self, step: Step, parted: bool) -> tuple[Types, Types] | str:
        """The types of operands and results, or what is wrong with the opcode or its numbers."""
        opcode = OPCODES.get(step.opcode)
        if opcode is None:
            return f"has the unknown opcode {step.opcode!r}"
        # what was right once is right again, but for the place of an access
        numbers = step.numbers[:-1] if opcode.symbol in SPACES else step.numbers
        form = opcode.name, numbers, step.symbol, parted
        right = self.right.get(form)
        if right is None:
            fault = self.form_fault(opcode, step, parted)
            if fault is not None:
                return fault
            right = self.right[form] = signature(step, self.program)
        elif opcode.symbol in SPACES:
            fault = self.access_fault(step)
            if fault is not None:
                return fault
        return right

    def form_fault(self, opcode: Opcode, step: Step, parted: bool) -> str | None:
        """What is wrong with a step's numbers, its name, or its place."""
        if not opcode.takes(len(step.numbers)):
            return f"has {len(step.numbers)} numbers, not {len(opcode.numbers)}"
        if opcode.collective and parted:
            return "is taken by all lanes together, but stands where lanes may have parted"
        fault = self.symbol_fault(opcode, step) if opcode.symbol or step.symbol else None
        return fault or (self.number_fault(opcode, step) if opcode.numbers or opcode.collective else None)

    def symbol_fault(self, opcode: Opcode, step: Step) -> str | None:
        """What is wrong with the name that a step gives."""
        program, symbol = self.program, step.symbol
        if opcode.symbol == "scope":
            return None if symbol in BARRIER_SCOPES else f"has the scope {symbol!r}, not warp or block"
        if opcode.symbol == "axis":
            return None if symbol in GRID_AXES else f"has the axis {symbol!r}, not x, y or z"
        if opcode.symbol == "instruction":
            return (
                None
                if program.instruction(symbol)
                else f"names the instruction {symbol!r}, which is not given"
            )
        if opcode.symbol in SPACES:
            memory = program.memory(symbol)
            known = memory is not None and memory.space == opcode.symbol
            return None if known else f"names {symbol!r}, which is no {opcode.symbol} memory here"
        return f"names {symbol!r}, which means nothing here" if symbol else None

    def number_fault(self, opcode: Opcode, step: Step) -> str | None:
        """What is wrong with a step's numbers."""
        program, name = self.program, opcode.name
        if name == "word":
            inside = 0 <= step.numbers[0] < program.source.words
            return None if inside else (
                f"reads {program.source.name}[{step.numbers[0]}] of {program.source.words} words"
            )  # fmt: skip
        if name in ("constant", "test"):
            inside = 0 <= step.numbers[0] < 1 << 32
            return None if inside else f"has the number {step.numbers[0]}, which is no 32-bit word"
        if name == "bit_swap":
            distance, mask = step.numbers
            inside = 0 < distance < 32 and 0 <= mask < 1 << 32 - distance
            return None if inside else f"moves the bits {mask:#x} by {distance}: not all inside a word"
        if name == "shuffle" and (step.numbers[0] < 1 or program.lanes % step.numbers[0]):
            return f"exchanges in segments of {step.numbers[0]} of {program.lanes} lanes"
        if opcode.symbol in SPACES:
            return self.access_fault(step)
        return move_fault(name, step.numbers, program.lanes)

    def access_fault(self, step: Step) -> str | None:
        """What is wrong with a memory access as far as its address is known."""
        size, offset = step.numbers[0], step.numbers[-1]
        memory = self.program.memory(step.symbol)
        assert memory is not None
        if len(step.numbers) == 3:
            if size not in MATRIX_COUNTS or step.numbers[1] not in (0, 1):
                return f"moves {size} matrices, transposed {step.numbers[1]}: not 1, 2 or 4, and 0 or 1"
            size = ROW_BYTES
        if size not in ACCESS_BYTES or offset < 0 or offset % size:
            return (
                f"moves {size} bytes at offset {offset}: not 1, 2, 4, 8 or 16 at a multiple of their number"
            )
        address = self.constants.get(step.operands[0].number, 0) + offset if step.operands else offset
        if address % size or address + size > memory.bytes:
            return f"moves {size} bytes at {address} of the {memory.bytes} bytes of {memory.name}"
        return None
