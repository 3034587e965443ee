"""What hardware does in one instruction, as functions in plain OpenCL C that stand above a program.

Each is guarded, so that the texts of several programs can stand in one file.
"""

WIDEN_F16 = """\
#ifndef REGWEAVE_WIDEN_F16
#define REGWEAVE_WIDEN_F16
static inline float regweave_widen_f16(uint word) {
    const ushort low = word;
    return vload_half(0, (const half *)&low);
}
#endif"""

PACK_F16 = """\
#ifndef REGWEAVE_PACK_F16
#define REGWEAVE_PACK_F16
static inline uint regweave_pack_f16(float low, float high) {
    ushort halves[2];
    vstore_half_rte(low, 0, (half *)halves);
    vstore_half_rte(high, 1, (half *)halves);
    return halves[0] | (uint)halves[1] << 16;
}
#endif"""

PACK_BF16 = """\
#ifndef REGWEAVE_PACK_BF16
#define REGWEAVE_PACK_BF16
// the high half of an f32, rounded to nearest, ties to even; a NaN stays one
static inline uint regweave_bf16(uint bits) {
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
static inline uint regweave_pack_bf16(float low, float high) {
    return regweave_bf16(as_uint(low)) | regweave_bf16(as_uint(high)) << 16;
}
#endif"""

SMALL_FLOAT = """\
#ifndef REGWEAVE_SMALL_FLOAT
#define REGWEAVE_SMALL_FLOAT
// an f32 in at most 8 bits, rounded to nearest, ties to even; too large becomes the largest, a NaN `none`
static inline uint regweave_small_float(
    float x, uint mantissa, uint bias, float largest, uint top, uint none) {
    const uint sign = as_uint(x) >> 31 << top, size = min(as_uint(x) & 0x7fffffffu, as_uint(largest));
    const uint drop = 23u - mantissa, lowest = 128u - bias;
    // below the normal range the step stays what it is: 2 to the power of lowest - 127 - mantissa
    const uint steps = (uint)rint(as_float(size) * as_float((254u - lowest + mantissa) << 23));
    const uint rounded = size + (1u << (drop - 1u)) - 1u + (size >> drop & 1u);
    const uint bits = size >> 23 < lowest ? steps : (rounded >> drop) - ((lowest - 1u) << mantissa);
    // without a negative zero, its pattern is the NaN
    return isnan(x) ? none : bits == 0u && none == 1u << top ? 0u : bits | sign;
}
#endif"""

TRANSPOSE = """\
#ifndef REGWEAVE_TRANSPOSE
#define REGWEAVE_TRANSPOSE
// an 8 x 8 matrix of 16-bit elements transposed; a lane holds two elements of a row
static inline __attribute__((always_inline)) uint regweave_transpose(uint word) {
    const uint lane = get_sub_group_local_id();
    const uint first = (lane & ~31u) | (lane & 3u) << 3 | (lane >> 3 & 3u);
    const uint low = sub_group_shuffle(word, first), high = sub_group_shuffle(word, first | 4u);
    return lane & 4u ? low >> 16 | (high & 0xffff0000u) : (low & 0xffffu) | high << 16;
}
#endif"""

LANE_SWAP = """\
#ifndef REGWEAVE_LANE_SWAP
#define REGWEAVE_LANE_SWAP
// the lanes of the first word with `bit` set change places with those of the second without
static inline __attribute__((always_inline)) uint2 regweave_lane_swap(uint first, uint second, uint bit) {
    const uint lane = get_sub_group_local_id(), other = lane ^ bit;
    const uint one = sub_group_shuffle(first, other), two = sub_group_shuffle(second, other);
    return lane & bit ? (uint2)(two, second) : (uint2)(first, one);
}
#endif"""
