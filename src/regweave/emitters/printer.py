"""What the C-like languages have in common: a program becomes one inline function, or one kernel.

    // mma.m16n8k8.tf32:C -> mma.m16n8k8.tf32:A: exchange (direct), ...
    __device__ __forceinline__ void name(const float (&source)[4], unsigned (&destination)[4]) {
        ...
        const unsigned v3 = (lane >> 1u) & 1u;
        ...
        destination[0] = v26;
    }

Every array index is a number, so that after inlining the arrays are registers and nothing goes to local
memory. The function needs no header. Index arithmetic depends on nothing but the lane, so compilers move
it out of loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regweave.emitters.language import Language, Place, constant
from regweave.errors import UnsupportedError
from regweave.programs import OPCODES, Item, Loop, Program, Step, Value, When, check_program

INDENT = "    "

# steps that are written where they are used: they take no instruction
_IN_PLACE = ("bits", "number")
# steps that are easier to read in their place if they have one reader
_SHIFTS = ("shift_left", "shift_right", "rotate_right")
_INDEX_ARITHMETIC = ("and", "or", "xor", "add", "subtract", "multiply", *_SHIFTS)


class Printer:
    """Writes one program in one language."""

    def __init__(self, program: Program, language: Language) -> None:
        self.language = language
        self.program = check_program(program)
        self._texts: dict[int, str] = {}
        self._steps = {value.number: step for step, _ in program.walk() for value in step.results}
        self._uses = _uses(program)

    def text(self, comments: Sequence[str] = ()) -> str:
        """The program as an inline device function, or as a kernel if it has no words of its own.

        `comments` stand above it, one line each. UnsupportedError if the language has no word for a step.
        """
        program = self.program
        lines = self._items(program.steps)
        stored = enumerate(self._texts[value.number] for value in program.results)
        lines += [f"{program.destination.name}[{index}] = {text};" for index, text in stored]
        helpers = dict.fromkeys(self.language.helpers.get(step.opcode, "") for step, _ in program.walk())
        if program.kernel:
            lines = [*self._shared_arrays(), *lines]
        heading = self._kernel_words() if program.kernel else self.language.function
        signature = f"{heading} {program.name}(\n{INDENT}{', '.join(self._parameters())}) {{"
        above = [*(text for text in helpers if text), *(f"// {comment}" for comment in comments)]
        return "\n".join([*above, signature, *indented(lines), "}"]) + "\n"

    def trial(self, name: str, *, converted: bool) -> str:
        """A kernel `name(x, y)` that loads words, gives them to the function and stores what comes back.

        Word i of thread t of the block is `x[i * threads + t]`, and likewise in y. Unless `converted`, the
        words are stored as they are, for which there must be as many: what is left is the kernel without its
        function.
        """
        program = self.program
        source, destination, threads = program.source, program.destination, program.lanes * program.warps
        assert converted or source.words == destination.words, "the words are different ones"
        taken, given = self.language.types[source.type], self.language.types[destination.type]
        places = [f"[{index * threads}u + thread]" for index in range(max(source.words, destination.words))]
        arrays = [memory.name for memory in program.memories]
        called = f"{program.name}({', '.join(['held', 'wanted', *arrays])});"
        as_given = {"f32": "number", "b32": "bits"}[destination.type]
        bare = (
            "held[{}]"
            if source.type == destination.type
            else self.language.expressions[as_given](["held[{}]"], ())
        )
        lines = [
            *self._shared_arrays(),
            f"const {self.language.types['b32']} thread = {self.language.thread};",
            f"{taken} held[{source.words}];",
            f"{given} wanted[{destination.words}];",
            *(f"held[{index}] = x{places[index]};" for index in range(source.words)),
            *([called] if converted else (f"wanted[{i}] = {bare.format(i)};" for i in range(source.words))),
            *(f"y{places[index]} = wanted[{index}];" for index in range(destination.words)),
        ]
        space = f"{self.language.spaces['global']} ".lstrip()
        signature = f"{self._kernel_words()} {name}({space}const {taken} *x, {space}{given} *y) {{"
        return "\n".join([signature, *indented(lines), "}"]) + "\n"

    def _kernel_words(self) -> str:
        lanes, warps = self.program.lanes, self.program.warps
        opcodes = {step.opcode for step, _ in self.program.walk()}
        alone = "lane" not in opcodes and not any(OPCODES[name].collective for name in opcodes)
        words = self.language.lone_kernel if alone else self.language.kernel
        return (words or self.language.kernel).format(lanes=lanes, threads=lanes * warps)

    def _parameters(self) -> list[str]:
        program, types = self.program, self.language.types
        source, destination = program.source, program.destination
        written = {step.symbol for step, _ in program.walk() if step.opcode == "global_store"}
        arrays = [(f"const {types[source.type]}", source), (types[destination.type], destination)]
        parameters = [
            self.language.array.format(kind=kind, name=array.name, words=array.words)
            for kind, array in arrays
            if array.words
        ]
        for memory in program.memories:
            if memory.space == "global":
                const = "" if memory.name in written else "const"
                parameters.append(self._pointer("global", const, memory.name))
            elif not program.kernel:
                parameters.append(self._pointer("shared", "", memory.name))
        return parameters

    def _pointer(self, space: str, const: str, name: str) -> str:
        return " ".join(
            word for word in (self.language.spaces[space], const, f"{self.language.byte} *{name}") if word
        )

    def _shared_arrays(self) -> list[str]:
        shared = (memory for memory in self.program.memories if memory.space == "shared")
        return [self.language.shared_array.format(name=memory.name, bytes=memory.bytes) for memory in shared]

    def _items(self, items: Sequence[Item]) -> list[str]:
        lines: list[str] = []
        for item in items:
            if isinstance(item, Step):
                lines += self._step(item)
            elif isinstance(item, Loop):
                lines += self._loop(item)
            else:
                lines += self._when(item)
        return lines

    def _when(self, when: When) -> list[str]:
        return [f"if ({self._texts[when.predicate.number]}) {{", *indented(self._items(when.body)), "}"]

    def _loop(self, loop: Loop) -> list[str]:
        lines, names = [], []
        for value in loop.carried:
            names.append(f"v{value.inside.number}")
            lines.append(
                f"{self.language.types[value.inside.type]} {names[-1]} = {self._texts[value.initial.number]};"
            )
            self._texts[value.inside.number] = self._texts[value.result.number] = names[-1]
        index = self._texts[loop.index.number] = f"v{loop.index.number}"
        body = self._items(loop.body)
        # all are computed before any is replaced: one may be computed from another
        handed = [f"n{value.inside.number}" for value in loop.carried]
        for value, name in zip(loop.carried, handed, strict=True):
            kind = self.language.types[value.inside.type]
            body.append(f"const {kind} {name} = {self._texts[value.following.number]};")
        body += [f"{name} = {following};" for name, following in zip(names, handed, strict=True)]
        heading = f"for ({self.language.types['b32']} {index} = 0u; {index} < {loop.count}u; ++{index}) {{"
        return [*lines, heading, *indented(body), "}"]

    def _step(self, step: Step) -> list[str]:
        if step.opcode == "constant":
            self._texts[step.result.number] = constant(step.numbers[0])
            return []
        values = tuple(self._texts[operand.number] for operand in step.operands)
        names = tuple(_name(step, result) for result in step.results)
        if step.opcode == "word":
            # read before anything is written, so that source and destination may be the same registers
            kind = self.language.types[step.result.type]
            lines = [f"const {kind} {names[0]} = {self.program.source.name}[{step.numbers[0]}];"]
            results = list(names)
        elif step.opcode in self.language.expressions:
            lines, results = self._expression(step, values, names[0])
        elif step.opcode in self.language.statements:
            place = Place(step, self.program, values, names, self._texts, self._steps)
            lines, results = self.language.statements[step.opcode](place)
        else:
            raise UnsupportedError(
                f"{self.language.name} has no word for {step.opcode}",
                where=str(step),
                fix="plan for a machine that this language is for",
            )
        self._texts.update(zip((result.number for result in step.results), results, strict=True))
        return lines

    def _expression(self, step: Step, values: tuple[str, ...], name: str) -> tuple[list[str], list[str]]:
        text = self.language.expressions[step.opcode](values, step.numbers)
        if step.opcode in _IN_PLACE:
            return [], [text]
        if step.opcode in _INDEX_ARITHMETIC and self._uses[step.result.number] == 1:
            return [], [f"({text})"]
        return [f"const {self.language.types[step.result.type]} {name} = {text};"], [name]


def indented(lines: Sequence[str]) -> list[str]:
    """The lines of a body."""
    return [INDENT + line for line in lines]


def _name(step: Step, value: Value) -> str:
    if step.opcode in ("lane", "thread"):
        return step.opcode
    return f"s{step.numbers[0]}" if step.opcode == "word" else f"v{value.number}"


def _uses(program: Program) -> Counter[int]:
    """How often each value is read."""
    counts = Counter(value.number for value in program.results)

    def read(items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Step):
                counts.update(operand.number for operand in item.operands)
                continue
            if isinstance(item, Loop):
                counts.update(value.number for c in item.carried for value in (c.initial, c.following))
            else:
                counts[item.predicate.number] += 1
            read(item.body)

    read(program.steps)
    return counts
