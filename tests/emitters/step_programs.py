"""Programs of one step each, for all steps that take words and give words, and words worth trying them on."""

import numpy as np

from regweave.programs import OPCODES, Array, ProgramBuilder
from regweave.programs.lane_moves import move_fault

# steps of words alone, neither memory nor anything else that has a name; `pick` is of machines without warps
PLAIN = [
    name for name, entry in OPCODES.items() if not entry.symbol and name not in ("word", "constant", "pick")
]
# what a float operation makes of bits that are no number, or of two zeros, is left open
FLOAT_STEPS = ("add_f32", "maximum_f32", "multiply_add_f32")
SELECTORS = np.uint32([0x0123, 0x7654, 0x5140, 0x7777, 0x3210, 0x6420])


def random_words(opcode, shape, rng):
    words = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    if opcode.operands and opcode.operands[0] == "f32":
        # numbers of all sizes, and the odd ones among them
        numbers = rng.normal(size=shape) * 2.0 ** rng.integers(-24, 20, shape)
        words = numbers.astype(np.float32).view(np.uint32)
        if opcode.name not in FLOAT_STEPS:
            odd = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e38, 448, 464, 465, 2.0**-10, 57344, 65504])
            words[: odd.size, : len(opcode.operands)] = odd.view(np.uint32)[:, None]
    if opcode.name == "divide":
        words[:, 1] = words[:, 1] % 1000 + 1
    if opcode.name == "widen_f16":
        words[:, 0] = rng.normal(size=shape[0]).astype(np.float16).view(np.uint16)
    if opcode.name == "byte_permute":
        words[:, 2] = rng.choice(SELECTORS, shape[0])
    if opcode.name.startswith("pack") and opcode.operands[0] == "b32":
        words[:, :2] = rng.integers(-300, 300, (shape[0], 2)).astype(np.int32).view(np.uint32)
    return words


def one_step(name, lanes, numbers):
    """A program that takes this step on its first words; predicates are tested bits, or stored as 0 and 1."""
    opcode = OPCODES[name]
    kinds = ["f32" if kind == "f32" else "b32" for kind in opcode.operands]
    builder = ProgramBuilder(f"try_{name}", lanes, Array("source", "b32", max(1, len(kinds))),
                             Array("destination", "b32", len(opcode.results)))  # fmt: skip
    operands = []
    for index, kind in enumerate(opcode.operands):
        word = builder.word(index)
        if kind == "f32":
            word = builder.step("number", (word,))
        operands.append(builder.step("test", (word,), (4,)) if kind == "predicate" else word)
    results = []
    for value in builder.apply(name, operands, numbers):
        if value.type == "f32":
            value = builder.step("bits", (value,))
        if value.type == "predicate":
            value = builder.step("select", (value, builder.constant(1), builder.constant(0)))
        results.append(value)
    return builder.finish(results)


def numbers_of(opcode, lanes):
    """All sets of numbers worth trying in a warp of this size."""
    if not opcode.numbers:
        return [()] if not move_fault(opcode.name, (), lanes) else []
    choices = {
        ("width",): [(4,), (8,), (lanes,)],
        ("mask",): [(1,), (0x80000000,)],
        ("bit",): [(16,), (32,)],
        ("distance", "mask"): [(1, 0x55555555), (4, 0x0F0F0F0F), (31, 1)],
        ("control",): [(0x1B,), (0xB1,), (0x121,), (0x12F,), (0x140,), (0x141,), (0x153,), (0x16A,)],
        ("low", "high", "cross"): [(0x76543210, 0xFEDCBA98, 1), (0x01234567, 0x89ABCDEF, 0)],
    }
    return [numbers for numbers in choices[opcode.numbers] if not move_fault(opcode.name, numbers, lanes)]
