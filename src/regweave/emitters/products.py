"""AMD's matrix instructions as the compiler's builtins.

    v_mfma_f32_32x32x8_f16 becomes __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)

Every operand is one value: its words are gathered and cast to the vector that the builtin takes, and the
words of the result are taken apart again. None of that costs an instruction. The builtins are named after the
mnemonics with which the instructions were introduced, which is what the catalogue calls their aliases.
"""

from __future__ import annotations

from regweave.emitters.language import Place
from regweave.errors import UnsupportedError
from regweave.layouts import Layout
from regweave.machines.gpu import MatrixInstruction

_VECTOR = "{element} __attribute__((ext_vector_type({count})))"


def matrix_statement(place: Place) -> tuple[list[str], list[str]]:
    """D of an MFMA instruction."""
    instruction = place.program.instruction(place.step.symbol)
    assert instruction is not None
    values = list(place.values)
    operands = []
    for operand in "ABC":
        layout = instruction.fragments[operand]
        words = [values.pop(0) for _ in range(layout.registers)]
        operands.append(f"__builtin_bit_cast({_operand_type(layout)}, {_gathered(layout, words)})")
    kind, name = "float" if instruction.fragments["D"].dtype == "f32" else "unsigned", place.names[0]
    count = len(place.names)
    cast = _VECTOR.format(element=kind, count=count)
    call = f"{_builtin(instruction)}({', '.join(operands)}, 0, 0, 0)"
    line = f"const auto {name} = __builtin_bit_cast({cast}, {call});"
    return [line], [f"{name}[{number}]" for number in range(count)]


def _builtin(instruction: MatrixInstruction) -> str:
    names = [name for name in (instruction.mnemonic, *instruction.aliases) if name.startswith("v_mfma_")]
    if not names:
        raise UnsupportedError(
            f"{instruction.name} is not written in HIP C++", expected="an MFMA instruction"
        )
    return "__builtin_amdgcn_" + names[-1].removeprefix("v_")


def _gathered(layout: Layout, words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    element = "float" if layout.dtype == "f32" else "unsigned"
    return f"({_VECTOR.format(element=element, count=len(words))}){{{', '.join(words)}}}"


def _operand_type(layout: Layout) -> str:
    """The type that a builtin takes for a layout's registers."""
    registers = layout.registers
    if layout.dtype == "f64":
        return _vector("double", registers // 2)
    if layout.dtype in ("f32", "tf32", "xf32"):
        return _vector("float", registers)
    if layout.dtype == "f16":
        return _vector("_Float16", 2 * registers)
    if layout.dtype == "bf16":
        return _vector("short", 2 * registers) if registers < 4 else _vector("__bf16", 2 * registers)
    return "long" if registers == 2 else _vector("int", registers)


def _vector(element: str, count: int) -> str:
    return element if count == 1 else _VECTOR.format(element=element, count=count)
