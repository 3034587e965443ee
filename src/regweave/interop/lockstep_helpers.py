"""What the lockstep simulation needs beyond C's operators: C functions by the opcode that needs them.

Functions that several opcodes share are parted by empty lines, and a text is written once however many need
it.
"""

from __future__ import annotations

from regweave.programs.narrowing import NARROWINGS, Narrowing
from regweave.programs.numbers import SMALL_FLOATS

_ROTATE = """static uint32_t rotate_right(uint32_t word, uint32_t amount) {
    return word >> (amount & 31u) | word << (-amount & 31u);
}
"""

_PERMUTE = """static uint32_t byte_permute(uint32_t low, uint32_t high, uint32_t selector) {
    uint64_t both = low | (uint64_t)high << 32;
    uint32_t result = 0;
    for (int place = 0; place < 4; ++place)
        result |= (uint32_t)(both >> (selector >> 4 * place & 7u) * 8 & 0xffu) << 8 * place;
    return result;
}
"""

_TRANSPOSE = """static void transpose(const uint32_t *given, uint32_t *turned, size_t threads) {
    for (size_t t = 0; t < threads; ++t) {
        size_t first = t & ~(size_t)31, row = t % 32 / 4, column = t % 4 * 2;
        uint32_t low = given[first + column * 4 + row / 2] >> row % 2 * 16 & 0xffffu;
        uint32_t high = given[first + column * 4 + 4 + row / 2] >> row % 2 * 16 & 0xffffu;
        turned[t] = low | high << 16;
    }
}
"""

# 8 x 8 matrices of halves in rows of 16 bytes whose addresses the lanes of a warp give, eight for each matrix
_MATRIX_LOAD = """static void matrix_load(const unsigned char *memory, const uint32_t *rows, uint32_t *words,
                        size_t matrix, int transposed, size_t offset, size_t threads) {
    for (size_t t = 0; t < threads; ++t) {
        const uint32_t *row = rows + (t & ~(size_t)31) + 8 * matrix;
        size_t g = t % 32 / 4, c = t % 4;
        unsigned char *word = (unsigned char *)&words[t];
        for (size_t half = 0; half < 2; ++half)
            memcpy(word + 2 * half, transposed ? memory + row[2 * c + half] + offset + 2 * g
                                               : memory + row[g] + offset + 4 * c + 2 * half, 2);
    }
}
"""

_MATRIX_STORE = """static void matrix_store(unsigned char *memory, const uint32_t *rows,
                         const uint32_t *words, size_t matrix, int transposed, size_t offset,
                         size_t threads) {
    for (size_t t = 0; t < threads; ++t) {
        const uint32_t *row = rows + (t & ~(size_t)31) + 8 * matrix;
        size_t g = t % 32 / 4, c = t % 4;
        const unsigned char *word = (const unsigned char *)&words[t];
        for (size_t half = 0; half < 2; ++half)
            memcpy(transposed ? memory + row[2 * c + half] + offset + 2 * g
                              : memory + row[g] + offset + 4 * c + 2 * half, word + 2 * half, 2);
    }
}
"""

# a float with `mantissa` bits and this exponent bias, its sign at `top`, rounded to nearest, ties to even.
# Below 16 bits a NaN becomes `none`, what is too large `most`, and there is no negative zero where `none` is
# its pattern
_NARROW = """static uint32_t narrow(uint32_t word, int mantissa, int bias, double most, int top,
                       uint32_t none) {
    float given;
    memcpy(&given, &word, 4);
    uint32_t sign = (word >> 31) << top;
    if (isnan(given)) {
        uint32_t payload = word >> 13 & 0x3ffu;
        return none != 0 ? none : sign | 0x7c00u | (payload != 0 ? payload : 1u);
    }
    double size = fabs((double)given);
    if (none != 0 && size > most) size = most;
    if (isinf(size)) return sign | 0x7c00u;
    int exponent = 1 - bias;
    if (size > 0) {
        frexp(size, &exponent);
        exponent = exponent - 1 > 1 - bias ? exponent - 1 : 1 - bias;
    }
    uint32_t bits = (uint32_t)(exponent - 1 + bias) << mantissa;
    bits += (uint32_t)rint(ldexp(size, mantissa - exponent));
    if (none == 0 && bits > 0x7c00u) bits = 0x7c00u;
    return bits == 0 && none == (uint32_t)1 << top ? 0 : sign | bits;
}
"""

_HALF = """static uint32_t pack_f16(uint32_t low, uint32_t high) {
    return narrow(low, 10, 15, 65504.0, 15, 0u) | narrow(high, 10, 15, 65504.0, 15, 0u) << 16;
}
"""

_BRAIN = """static uint32_t brain(uint32_t word) {
    if ((word & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
    return (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
}

static uint32_t pack_bf16(uint32_t low, uint32_t high) {
    return brain(low) | brain(high) << 16;
}
"""


_JOIN = """static uint32_t pack_low(uint32_t low, uint32_t high) {
    return (low & 0xffffu) | high << 16;
}

static uint32_t pack_high(uint32_t low, uint32_t high) {
    return low >> 16 | (high & 0xffff0000u);
}
"""


def _small(opcode: str, kind: Narrowing) -> str:
    form = SMALL_FLOATS[kind.dtype]
    facts = f"{form.mantissas}, {form.bias}, {form.largest}, {form.sign}, {form.nan:#x}u"
    low, high = (f"narrow({name}, {facts}) << {place + form.place}" for name, place in _places(kind))
    return f"{_NARROW}\n{_function(opcode, kind, low, high)}"


def _integers(opcode: str, kind: Narrowing) -> str:
    (least, most), mask = kind.bounds, (1 << kind.bits) - 1
    low, high = (f"{opcode}_bits({name}) << {place}" for name, place in _places(kind))
    return f"""static uint32_t {opcode}_bits(uint32_t word) {{
    int64_t value = word < 0x80000000u ? (int64_t)word : (int64_t)word - 0x100000000;
    value = value < {least} ? {least} : value > {most} ? {most} : value;
    return (uint32_t)value & {mask:#x}u;
}}

{_function(opcode, kind, low, high)}"""


def _places(kind: Narrowing) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("low", 0), ("high", kind.bits)


def _function(opcode: str, kind: Narrowing, low: str, high: str) -> str:
    above = (", uint32_t above", f" | above << {2 * kind.bits}") if kind.merges else ("", "")
    return f"""static uint32_t {opcode}(uint32_t low, uint32_t high{above[0]}) {{
    return {low} | {high}{above[1]};
}}
"""


HELPERS = {
    "rotate_right": _ROTATE,
    "byte_permute": _PERMUTE,
    "transpose": _TRANSPOSE,
    "matrix_load": _MATRIX_LOAD,
    "matrix_store": _MATRIX_STORE,
    "pack_f16": f"{_NARROW}\n{_HALF}",
    "pack_bf16": _BRAIN,
    "pack_low": _JOIN,
    "pack_high": _JOIN,
    **{
        opcode: (_integers if kind.taken == "b32" else _small)(opcode, kind)
        for opcode, kind in NARROWINGS.items()
        if kind.taken == "b32" or kind.dtype in SMALL_FLOATS
    },
}
