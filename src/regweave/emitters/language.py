"""What a C-like language is to the printer: words and tables.

A step is an expression of its operands (`expressions`), or a few statements that declare its results
(`statements`), and may need a helper function that stands above the program (`helpers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from regweave.programs import Program, Step

# operands as text and the step's numbers -> the step as an expression
Expression = Callable[[Sequence[str], Sequence[int]], str]


@dataclass(frozen=True)
class Place:
    """Where a statement stands: the step, the program, its operands as text and names for its results.

    `texts` are all values so far, and `steps` what defined them, both by the value's number.
    """

    step: Step
    program: Program
    values: tuple[str, ...]
    names: tuple[str, ...]
    texts: Mapping[int, str]
    steps: Mapping[int, Step]


# the lines of a statement, and its results as text
Statement = Callable[[Place], tuple[list[str], list[str]]]


@dataclass(frozen=True, eq=False)
class Language:
    """A language's words, most of them templates.

    `types` are those of values, `byte` is an unsigned byte, `spaces` the words for shared and global memory,
    or empty. `function` stands before a device function's name, `kernel` before a kernel's, for a block of
    `{threads}` threads in warps of `{lanes}`. `array` declares a parameter `{name}` of `{words}` words of a
    `{kind}`, `shared_array` a kernel's own shared memory `{name}` of `{bytes}` bytes. `thread` is the number
    of the thread within its block, as an expression; blocks are one-dimensional where it matters.
    `lone_kernel` stands before a kernel whose lanes do nothing together, if that is something else.
    """

    name: str
    types: Mapping[str, str]
    byte: str
    spaces: Mapping[str, str]
    function: str
    kernel: str
    array: str
    shared_array: str
    thread: str
    expressions: Mapping[str, Expression]
    statements: Mapping[str, Statement]
    helpers: Mapping[str, str]
    lone_kernel: str = ""


def infix(sign: str) -> Expression:
    """An operator between two operands."""
    return lambda values, numbers: f"{values[0]} {sign} {values[1]}"


def call(name: str) -> Expression:
    """A function of all operands."""
    return lambda values, numbers: f"{name}({', '.join(values)})"


def constant(value: int) -> str:
    """A 32-bit constant."""
    return f"{value}u" if value < 256 else f"{value:#010x}u"


def lane_of(place: Place, otherwise: str) -> str:
    """The lane's number: the name that it already has in the program, or else this expression."""
    lanes = (value for value, step in place.steps.items() if step.opcode == "lane" and value in place.texts)
    return next((place.texts[value] for value in lanes), otherwise)


def _bit_swap(place: Place) -> tuple[list[str], list[str]]:
    (low, high), (first, second), (distance, mask) = place.values, place.names, place.step.numbers
    return [
        f"const unsigned {first}t = (({low} >> {distance}u) ^ {high}) & {constant(mask)};",
        f"const unsigned {first} = {low} ^ ({first}t << {distance}u);",
        f"const unsigned {second} = {high} ^ {first}t;",
    ], [first, second]


# steps that every C-like language writes alike
COMMON_EXPRESSIONS: dict[str, Expression] = {
    "and": infix("&"),
    "or": infix("|"),
    "xor": infix("^"),
    "add": infix("+"),
    "subtract": infix("-"),
    "multiply": infix("*"),
    "shift_left": infix("<<"),
    "shift_right": infix(">>"),
    "test": lambda values, numbers: f"({values[0]} & {constant(numbers[0])}) != 0u",
    "less": infix("<"),
    "divide": infix("/"),
    "add_f32": infix("+"),
    "select": lambda values, numbers: f"{values[0]} ? {values[1]} : {values[2]}",
}

COMMON_STATEMENTS: dict[str, Statement] = {"bit_swap": _bit_swap}
