"""Lane-level programs as CUDA C++.

    __device__ __forceinline__ void name(const float (&source)[4], unsigned (&destination)[4]) {
        unsigned lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        ...
        destination[0] = v26;
    }

Matrix instructions are the PTX ISA's `mma.sync`, whose operands all lie in registers.
"""

from __future__ import annotations

from regweave.emitters.language import COMMON_EXPRESSIONS, COMMON_STATEMENTS, Language, Place, Statement, call
from regweave.emitters.memories import AccessTypes, memory_statements
from regweave.errors import UnsupportedError
from regweave.layouts import Layout


def _assembly(text: str, constraints: str = "") -> Statement:
    """Assembly text that defines one word of operands with these constraints."""

    def written(place: Place) -> tuple[list[str], list[str]]:
        (name,) = place.names
        taken = ", ".join(f'"{kind}"({value})' for kind, value in zip(constraints, place.values, strict=True))
        operands = f'"=r"({name})' + (f" : {taken}" if taken else "")
        return [f"unsigned {name};", f'asm("{text}" : {operands});'], [name]

    return written


def _halves(conversion: str) -> Statement:
    text = f"{{ .reg .b16 l, h; {conversion} l, %1; {conversion} h, %2; mov.b32 %0, {{l, h}}; }}"
    return _assembly(text, "ff")


def _bytes(conversion: str) -> Statement:
    # written like this, the merge with the third operand is part of the conversion
    text = f"{{ .reg .b16 n, l, h; {conversion} n, %2, %1; mov.b32 {{l, h}}, %3; mov.b32 %0, {{n, l}}; }}"
    return _assembly(text, "ffr")


def _half_bytes(spread: bool) -> Statement:
    """Two half-bytes below a third operand; `spread`, each in bits 2 to 5 of a byte of its own."""

    def written(place: Place) -> tuple[list[str], list[str]]:
        (low, high, above), (name,) = place.values, place.names
        both = f"{name}_pair"
        convert = "cvt.rn.satfinite.e2m1x2.f32 n, %2, %1; mov.b16 l, {n, 0}; mov.b32 %0, {l, 0};"
        # shifts and not a product: where the two copies overlap, a sum would carry into the upper element
        apart = f"({both} << 2u | {both} << 6u) & 0x3c3cu"
        merged = f"{apart}, {above}, 0x5410u" if spread else f"{both}, {above}, 0x6540u"
        return [
            f"unsigned {both};",
            f'asm("{{ .reg .b8 n; .reg .b16 l; {convert} }}" : "=r"({both}) : "f"({low}), "f"({high}));',
            f"const unsigned {name} = __byte_perm({merged});",
        ], [name]

    return written


def _integers(kind: str) -> Statement:
    return _assembly(f"cvt.pack.sat.{kind}.s32.b32 %0, %2, %1, %3;", "rrr")


def _block(place: Place) -> tuple[list[str], list[str]]:
    return [f"const unsigned {place.names[0]} = blockIdx.{place.step.symbol};"], [place.names[0]]


def _widen(place: Place) -> tuple[list[str], list[str]]:
    name, value = place.names[0], place.values[0]
    text = "{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }"
    return [f"float {name};", f'asm("{text}" : "=f"({name}) : "r"({value}));'], [name]


def _barrier(place: Place) -> tuple[list[str], list[str]]:
    return ["__syncwarp();" if place.step.symbol == "warp" else "__syncthreads();"], []


def _matrices(access: str) -> Statement:
    """ldmatrix or stmatrix: one word of each lane for every matrix of 8 x 8 halves."""

    def written(place: Place) -> tuple[list[str], list[str]]:
        (count, transposed, offset), memory = place.step.numbers, place.step.symbol
        load = access == "ldmatrix"
        address = f"{memory} + {place.values[0]}" + (f" + {offset}" if offset else "")
        words = place.names if load else place.values[1:]
        first = 0 if load else 1
        registers = ", ".join(f"%{first + index}" for index in range(count))
        place_of = f"[%{count if load else 0}]"
        operands = f"{{{registers}}}, {place_of}" if load else f"{place_of}, {{{registers}}}"
        form = f"sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
        outputs = ", ".join(f'"=r"({name})' for name in words) if load else ""
        inputs = [f'"r"((unsigned)__cvta_generic_to_shared({address}))']
        inputs += [] if load else [f'"r"({word})' for word in words]
        line = f'asm volatile("{access}.{form} {operands};" : {outputs} : {", ".join(inputs)} : "memory");'
        return [*(f"unsigned {name};" for name in place.names), line], list(place.names)

    return written


def _matrix(place: Place) -> tuple[list[str], list[str]]:
    """D of `mma.sync`; a register pair of f64 is one operand."""
    instruction = place.program.instruction(place.step.symbol)
    assert instruction is not None
    if not instruction.mnemonic.startswith("mma.") or set(instruction.fragments) != set("ABCD"):
        raise UnsupportedError(f"{instruction.name} is not written in CUDA C++", expected="an mma.sync")
    values = list(place.values)
    lines, outputs, inputs, results, sets = [], [], [], [], []
    for operand in "DABC":
        layout = instruction.fragments[operand]
        kind, constraint, registers = _operand(layout)
        first = len(outputs) + len(inputs)
        count = layout.registers // registers
        sets.append("{" + ", ".join(f"%{first + number}" for number in range(count)) + "}")
        for number in range(count):
            if operand == "D":
                name = place.names[number * registers]
                lines.append(f"{kind} {name};")
                outputs.append(f'"={constraint}"({name})')
                halves = [f"(unsigned)__double2{half}int({name})" for half in ("lo", "hi")]
                results += [name] if registers == 1 else halves
            else:
                words = [values.pop(0) for _ in range(registers)]
                text = words[0] if registers == 1 else f"__hiloint2double({words[1]}, {words[0]})"
                inputs.append(f'"{constraint}"({text})')
    lines.append(f'asm volatile("{instruction.mnemonic} {", ".join(sets)};"')
    lines.append(f"    : {', '.join(outputs)}")
    lines.append(f"    : {', '.join(inputs)});")
    return lines, results


def _operand(layout: Layout) -> tuple[str, str, int]:
    """The C++ type, the constraint and the number of words of one register operand of a layout's."""
    if layout.dtype == "f64":
        return "double", "d", 2
    return ("float", "f", 1) if layout.dtype == "f32" else ("unsigned", "r", 1)


_THREAD = "threadIdx.x"
_SPACES = {"shared": "", "global": ""}

CUDA = Language(
    name="CUDA C++",
    function="__device__ __forceinline__ void",
    byte="unsigned char",
    spaces=_SPACES,
    shared_array="__shared__ __align__(16) unsigned char {name}[{bytes}];",
    types={"f32": "float", "b32": "unsigned", "predicate": "bool"},
    expressions={
        **COMMON_EXPRESSIONS,
        "thread": lambda values, numbers: _THREAD,
        "bits": call("__float_as_uint"),
        "number": call("__uint_as_float"),
        "rotate_right": lambda values, numbers: f"__funnelshift_r({values[0]}, {values[0]}, {values[1]})",
        "byte_permute": call("__byte_perm"),
        "pack_low": lambda values, numbers: f"__byte_perm({values[0]}, {values[1]}, 0x5410u)",
        "pack_high": lambda values, numbers: f"__byte_perm({values[0]}, {values[1]}, 0x7632u)",
        "maximum_f32": call("fmaxf"),
        "multiply_add_f32": call("fmaf"),
        "shuffle": lambda values, numbers: (
            f"__shfl_sync(0xffffffffu, {values[0]}, {values[1]}, {numbers[0]})"
        ),
    },
    statements={
        **COMMON_STATEMENTS,
        **memory_statements(
            AccessTypes(
                {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"},
                "make_{type}({words})",
            ),
            _SPACES,
        ),
        "lane": _assembly("mov.u32 %0, %%laneid;"),
        "transpose": _assembly("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;", "r"),
        "pack_f16": _halves("cvt.rn.f16.f32"),
        "pack_bf16": _halves("cvt.rn.bf16.f32"),
        **{f"pack_{kind}16": _assembly(f"cvt.pack.sat.{kind}16.s32 %0, %2, %1;", "rr") for kind in "su"},
        **{f"pack_{kind}": _integers(kind) for kind in ("s8", "u8", "s4", "u4")},
        **{
            f"pack_{kind}": _bytes(f"cvt.rn.satfinite.{kind}x2.f32")
            for kind in ("e4m3", "e5m2", "e3m2", "e2m3")
        },
        "pack_e2m1": _half_bytes(spread=False),
        "pack_e2m1b8": _half_bytes(spread=True),
        "matrix_load": _matrices("ldmatrix"),
        "matrix_store": _matrices("stmatrix"),
        "barrier": _barrier,
        "block": _block,
        "widen_f16": _widen,
        "matrix": _matrix,
    },
    kernel='extern "C" __global__ void __launch_bounds__({threads})',
    array="{kind} (&{name})[{words}]",
    thread=_THREAD,
    helpers={},
)
"""CUDA C++ for sm_75 and later, without any header."""
