"""What the lockstep simulation needs beyond C's operators: C functions by the opcode that needs them.

Functions that several opcodes share are parted by empty lines, and a text is written once however many need
it.
"""

from __future__ import annotations

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

# a float with `mantissa` bits and this exponent bias, rounded to nearest, ties to even; of 8 bits if it has a
# pattern `nan`, kept below `most` then, and without negative zero where that pattern is the NaN
_NARROW = """static uint32_t narrow(uint32_t word, int mantissa, int bias, double most, uint32_t nan_bits) {
    float given;
    memcpy(&given, &word, 4);
    uint32_t sign = (word >> 31) << (nan_bits != 0 ? 7 : 15);
    if (isnan(given)) {
        uint32_t payload = word >> 13 & 0x3ffu;
        return nan_bits != 0 ? nan_bits : sign | 0x7c00u | (payload != 0 ? payload : 1u);
    }
    double size = fabs((double)given);
    if (nan_bits != 0 && size > most) size = most;
    if (isinf(size)) return sign | 0x7c00u;
    int exponent = 1 - bias;
    if (size > 0) {
        frexp(size, &exponent);
        exponent = exponent - 1 > 1 - bias ? exponent - 1 : 1 - bias;
    }
    uint32_t bits = (uint32_t)(exponent - 1 + bias) << mantissa;
    bits += (uint32_t)rint(ldexp(size, mantissa - exponent));
    if (nan_bits == 0 && bits > 0x7c00u) bits = 0x7c00u;
    return bits == 0 && nan_bits == 0x80u ? 0 : sign | bits;
}
"""

_HALF = """static uint32_t pack_f16(uint32_t low, uint32_t high) {
    return narrow(low, 10, 15, 65504.0, 0u) | narrow(high, 10, 15, 65504.0, 0u) << 16;
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


def _eight(name: str, mantissa: int, bias: int, largest: float, nan: int = 0x7F) -> str:
    numbers = f"{mantissa}, {bias}, {largest}, {nan:#x}u"
    return f"""{_NARROW}
static uint32_t {name}(uint32_t low, uint32_t high, uint32_t above) {{
    return narrow(low, {numbers}) | narrow(high, {numbers}) << 8 | above << 16;
}}
"""


def _integers(name: str, smallest: int, largest: int) -> str:
    return f"""static uint32_t {name}_bits(uint32_t word) {{
    int64_t value = word < 0x80000000u ? (int64_t)word : (int64_t)word - 0x100000000;
    value = value < {smallest} ? {smallest} : value > {largest} ? {largest} : value;
    return (uint32_t)value & 0xffu;
}}

static uint32_t {name}(uint32_t low, uint32_t high, uint32_t above) {{
    return {name}_bits(low) | {name}_bits(high) << 8 | above << 16;
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
    "pack_e4m3": _eight("pack_e4m3", 3, 7, 448.0),
    "pack_e5m2": _eight("pack_e5m2", 2, 15, 57344.0),
    "pack_e4m3fnuz": _eight("pack_e4m3fnuz", 3, 8, 240.0, 0x80),
    "pack_e5m2fnuz": _eight("pack_e5m2fnuz", 2, 16, 57344.0, 0x80),
    "pack_s8": _integers("pack_s8", -128, 127),
    "pack_u8": _integers("pack_u8", 0, 255),
}
