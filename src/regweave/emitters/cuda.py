"""Lane-level programs as CUDA C++: one inline device function each.

    // mma.m16n8k8.tf32:C -> mma.m16n8k8.tf32:A: exchange (direct), ...
    __device__ __forceinline__ void name(const float (&source)[4], unsigned (&destination)[4]) {
        unsigned lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
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
from collections.abc import Callable, Sequence
from typing import TypeAlias

from regweave.programs import Program, Step, check_program

_TYPES = {"f32": "float", "b32": "unsigned", "predicate": "bool"}
_INDENT = "    "

Writer: TypeAlias = Callable[[Sequence[str], Sequence[int]], str]


def _infix(sign: str) -> Writer:
    return lambda values, numbers: f"{values[0]} {sign} {values[1]}"


def _packed(conversion: str, low: str, high: str) -> str:
    body = f".reg .b16 l, h; {conversion} l, %1; {conversion} h, %2; mov.b32 %0, {{l, h}};"
    return f'asm("{{ {body} }}" : "=r"({{name}}) : "f"({low}), "f"({high}));'


def _integers(kind: str, low: str, high: str, above: str) -> str:
    text = f"cvt.pack.sat.{kind}.s32.b32 %0, %1, %2, %3;"
    return f'asm("{text}" : "=r"({{name}}) : "r"({high}), "r"({low}), "r"({above}));'


def _floats(kind: str, low: str, high: str, above: str) -> str:
    narrowed = f"cvt.rn.satfinite.{kind}.f32 l, %1, %2;"
    body = f".reg .b16 l, h, x; {narrowed} mov.b32 {{h, x}}, %3; mov.b32 %0, {{l, h}};"
    return f'asm("{{ {body} }}" : "=r"({{name}}) : "f"({high}), "f"({low}), "r"({above}));'


# steps that are an expression of their operands
_EXPRESSIONS: dict[str, Writer] = {
    "bits": lambda values, numbers: f"__float_as_uint({values[0]})",
    "number": lambda values, numbers: f"__uint_as_float({values[0]})",
    "and": _infix("&"),
    "or": _infix("|"),
    "xor": _infix("^"),
    "add": _infix("+"),
    "subtract": _infix("-"),
    "shift_left": _infix("<<"),
    "shift_right": _infix(">>"),
    "rotate_right": lambda values, numbers: f"__funnelshift_r({values[0]}, {values[0]}, {values[1]})",
    "byte_permute": lambda values, numbers: f"__byte_perm({', '.join(values)})",
    "test": lambda values, numbers: f"({values[0]} & {numbers[0]}u) != 0u",
    "select": lambda values, numbers: f"{values[0]} ? {values[1]} : {values[2]}",
    "shuffle": lambda values, numbers: f"__shfl_sync(0xffffffffu, {values[0]}, {values[1]}, {numbers[0]})",
}

# steps that are statements of their own; `{name}` is the value that they define
_STATEMENTS: dict[str, Writer] = {
    "lane": lambda values, numbers: 'asm("mov.u32 %0, %%laneid;" : "=r"({name}));',
    "pack_s8": lambda values, numbers: _integers("s8", *values),
    "pack_u8": lambda values, numbers: _integers("u8", *values),
    "pack_e4m3": lambda values, numbers: _floats("e4m3x2", *values),
    "pack_e5m2": lambda values, numbers: _floats("e5m2x2", *values),
    "pack_f16": lambda values, numbers: _packed("cvt.rn.f16.f32", *values),
    "pack_bf16": lambda values, numbers: _packed("cvt.rn.bf16.f32", *values),
}

# steps that are written where they are used: they take no instruction
_IN_PLACE = ("bits", "number")
# steps that are easier to read in their place if they have one reader
_INDEX_ARITHMETIC = ("and", "or", "xor", "add", "subtract", "shift_left", "shift_right", "rotate_right")


def cuda_function(program: Program, comments: Sequence[str] = ()) -> str:
    """The program as an inline device function; `comments` stand above it, one line each."""
    check_program(program)
    body = _body(program)
    source, destination = program.source, program.destination
    signature = (
        f"__device__ __forceinline__ void {program.name}(\n"
        f"{_INDENT}const {_TYPES[source.type]} (&{source.name})[{source.words}], "
        f"{_TYPES[destination.type]} (&{destination.name})[{destination.words}]) {{"
    )
    heading = [f"// {comment}" for comment in comments]
    return "\n".join([*heading, signature, *(_INDENT + line for line in body), "}"]) + "\n"


def _body(program: Program) -> list[str]:
    uses = Counter(operand.number for step, _ in program.walk() for operand in step.operands)
    texts: dict[int, str] = {}
    lines: list[str] = []
    for step, _ in program.walk():
        values = [texts[operand.number] for operand in step.operands]
        name, kind = _name(step), _TYPES[step.result.type]
        if step.opcode == "constant":
            name = f"{step.numbers[0]}u" if step.numbers[0] < 256 else f"{step.numbers[0]:#010x}u"
        elif step.opcode == "word":
            # read before anything is written, so that source and destination may be the same registers
            lines.append(f"const {kind} {name} = {program.source.name}[{step.numbers[0]}];")
        elif step.opcode in _STATEMENTS:
            statement = _STATEMENTS[step.opcode](values, step.numbers)
            lines += [f"{kind} {name};", statement.replace("{name}", name)]
        else:
            expression = _EXPRESSIONS[step.opcode](values, step.numbers)
            if step.opcode in _IN_PLACE:
                name = expression
            elif step.opcode in _INDEX_ARITHMETIC and uses[step.result.number] == 1:
                name = f"({expression})"
            else:
                lines.append(f"const {kind} {name} = {expression};")
        texts[step.result.number] = name
    stored = enumerate(texts[value.number] for value in program.results)
    return [*lines, *(f"{program.destination.name}[{index}] = {text};" for index, text in stored)]


def _name(step: Step) -> str:
    if step.opcode == "lane":
        return "lane"
    return f"s{step.numbers[0]}" if step.opcode == "word" else f"v{step.result.number}"
