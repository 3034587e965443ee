"""Lane-level programs as OpenCL C 3.0 with sub-groups of 32 or 64 lanes.

    const uint v5 = sub_group_shuffle(v3, v4 & 31u);

It needs sub-group shuffles and, for kernels, sub-groups of a chosen size, which GPUs of several vendors and
Intel's runtime for processors have; so that it can be executed anywhere, what hardware would do in one
instruction (byte permutes, narrowing) is written in plain arithmetic. Matrix instructions have no word here.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.emitters.language import COMMON_EXPRESSIONS, Expression, Language, Place, call
from regweave.emitters.memories import AccessTypes, memory_statements

_HALF = """\
#ifndef REGWEAVE_PACK_F16
#define REGWEAVE_PACK_F16
static inline uint regweave_pack_f16(float low, float high) {
    ushort halves[2];
    vstore_half_rte(low, 0, (half *)halves);
    vstore_half_rte(high, 1, (half *)halves);
    return halves[0] | (uint)halves[1] << 16;
}
#endif"""

_BRAIN = """\
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

_EIGHT = """\
#ifndef REGWEAVE_EIGHT
#define REGWEAVE_EIGHT
// an f32 in 8 bits, rounded to nearest, ties to even; too large becomes the largest number, a NaN 0x7f
static inline uint regweave_eight(float x, uint mantissa, uint bias, float largest) {
    const uint sign = as_uint(x) >> 24 & 0x80u, size = min(as_uint(x) & 0x7fffffffu, as_uint(largest));
    const uint drop = 23u - mantissa, lowest = 128u - bias;
    // below the normal range the step stays what it is: 2 to the power of lowest - 127 - mantissa
    const uint steps = (uint)rint(as_float(size) * as_float((254u - lowest + mantissa) << 23));
    const uint rounded = size + (1u << (drop - 1u)) - 1u + (size >> drop & 1u);
    const uint bits = size >> 23 < lowest ? steps : (rounded >> drop) - ((lowest - 1u) << mantissa);
    return isnan(x) ? 0x7fu : bits | sign;
}
#endif"""


def _lane(place: Place) -> tuple[list[str], list[str]]:
    return ["const uint lane = get_sub_group_local_id();"], ["lane"]


def _shuffle(place: Place) -> tuple[list[str], list[str]]:
    (word, index), (name,), (width,) = place.values, place.names, place.step.numbers
    # an index is known modulo the width, and taking from outside the sub-group is undefined
    index = f"{index} & {width - 1}u"
    if width != place.program.lanes:
        index = f"(get_sub_group_local_id() & ~{width - 1}u) | ({index})"
    return [f"const uint {name} = sub_group_shuffle({word}, {index});"], [name]


def _byte_permute(values: Sequence[str], numbers: Sequence[int]) -> str:
    low, high, selector = values
    digits = ", ".join(f"{selector} >> {shift}" if shift else selector for shift in (0, 4, 8, 12))
    return f"as_uint(shuffle2(as_uchar4({low}), as_uchar4({high}), (uchar4)({digits})))"


def _barrier(place: Place) -> tuple[list[str], list[str]]:
    scope = "sub_group" if place.step.symbol == "warp" else "work_group"
    return [f"{scope}_barrier(CLK_LOCAL_MEM_FENCE);"], []


def _bytes(narrow: str) -> Expression:
    """Two narrowed values as the low bytes, the low half of a third as the high half."""

    def written(values: Sequence[str], numbers: Sequence[int]) -> str:
        low, high = (narrow.format(value) for value in values[:2])
        return f"{low} | {high} << 8 | {values[2]} << 16"

    return written


_THREAD = "get_local_id(0)"
_SPACES = {"shared": "local", "global": "global"}

OPENCL = Language(
    name="OpenCL C",
    function="static inline __attribute__((always_inline)) void",
    types={"f32": "float", "b32": "uint", "predicate": "bool"},
    byte="uchar",
    spaces=_SPACES,
    shared_array="local uchar {name}[{bytes}] __attribute__((aligned(16)));",
    expressions={
        **COMMON_EXPRESSIONS,
        "thread": lambda values, numbers: _THREAD,
        "bits": call("as_uint"),
        "number": call("as_float"),
        "rotate_right": lambda values, numbers: f"rotate({values[0]}, 0u - {values[1]})",
        "maximum_f32": call("fmax"),
        "byte_permute": _byte_permute,
        "pack_f16": call("regweave_pack_f16"),
        "pack_bf16": call("regweave_pack_bf16"),
        "pack_s8": _bytes("((uint)clamp(as_int({}), -128, 127) & 255u)"),
        "pack_u8": _bytes("(uint)clamp(as_int({}), 0, 255)"),
        "pack_e4m3": _bytes("regweave_eight({}, 3u, 7u, 448.0f)"),
        "pack_e5m2": _bytes("regweave_eight({}, 2u, 15u, 57344.0f)"),
    },
    statements={
        **memory_statements(
            AccessTypes({1: "uchar", 2: "ushort", 4: "uint", 8: "uint2", 16: "uint4"}, "({type})({words})"),
            _SPACES,
        ),
        "lane": _lane,
        "shuffle": _shuffle,
        "barrier": _barrier,
    },
    helpers={
        "pack_f16": _HALF,
        "pack_bf16": _BRAIN,
        "pack_e4m3": _EIGHT,
        "pack_e5m2": _EIGHT,
    },
    kernel=(
        "__attribute__((reqd_work_group_size({threads}, 1, 1), intel_reqd_sub_group_size({lanes})))\n"
        "kernel void"
    ),
    array="private {kind} *{name}",
    thread=_THREAD,
)
"""OpenCL C 3.0 with cl_khr_subgroup_shuffle and, for kernels, cl_intel_required_subgroup_size."""
