"""AMD's matrix and dot instructions as the compiler's builtins.

    v_mfma_f32_32x32x8_f16 is __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)

Every operand is one value: its words are gathered and cast to the vector that the builtin takes, and the
words of the result are taken apart again. None of that costs an instruction. What stands beside the three
operands differs between families: broadcasts of MFMA (none), formats of f8f6f4, signs and clamping of
integers in WMMA, clamping of dot products.
"""

from __future__ import annotations

from regweave.emitters.language import Place
from regweave.errors import UnsupportedError
from regweave.layouts import Layout
from regweave.machines.gpu import MatrixInstruction

_PREFIX = "__builtin_amdgcn_"
# the numbers by which f8f6f4 names the types of its operands
_FORMATS = {"e4m3": 0, "e5m2": 1, "e2m3": 2, "e3m2": 3, "e2m1": 4}
_SCALED_WORDS = 8


def matrix_statement(place: Place) -> tuple[list[str], list[str]]:
    """D of a matrix instruction. UnsupportedError if the compiler has no builtin for it."""
    instruction = place.program.instruction(place.step.symbol)
    assert instruction is not None
    if not instruction.builtin.startswith(_PREFIX):
        raise UnsupportedError(f"{instruction.name} is not written in HIP C++")
    family = instruction.builtin.removeprefix(_PREFIX)
    values, operands = list(place.values), []
    for operand in "ABC":
        layout = instruction.fragments[operand]
        words = [values.pop(0) for _ in range(layout.registers)]
        if family.startswith("mfma_scale") and operand != "C":
            words += ["0u"] * (_SCALED_WORDS - len(words))
        kind = _operand_type(layout, len(words), family)
        operands.append(f"__builtin_bit_cast({kind}, {_gathered(layout, words)})")
    call = f"{instruction.builtin}({', '.join(_arguments(instruction, family, operands))})"
    name, count = place.names[0], len(place.names)
    element = "float" if instruction.fragments["D"].dtype == "f32" else "unsigned"
    line = f"const auto {name} = __builtin_bit_cast({_vector(element, count)}, {call});"
    return [line], [name] if count == 1 else [f"{name}[{number}]" for number in range(count)]


def _arguments(instruction: MatrixInstruction, family: str, operands: list[str]) -> list[str]:
    a, b, c = operands
    fragments = instruction.fragments
    if family.startswith("mfma_scale"):
        formats = [str(_FORMATS[fragments[operand].dtype]) for operand in "AB"]
        return [a, b, c, *formats, "0", "0", "0", "0"]
    if family.startswith("mfma"):
        return [a, b, c, "0", "0", "0"]
    if family.startswith("wmma_i32"):
        signs = [str(fragments[operand].dtype.startswith("s")).lower() for operand in "AB"]
        return [signs[0], a, signs[1], b, c, "false"]
    if family.startswith("wmma"):
        # a result of 16 bits lies in one half of each register where the type says so
        return [a, b, c, *(["false"] if fragments["C"].dtype.endswith("_lo") else [])]
    return [a, b, c, "false"]


def _gathered(layout: Layout, words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    element = "float" if layout.dtype == "f32" else "unsigned"
    return f"({_vector(element, len(words))}){{{', '.join(words)}}}"


def _operand_type(layout: Layout, words: int, family: str) -> str:
    """The type that a builtin takes for this many words of a layout's."""
    dtype = layout.dtype.removesuffix("_lo")
    if dtype == "f64":
        return _vector("double", words // 2)
    if dtype in ("f32", "tf32"):
        return _vector("float", words)
    if dtype in ("f16", "s16", "u16"):
        element = {"f16": "_Float16", "s16": "short", "u16": "unsigned short"}[dtype]
        return _vector(element, 2 * words)
    if dtype == "bf16":
        # what came with gfx950 takes the type itself, what is older its bits
        new = family.startswith("fdot2") or (family.startswith("mfma") and words == 4)
        return _vector("__bf16" if new else "short", 2 * words)
    if dtype[0] == "u":
        return _vector("unsigned", words)
    return "long" if words == 2 and family.startswith("mfma") else _vector("int", words)


def _vector(element: str, count: int) -> str:
    return element if count == 1 else f"{element} __attribute__((ext_vector_type({count})))"
