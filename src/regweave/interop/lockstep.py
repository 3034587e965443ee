"""A program in plain C that runs all lanes in lockstep: the exchange simulated on arrays, for any compiler.

    for (t = 0; t < 32; ++t) v7[t] = v3[t / 4 * 4 + v6[t] % 4];      // shuffle %3, %6 width 4

Every value is an array with one word per thread. It says what `programs.opcodes` says, in another language
and without NumPy, so that a person can check a plan on a machine that has neither a GPU nor Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regweave.errors import UnsupportedError
from regweave.interop.lockstep_helpers import HELPERS
from regweave.programs import Item, Loop, Program, Step, When, lane_moves

_EACH = "EACH"
_INFIX = {"and": "&", "or": "|", "xor": "^", "add": "+", "subtract": "-", "multiply": "*", "less": "<"}
_SHIFTS = {"shift_left": "<<", "shift_right": ">>"}
# other steps: {0}, {1}, {2} are the operands' words, {array} the first operand, {n} the first number
_TEMPLATES = {
    "lane": "(uint32_t)t % {lanes}u",
    "thread": "(uint32_t)t",
    "word": "x[{first} + t]",
    "constant": "{n}u",
    "test": "({0} & {n}u) != 0u",
    "select": "{0} ? {1} : {2}",
    "shuffle": "{array}[t / {n} * {n} + {1} % {n}u]",
    "half_swap": "{array}[t ^ 32]",
}
# steps that one of the helper functions computes, word by word
_CALLS = {*HELPERS} - {"transpose", "matrix_load", "matrix_store"}


def lockstep_text(program: Program, name: str) -> str:
    """`void NAME(const uint32_t *x, uint32_t *y)`: word i of thread t is `x[i * threads + t]`, likewise in y.

    Raises UnsupportedError for a kernel, and for steps that only make sense in one.
    """
    writer = _Writer(program)
    body = writer.items(program.steps, None)
    threads = program.lanes * program.warps
    body += [
        f"{_EACH} y[{i * threads} + t] = {writer.names[v.number]}[t];" for i, v in enumerate(program.results)
    ]
    memories = [f"static unsigned char {memory.name}[{memory.bytes}];" for memory in program.memories]
    helpers = [text for opcode, text in HELPERS.items() if opcode in writer.used]
    return "\n".join(
        [
            f"#define {_EACH} for (t = 0; t < {threads}; ++t)",
            "",
            *dict.fromkeys("\n".join(helpers).split("\n\n") if helpers else []),
            *memories,
            *(f"static uint32_t {array}[{threads}];" for array in writer.arrays),
            "",
            f"static void {name}(const uint32_t *x, uint32_t *y) {{",
            "    size_t t;",
            *(f"    {line}" for line in body),
            "}",
            "",
        ]
    )


class _Writer:
    """Writes the items of one program; `names` are the arrays of its values, `arrays` those to declare."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.threads = program.lanes * program.warps
        self.names: dict[int, str] = {}
        self.arrays: list[str] = []
        self.used: set[str] = set()

    def items(self, items: Sequence[Item], mask: str | None) -> list[str]:
        lines: list[str] = []
        for item in items:
            if isinstance(item, Step):
                lines += self.step(item, mask)
            elif isinstance(item, When):
                inner = self.array(f"m{item.predicate.number}_{len(self.arrays)}")
                held = f"{self.names[item.predicate.number]}[t]"
                lines.append(f"{_EACH} {inner}[t] = {held if mask is None else f'{mask}[t] && {held}'};")
                lines += self.items(item.body, inner)
            else:
                lines += self.loop(item, mask)
        return lines

    def loop(self, loop: Loop, mask: str | None) -> list[str]:
        lines: list[str] = []
        for value in loop.carried:
            array = self.array(f"v{value.inside.number}")
            lines.append(f"{_EACH} {array}[t] = {self.names[value.initial.number]}[t];")
            self.names[value.inside.number] = self.names[value.result.number] = array
        index = self.names[loop.index.number] = self.array(f"v{loop.index.number}")
        count = f"n{loop.index.number}"
        body = [f"{_EACH} {index}[t] = {count};", *self.items(loop.body, mask)]
        following = [(value, self.array(f"f{value.inside.number}")) for value in loop.carried]
        body += [
            f"{_EACH} {array}[t] = {self.names[value.following.number]}[t];" for value, array in following
        ]
        body += [f"{_EACH} {self.names[value.inside.number]}[t] = {array}[t];" for value, array in following]
        lines.append(f"for (uint32_t {count} = 0; {count} < {loop.count}u; ++{count}) {{")
        return [*lines, *(f"    {line}" for line in body), "}"]

    def array(self, name: str) -> str:
        self.arrays.append(name)
        return name

    def step(self, step: Step, mask: str | None) -> list[str]:
        operands = [self.names[value.number] for value in step.operands]
        if step.opcode in ("bits", "number"):
            self.names[step.result.number] = operands[0]
            return []
        results = [self.array(f"v{value.number}") for value in step.results]
        self.names.update(zip((value.number for value in step.results), results, strict=True))
        self.used.add(step.opcode)
        writer = _STATEMENTS.get(step.opcode)
        if writer is not None:
            return writer(self, step, operands, results, mask)
        text = self.expression(step, [f"{array}[t]" for array in operands], operands)
        return [f"{_EACH} {results[0]}[t] = {text};"]

    def expression(self, step: Step, words: list[str], arrays: list[str]) -> str:
        opcode, numbers = step.opcode, step.numbers
        if opcode in _INFIX:
            return f"{words[0]} {_INFIX[opcode]} {words[1]}"
        if opcode in _SHIFTS:
            return f"{words[0]} {_SHIFTS[opcode]} ({words[1]} & 31u)"
        if opcode in _CALLS:
            return f"{opcode}({', '.join(words)})"
        if opcode not in _TEMPLATES:
            raise UnsupportedError(f"{opcode} is not simulated in C", where=str(step))
        number = numbers[0] if numbers else 0
        return _TEMPLATES[opcode].format(
            *words, n=number, array=arrays[0] if arrays else "", lanes=self.program.lanes,
            first=number * self.threads,
        )  # fmt: skip


def _lane_swap(
    w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None
) -> list[str]:
    (a, b), (bit,) = operands, step.numbers
    return [
        f"{_EACH} {results[0]}[t] = t & {bit} ? {b}[t ^ {bit}] : {a}[t];",
        f"{_EACH} {results[1]}[t] = t & {bit} ? {b}[t] : {a}[t ^ {bit}];",
    ]


def _bit_swap(w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None) -> list[str]:
    (a, b), (low, high), (distance, bits) = operands, results, step.numbers
    return [
        f"{_EACH} {high}[t] = {b}[t] ^ ((({a}[t] >> {distance}) ^ {b}[t]) & {bits:#x}u);",
        f"{_EACH} {low}[t] = {a}[t] ^ (({high}[t] ^ {b}[t]) << {distance});",
    ]


def _peers(w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None) -> list[str]:
    """Moves whose pattern is a table of the lanes that are taken from."""
    if step.opcode == "row_move":
        found = lane_moves.row_move_peers(step.numbers[0], w.threads)
    else:
        low, high, cross = step.numbers
        found = lane_moves.row_permute_peers(low, high, cross, w.threads)
    peers = ", ".join(map(str, found.tolist()))
    return [
        "{",
        f"    static const unsigned short peers[{w.threads}] = {{{peers}}};",
        f"    {_EACH} {results[0]}[t] = {operands[0]}[peers[t]];",
        "}",
    ]


def _transpose(
    w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None
) -> list[str]:
    return [f"transpose({operands[0]}, {results[0]}, {w.threads});"]


def _pick(w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None) -> list[str]:
    """Pieces of two vectors, of as many bytes as there are places for them."""
    places, size = step.numbers, 4 * w.threads // len(step.numbers)
    return [
        "{",
        f"    static const unsigned short places[{len(places)}] = {{{', '.join(map(str, places))}}};",
        f"    unsigned char both[{8 * w.threads}];",
        f"    memcpy(both, {operands[0]}, {4 * w.threads});",
        f"    memcpy(both + {4 * w.threads}, {operands[1]}, {4 * w.threads});",
        f"    for (t = 0; t < {len(places)}; ++t)",
        f"        memcpy((char *){results[0]} + t * {size}, both + places[t] * {size}u, {size});",
        "}",
    ]


def _matrices(w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None) -> list[str]:
    _, transposed, offset = step.numbers
    return [
        f"{step.opcode}({step.symbol}, {operands[0]}, {word}, {at}, {transposed}, {offset}, {w.threads});"
        for at, word in enumerate(results or operands[1:])
    ]


def _nothing(w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None) -> list[str]:
    return []


def _access(w: _Writer, step: Step, operands: list[str], results: list[str], mask: str | None) -> list[str]:
    """Loads and stores of shared memory, word by word; only where the mask allows."""
    size, offset = step.numbers
    condition = "" if mask is None else f"if ({mask}[t]) "
    lines = [f"{_EACH} {name}[t] = 0;" for name in results]
    for at, word in enumerate(results or operands[1:]):
        place = f"{step.symbol} + {operands[0]}[t] + {offset + 4 * at}"
        ends = (f"&{word}[t]", place) if results else (place, f"&{word}[t]")
        lines.append(f"{_EACH} {condition}memcpy({ends[0]}, {ends[1]}, {min(size, 4)});")
    return lines


_Statement = Callable[[_Writer, Step, "list[str]", "list[str]", "str | None"], "list[str]"]
_STATEMENTS: dict[str, _Statement] = {
    "bit_swap": _bit_swap,
    "lane_swap": _lane_swap,
    "row_move": _peers,
    "row_permute": _peers,
    "transpose": _transpose,
    "pick": _pick,
    "matrix_load": _matrices,
    "matrix_store": _matrices,
    "barrier": _nothing,
    "shared_load": _access,
    "shared_store": _access,
}
