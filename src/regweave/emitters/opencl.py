"""Lane-level programs as OpenCL C 3.0 with sub-groups of 32 or 64 lanes.

    const uint v5 = sub_group_shuffle(v3, v4 & 31u);

It needs sub-group shuffles and, for kernels, sub-groups of a chosen size, which GPUs of several vendors and
Intel's runtime for processors have; so that it can be executed anywhere, what hardware would do in one
instruction (byte permutes, narrowing) is written in plain arithmetic. Matrix instructions have no word here.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.emitters.language import (
    COMMON_EXPRESSIONS,
    COMMON_STATEMENTS,
    Expression,
    Language,
    Place,
    call,
    constant,
    lane_of,
)
from regweave.emitters.memories import AccessTypes, memory_statements
from regweave.emitters.opencl_helpers import LANE_SWAP, PACK_BF16, PACK_F16, SMALL_FLOAT, TRANSPOSE, WIDEN_F16
from regweave.programs import lane_moves
from regweave.programs.narrowing import NARROWINGS, Narrowing
from regweave.programs.numbers import SMALL_FLOATS

_LANE = "get_sub_group_local_id()"


def _lane(place: Place) -> tuple[list[str], list[str]]:
    return [f"const uint lane = {_LANE};"], ["lane"]


def _shuffle(place: Place) -> tuple[list[str], list[str]]:
    (word, index), (name,), (width,) = place.values, place.names, place.step.numbers
    # an index is known modulo the width, and taking from outside the sub-group is undefined
    index = f"{index} & {width - 1}u"
    if width != place.program.lanes:
        index = f"({lane_of(place, _LANE)} & ~{width - 1}u) | ({index})"
    return [f"const uint {name} = sub_group_shuffle({word}, {index});"], [name]


def _lane_swap(place: Place) -> tuple[list[str], list[str]]:
    (name, _), (bit,) = place.names, place.step.numbers
    swapped = f"regweave_lane_swap({', '.join(place.values)}, {bit}u)"
    return [f"const uint2 {name} = {swapped};"], [f"{name}.x", f"{name}.y"]


def _row_move(values: Sequence[str], numbers: Sequence[int]) -> str:
    (control,) = numbers
    if control < lane_moves.ROW_ROTATE:
        peer = f"({_LANE} & ~3u) | ({control}u >> 2u * ({_LANE} & 3u) & 3u)"
    elif control < lane_moves.ROW_MIRROR:
        peer = f"({_LANE} & ~15u) | ({_LANE} - {control - lane_moves.ROW_ROTATE}u & 15u)"
    elif control in (lane_moves.ROW_MIRROR, lane_moves.HALF_MIRROR):
        peer = f"{_LANE} ^ {15 if control == lane_moves.ROW_MIRROR else 7}u"
    elif control < lane_moves.ROW_XOR:
        peer = f"({_LANE} & ~15u) | {control - lane_moves.ROW_SHARE}u"
    else:
        peer = f"{_LANE} ^ {control - lane_moves.ROW_XOR}u"
    return f"sub_group_shuffle({values[0]}, {peer})"


def _row_permute(values: Sequence[str], numbers: Sequence[int]) -> str:
    low, high, cross = numbers
    row = f"{_LANE} & ~15u" if not cross else f"({_LANE} & ~15u) ^ 16u"
    selector = f"({_LANE} & 8u ? {constant(high)} : {constant(low)})"
    return f"sub_group_shuffle({values[0]}, ({row}) | ({selector} >> 4u * ({_LANE} & 7u) & 15u))"


def _byte_permute(values: Sequence[str], numbers: Sequence[int]) -> str:
    low, high, selector = values
    digits = ", ".join(f"{selector} >> {shift}" if shift else selector for shift in (0, 4, 8, 12))
    return f"as_uint(shuffle2(as_uchar4({low}), as_uchar4({high}), (uchar4)({digits})))"


def _matrix_load(place: Place) -> tuple[list[str], list[str]]:
    """A lane's word of each matrix: the addresses of the rows are what other lanes gave."""
    (_, transposed, offset), memory = place.step.numbers, place.step.symbol
    lines = []
    for matrix, name in enumerate(place.names):
        rows = [f"sub_group_shuffle({place.values[0]}, {8 * matrix}u + {row})" for row in _rows(transposed)]
        at = [
            f"{memory} + {row} + {column}"
            for row, column in zip(rows, _columns(offset, transposed), strict=True)
        ]
        if transposed:
            low, high = (f"*(local const ushort *)({place_of})" for place_of in at)
            lines.append(f"const uint {name} = {low} | (uint){high} << 16;")
        else:
            lines.append(f"const uint {name} = *(local const uint *)({at[0]});")
    return lines, list(place.names)


def _matrix_store(place: Place) -> tuple[list[str], list[str]]:
    (_, transposed, offset), memory = place.step.numbers, place.step.symbol
    lines = []
    for matrix, word in enumerate(place.values[1:]):
        for half, (row, column) in enumerate(
            zip(_rows(transposed), _columns(offset, transposed), strict=True)
        ):
            address = f"{memory} + sub_group_shuffle({place.values[0]}, {8 * matrix}u + {row}) + {column}"
            kind, value = ("ushort", f"(ushort)({word} >> {16 * half})") if transposed else ("uint", word)
            lines.append(f"*(local {kind} *)({address}) = {value};")
    return lines, []


def _rows(transposed: int) -> list[str]:
    """Lane 4 g + t: the row, or the two rows, of a matrix in which its word lies."""
    return [f"2u * ({_LANE} & 3u)", f"2u * ({_LANE} & 3u) + 1u"] if transposed else [f"({_LANE} >> 2u & 7u)"]


def _columns(offset: int, transposed: int) -> list[str]:
    """How many bytes further on in that row."""
    if transposed:
        return [f"2u * ({_LANE} >> 2u & 7u) + {offset}u"] * 2
    return [f"4u * ({_LANE} & 3u) + {offset}u"]


def _block(place: Place) -> tuple[list[str], list[str]]:
    (name,), axis = place.names, "xyz".index(place.step.symbol)
    return [f"const uint {name} = get_group_id({axis});"], [name]


def _barrier(place: Place) -> tuple[list[str], list[str]]:
    scope = "sub_group" if place.step.symbol == "warp" else "work_group"
    return [f"{scope}_barrier(CLK_LOCAL_MEM_FENCE);"], []


def _narrowed(kind: Narrowing) -> Expression:
    """Two narrowed values, below a third operand if they leave room for it."""
    if kind.taken == "b32":
        least, most = kind.bounds
        narrow = f"((uint)clamp(as_int({{}}), {least}, {most}) & {(1 << kind.bits) - 1}u)"
    else:
        form = SMALL_FLOATS[kind.dtype]
        facts = f"{form.mantissas}u, {form.bias}u, {form.largest}f, {form.sign}u, {form.nan}u"
        narrow = f"regweave_small_float({{}}, {facts})" + (f" << {form.place}" if form.place else "")

    def written(values: Sequence[str], numbers: Sequence[int]) -> str:
        low, high, *above = (*(f"({narrow.format(value)})" for value in values[:2]), *values[2:])
        return " | ".join([f"{low}", f"{high} << {kind.bits}", *(f"{v} << {2 * kind.bits}" for v in above)])

    return written


# f16 and bf16 are functions of their own
_NARROWED = {
    opcode: kind for opcode, kind in NARROWINGS.items() if kind.taken == "b32" or kind.dtype in SMALL_FLOATS
}
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
        "multiply_add_f32": call("fma"),
        "widen_f16": call("regweave_widen_f16"),
        "byte_permute": _byte_permute,
        "transpose": call("regweave_transpose"),
        "row_move": _row_move,
        "row_permute": _row_permute,
        "half_swap": lambda values, numbers: f"sub_group_shuffle({values[0]}, {_LANE} ^ 32u)",
        "pack_f16": call("regweave_pack_f16"),
        "pack_bf16": call("regweave_pack_bf16"),
        **{opcode: _narrowed(kind) for opcode, kind in _NARROWED.items()},
        "pack_low": lambda values, numbers: f"({values[0]} & 0xffffu) | {values[1]} << 16",
        "pack_high": lambda values, numbers: f"{values[0]} >> 16 | ({values[1]} & 0xffff0000u)",
    },
    statements={
        **COMMON_STATEMENTS,
        **memory_statements(
            AccessTypes({1: "uchar", 2: "ushort", 4: "uint", 8: "uint2", 16: "uint4"}, "({type})({words})"),
            _SPACES,
        ),
        "lane": _lane,
        "shuffle": _shuffle,
        "lane_swap": _lane_swap,
        "matrix_load": _matrix_load,
        "matrix_store": _matrix_store,
        "barrier": _barrier,
        "block": _block,
    },
    helpers={
        "transpose": TRANSPOSE,
        "lane_swap": LANE_SWAP,
        "widen_f16": WIDEN_F16,
        "pack_f16": PACK_F16,
        "pack_bf16": PACK_BF16,
        **{opcode: SMALL_FLOAT for opcode, kind in _NARROWED.items() if kind.taken == "f32"},
    },
    kernel=(
        "__attribute__((reqd_work_group_size({threads}, 1, 1), intel_reqd_sub_group_size({lanes})))\n"
        "kernel void"
    ),
    lone_kernel="__attribute__((reqd_work_group_size({threads}, 1, 1)))\nkernel void",
    array="private {kind} *{name}",
    thread=_THREAD,
)
"""OpenCL C 3.0 with cl_khr_subgroup_shuffle and, for kernels, cl_intel_required_subgroup_size."""
