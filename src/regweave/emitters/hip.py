"""Lane-level programs as HIP C++, for wavefronts of 64 and of 32 lanes.

    const unsigned v5 = __builtin_amdgcn_ds_bpermute(v4 << 2, v3);

Only the compiler's builtins are used, so no header is needed. Four things differ from CUDA:

- `ds_bpermute_b32` takes the lane that it reads times four, over the whole wavefront.
- `v_perm_b32` selects by whole bytes and numbers the bytes of its *second* operand 0 to 3. A selector of
  four hexadecimal digits (`byte_permute`) is spread to four bytes: when the program is written, where it is
  made of constants by choices and bit operations, else by the lane, once.
- The lane is the thread's number modulo the wavefront's size, in blocks of one dimension. It is free,
  while counting lanes with `v_mbcnt_*_u32_b32`, right in any block, takes two instructions.
- A barrier of one wavefront is an order for the compiler only: its accesses to LDS happen in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.emitters.amd_builtins import matrix_statement
from regweave.emitters.hip_helpers import AT_MOST, PACK_INTEGERS, SPREAD, VECTORS, WITHIN
from regweave.emitters.language import (
    COMMON_EXPRESSIONS,
    COMMON_STATEMENTS,
    Expression,
    Language,
    Place,
    Statement,
    call,
    constant,
    lane_of,
)
from regweave.emitters.memories import AccessTypes, memory_statements
from regweave.programs import Step, Value
from regweave.programs.narrowing import NARROWINGS, Narrowing

_THREAD = "__builtin_amdgcn_workitem_id_x()"


def _lane_text(lanes: int) -> str:
    return f"({_THREAD} & {lanes - 1}u)"


def _lane(place: Place) -> tuple[list[str], list[str]]:
    text = _lane_text(place.program.lanes)
    return [f"const unsigned lane = {text[1:-1]};  // in one-dimensional blocks"], ["lane"]


def _shuffle(place: Place) -> tuple[list[str], list[str]]:
    (word, index), (name,), (width,) = place.values, place.names, place.step.numbers
    if width != place.program.lanes:
        lane = lane_of(place, _lane_text(place.program.lanes))
        index = f"(({lane} & ~{width - 1}u) | ({index} & {width - 1}u))"
    return [f"const unsigned {name} = __builtin_amdgcn_ds_bpermute({index} << 2u, {word});"], [name]


def _test(place: Place) -> tuple[list[str], list[str]]:
    """Bits of a word; the highest of a lane's number is a comparison, one instruction instead of two."""
    (value,), (name,), (mask,) = place.values, place.names, place.step.numbers
    maker = place.steps.get(place.step.operands[0].number)
    highest = maker is not None and maker.opcode == "lane" and 2 * mask == place.program.lanes
    text = f"{value} >= {constant(mask)}" if highest else f"({value} & {constant(mask)}) != 0u"
    return [f"const bool {name} = {text};"], [name]


def _lane_swap(place: Place) -> tuple[list[str], list[str]]:
    first, second, (bit,) = *place.values, place.step.numbers
    name = place.names[0]
    swap = f"__builtin_amdgcn_permlane{bit}_swap"
    return [f"const auto {name} = {swap}({first}, {second}, false, false);"], [f"{name}[0]", f"{name}[1]"]


def _row_move(values: Sequence[str], numbers: Sequence[int]) -> str:
    # all rows and banks; a lane that would take from none, of which there are none here, gets zero
    return f"__builtin_amdgcn_mov_dpp({values[0]}, {numbers[0]:#x}, 0xf, 0xf, true)"


def _row_permute(values: Sequence[str], numbers: Sequence[int]) -> str:
    word, (low, high, cross) = values[0], numbers
    selectors = f"{constant(low)}, {constant(high)}"
    return f"__builtin_amdgcn_permlane{'x' if cross else ''}16({word}, {word}, {selectors}, false, false)"


def _byte_permute(place: Place) -> tuple[list[str], list[str]]:
    (low, high, _), (name,) = place.values, place.names
    selector = _spread(place, place.step.operands[2])
    return [f"const unsigned {name} = __builtin_amdgcn_perm({high}, {low}, {selector});"], [name]


def _spread(place: Place, value: Value) -> str:
    """The text of a selector's four digits as four bytes."""
    if not _of_constants(place, value):
        return f"regweave_spread({place.texts[value.number]})"
    step = place.steps[value.number]
    if step.opcode == "constant":
        digits = step.numbers[0]
        return constant(sum((digits >> 4 * byte & 15) << 8 * byte for byte in range(4)))
    one, other = (_spread(place, operand) for operand in step.operands[-2:])
    if step.opcode == "select":
        return f"({place.texts[step.operands[0].number]} ? {one} : {other})"
    return f"({one} {_BITWISE[step.opcode]} {other})"


def _of_constants(place: Place, value: Value) -> bool:
    """Whether choices and bit operations make it of constants alone."""
    step = place.steps.get(value.number)
    if step is None or step.opcode not in ("constant", "select", *_BITWISE):
        return False
    return all(_of_constants(place, operand) for operand in step.operands[-2:])


def _block(place: Place) -> tuple[list[str], list[str]]:
    (name,) = place.names
    return [f"const unsigned {name} = __builtin_amdgcn_workgroup_id_{place.step.symbol}();"], [name]


def _barrier(place: Place) -> tuple[list[str], list[str]]:
    scope = "wavefront" if place.step.symbol == "warp" else "workgroup"
    wait = "__builtin_amdgcn_wave_barrier" if place.step.symbol == "warp" else "__builtin_amdgcn_s_barrier"
    fences = [
        f'__builtin_amdgcn_fence({order}, "{scope}", "local");'
        for order in ("__ATOMIC_RELEASE", "__ATOMIC_ACQUIRE")
    ]
    return [fences[0], f"{wait}();", fences[1]], []


def _halves(kind: str) -> Expression:
    def written(values: Sequence[str], numbers: Sequence[int]) -> str:
        low, high = (f"__builtin_bit_cast(unsigned short, ({kind}){value})" for value in values)
        return f"{low} | (unsigned){high} << 16u"

    return written


def _floats(builtin: str, most: str) -> Statement:
    """Two narrowed values as the low half of a word, the low half of a third operand as its high half.

    The conversion writes either half of a register and leaves the other. Where the third operand is such a
    pair itself, it is converted into the high half right away, else it is moved there first.
    """

    def pair(place: Place, step: Step, old: str, high: str) -> str:
        values = (f"regweave_within({place.texts[operand.number]}, {most})" for operand in step.operands[:2])
        return f"__builtin_amdgcn_{builtin}({', '.join(values)}, {old}, {high})"

    def written(place: Place) -> tuple[list[str], list[str]]:
        (name,), above = place.names, place.steps.get(place.step.operands[2].number)
        if above is not None and above.opcode == place.step.opcode:
            text = pair(place, above, pair(place, place.step, "0", "false"), "true")
        else:
            text = pair(place, place.step, f"{place.values[2]} << 16u", "false")
        return [f"const unsigned {name} = {text};"], [name]

    return written


def _half_bytes(place: Place) -> tuple[list[str], list[str]]:
    """Two half-bytes below a third operand; of a chain of such pairs each is converted into its own byte."""
    chain = [place.step]
    above = place.steps.get(place.step.operands[2].number)
    while len(chain) < 4 and above is not None and above.opcode == place.step.opcode:
        chain.append(above)
        above = place.steps.get(above.operands[2].number)
    old = place.texts[chain[-1].operands[2].number]
    text = f"{old} << {8 * len(chain)}u" if len(chain) < 4 else "0u"
    for byte, step in reversed(tuple(enumerate(chain))):
        low, high = (f"regweave_at_most({place.texts[value.number]}, 6.0f)" for value in step.operands[:2])
        text = f"__builtin_amdgcn_cvt_scalef32_pk_fp4_f32({text}, {low}, {high}, 1.0f, {byte})"
    (name,) = place.names
    return [f"const unsigned {name} = {text};"], [name]


def _integers(kind: Narrowing) -> Expression:
    def written(values: Sequence[str], numbers: Sequence[int]) -> str:
        least, most = kind.bounds
        text = f"regweave_pack_integers({values[0]}, {values[1]}, {least}, {most}, {kind.bits}u)"
        return f"{text} | {values[2]} << {2 * kind.bits}u" if kind.merges else text

    return written


_NARROW_INTEGERS = {opcode: kind for opcode, kind in NARROWINGS.items() if kind.taken == "b32"}
_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_SPACES = {"shared": "", "global": ""}

HIP = Language(
    name="HIP C++",
    function="__device__ __forceinline__ void",
    types={"f32": "float", "b32": "unsigned", "predicate": "bool"},
    byte="unsigned char",
    spaces=_SPACES,
    shared_array="__shared__ __attribute__((aligned(16))) unsigned char {name}[{bytes}];",
    expressions={
        **{opcode: text for opcode, text in COMMON_EXPRESSIONS.items() if opcode != "test"},
        "thread": lambda values, numbers: _THREAD,
        "bits": lambda values, numbers: f"__builtin_bit_cast(unsigned, {values[0]})",
        "number": lambda values, numbers: f"__builtin_bit_cast(float, {values[0]})",
        "rotate_right": call("__builtin_rotateright32"),
        "maximum_f32": call("__builtin_fmaxf"),
        "multiply_add_f32": call("__builtin_fmaf"),
        "widen_f16": lambda values, numbers: (
            f"(float)__builtin_bit_cast(_Float16, (unsigned short){values[0]})"
        ),
        "row_move": _row_move,
        "row_permute": _row_permute,
        "half_swap": call("__builtin_amdgcn_permlane64"),
        "pack_f16": _halves("_Float16"),
        "pack_bf16": _halves("__bf16"),
        "pack_low": lambda values, numbers: f"__builtin_amdgcn_perm({values[1]}, {values[0]}, 0x05040100u)",
        "pack_high": lambda values, numbers: f"__builtin_amdgcn_perm({values[1]}, {values[0]}, 0x07060302u)",
        **{opcode: _integers(kind) for opcode, kind in _NARROW_INTEGERS.items()},
    },
    statements={
        **COMMON_STATEMENTS,
        **memory_statements(
            AccessTypes(
                {
                    1: "unsigned char",
                    2: "unsigned short",
                    4: "unsigned",
                    8: "regweave_words2",
                    16: "regweave_words4",
                },
                "({type}){{{words}}}",
            ),
            _SPACES,
        ),
        "lane": _lane,
        "test": _test,
        "shuffle": _shuffle,
        "lane_swap": _lane_swap,
        "pack_e4m3": _floats("cvt_pk_fp8_f32", "448.0f"),
        "pack_e5m2": _floats("cvt_pk_bf8_f32", "57344.0f"),
        # the same instructions: gfx942 only has these types, gfx950 and gfx12 only those
        "pack_e4m3fnuz": _floats("cvt_pk_fp8_f32", "240.0f"),
        "pack_e5m2fnuz": _floats("cvt_pk_bf8_f32", "57344.0f"),
        "pack_e2m1": _half_bytes,
        "byte_permute": _byte_permute,
        "barrier": _barrier,
        "block": _block,
        "matrix": matrix_statement,
    },
    helpers={
        **{f"{space}_{access}": VECTORS for space in _SPACES for access in ("load", "store")},
        "byte_permute": SPREAD,
        **dict.fromkeys(_NARROW_INTEGERS, PACK_INTEGERS),
        "pack_e2m1": AT_MOST,
        "pack_e4m3": WITHIN,
        "pack_e5m2": WITHIN,
        "pack_e4m3fnuz": WITHIN,
        "pack_e5m2fnuz": WITHIN,
    },
    kernel='extern "C" __global__ void __launch_bounds__({threads})',
    array="{kind} (&{name})[{words}]",
    thread=_THREAD,
)
"""HIP C++ for gfx9 to gfx12."""
