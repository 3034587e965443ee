"""One C source, compiled for the processor here and for AMD's GPUs: emulator and processor must agree.

The expressions are chosen for the instructions that clang makes of them. Values in a lane's registers go
through the vector unit; values that are the same in all lanes go through the scalar unit.
"""

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from regweave.devices.emulator import read_compiled, run
from regweave.devices.hip import compile_text
from regweave.machines.amd.assembly import TARGETS

pytest.importorskip("ziglang")

LANES = 64
TYPES = {
    "u": ("unsigned", "u32", np.uint32), "i": ("int", "i32", np.int32), "U": ("unsigned long long", "u64",
    np.uint64),
    "I": ("long long", "i64", np.int64), "f": ("float", "f32", np.float32), "d": ("double", "f64",
    np.float64),
    "h": ("_Float16", "f16", np.float16),
}  # fmt: skip
WHOLE = {
    "u": (
        "u0 + u1 * u2", "u0 - (u1 >> (u2 & 31))", "(u0 << (u1 & 31)) + u2", "(u0 & u1) | u2", "u0 ^ ~u1",
        "(unsigned)(((unsigned long long)u0 * u1) >> 32)", "__builtin_popcount(u0) + u1",
        "__builtin_clz(u0 | 1)", "__builtin_ctz(u0 | 1u << 31)", "__builtin_bitreverse32(u0)",
        "__builtin_bswap32(u0) + u1", "(u0 >> 5) & 63", "u0 < u1 ? u1 : u2", "u0 / (u1 | 1)", "u0 % (u1 | 1)",
        "__builtin_rotateleft32(u0, u1 & 31)", "(u0 & 0xffffff) * (u1 & 0xffffff) + u2",
        "(u0 & 255) + (u1 >> 24)",
        "u0 < u1 ? u0 : (u2 < u1 ? u2 : u1)",
    ),
    "i": (
        "i0 >> (i1 & 31)", "(signed char)i0 + (short)i1", "i0 < i1 ? i0 : i2", "i0 / (i1 | 1)",
        "(int)(((long long)i0 * i1) >> 32)", "i0 < 0 ? 0u - (unsigned)i0 : (unsigned)i0", "(i0 << 9) >> 21",
        "(unsigned)i0 - (unsigned)i1", "i0 == i1 ? 7 : -(i2 & 1)",
    ),
    "U": (
        "U0 + U1", "U0 - U1", "U0 * U1", "U0 << (U1 & 63)", "U0 >> (U1 & 63)", "U0 < U1 ? U0 : U1",
        "~U0 & U1",
        "(unsigned long long)u0 * u1 + U0", "__builtin_popcountll(U0)", "__builtin_clzll(U0 | 1)",
        "U0 / (U1 | 1)", "U0 % (U1 | 1)", "__builtin_bitreverse64(U0)",
    ),
    "I": (
        "I0 >> (U0 & 63)", "I0 < I1 ? I0 : I1", "(long long)i0 * i1", "I0 / (I1 | 1)", "(I0 << 20) >> 33",
        "I0 == I1", "(long long)i0 - (I1 ^ I0)",
    ),
}  # fmt: skip
FLOATS = {
    "f": (
        "f0 + f1", "f0 * f1 - f2", "__builtin_fmaf(f0, f1, f2)", "f0 / f1", "(f0 < f1 ? f0 : f1)", "-f0 * f1",
        "__builtin_floorf(f0) + __builtin_ceilf(f1)", "__builtin_truncf(f0) - __builtin_rintf(f1)",
        "__builtin_fabsf(f0) + (float)i0", "(float)u0 * f0", "(float)d0", "(float)h0 + f0",
        "(float)(u0 & 255)",
        "(float)I0", "(float)((u0 >> 8) & 255)", "f0 != f1 ? f2 : 1.5f", "__builtin_fmaf(f0, 2.5f, f1)",
        "__builtin_fmaf(f0, f1, 3.25f)", "f0 / (f1 * 1e-30f)",
    ),
    "d": (
        "d0 + d1", "d0 * d1", "__builtin_fma(d0, d1, d2)", "d0 / d1", "(double)i0 - (double)u1", "(double)f0",
        "__builtin_floor(d0)", "__builtin_trunc(d0) + __builtin_rint(d1)", "d0 < d1 ? d0 : -d1",
        "d0 / (d1 * 1e-300)",
    ),
    "h": (
        "h0 + h1", "(_Float16)(h0 * h1)", "h0 - h1", "(_Float16)f0", "(_Float16)((float)h0 * f1)",
        "h0 < h1 ? h0 : h2",
        "-h0", "(_Float16)(short)i0",
    ),
    "i": (
        "(int)__builtin_fmaxf(-1e6f, __builtin_fminf(1e6f, f0))",
        "(int)__builtin_fmax(-1e6, __builtin_fmin(1e6, d0))", "f0 < f1", "d0 <= d1", "h0 > h1",
        "__builtin_isnan(f0)",
    ),
    "u": ("(unsigned)__builtin_fmaxf(0.f, __builtin_fminf(4e9f, f0))",),
}  # fmt: skip


def inputs(seed):
    """Random numbers, random bits, and what is special."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, (_, _, dtype) in TYPES.items():
        count = 4 * LANES
        if np.dtype(dtype).kind == "f":
            info = np.finfo(dtype)
            plain = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)
            bits = rng.integers(0, 256, count * plain.itemsize, dtype=np.uint8).view(dtype)
            special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, info.tiny / 2, info.max], dtype)
        else:
            info = np.iinfo(dtype)
            plain = rng.integers(0, 40, count).astype(dtype) - dtype(20 if info.min else 0)
            bits = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
            special = np.array([0, 1, info.min, info.max], dtype)
        which = rng.random(count)
        found[name] = np.where(which < 0.4, plain, np.where(which < 0.8, bits, rng.choice(special, count)))
        found[name] = found[name].astype(dtype)
    return found


def functions(expressions, head, index):
    """A function for each type of result; each has all inputs, and one output per expression."""
    for kind, texts in expressions.items():
        ctype = TYPES[kind][0]
        given = ", ".join(f"const {c}* __restrict__ I{name}" for name, (c, _, _) in TYPES.items())
        outputs = ", ".join(f"{ctype}* __restrict__ O{n}" for n in range(len(texts)))
        loads = "".join(
            f"{c} {name}{k} = I{name}[4 * i + {k}];" for name, (c, _, _) in TYPES.items() for k in range(3)
        )
        body = "".join(f"O{n}[i] = {text};" for n, text in enumerate(texts))
        yield f"{head} f_{kind}({given}, {outputs}) {{ {index} {{ {loads} {body} }} }}"


def library(expressions, folder):
    source = folder / "host.c"
    source.write_text("\n".join(functions(expressions, "void", f"for (int i = 0; i < {LANES}; i++)")))
    words = "-O1 -ffp-contract=off -shared -fPIC -w -fno-sanitize=all -Xclang -ffloat16-excess-precision=none"
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        *words.split(),
        str(source),
        "-o",
        str(folder / "host.so"),
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the compiler cannot compile for the processor here: {made.stderr[:300]}")
    return ctypes.CDLL(str(folder / "host.so"))


def compare(expressions, host, machine, index, grid):
    head = 'extern "C" __global__ __launch_bounds__(64) void'
    text = "#pragma clang fp contract(off)\n" + "\n".join(functions(expressions, head, f"int i = {index};"))
    assembly = compile_text(text, machine.name)
    for kind, texts in expressions.items():
        given = {f"I{name}": values for name, values in inputs(7).items()}
        names = [f"O{n}" for n in range(len(texts))]
        wanted, found = ({name: np.zeros(LANES, TYPES[kind][2]) for name in names} for _ in range(2))
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*given.values(), *wanted.values())]
        getattr(host, f"f_{kind}")(*pointers)
        program = read_compiled(assembly, f"f_{kind}", machine, dict.fromkeys((*given, *names), "pointer"))
        # clang reads registers whose value does not matter
        done = run(
            program,
            grid=grid,
            workgroup=LANES,
            arguments=given | found,
            unwritten=names,
            strict_registers=False,
        )
        assert not any(done.unwritten.values())
        for name, text in zip(names, texts, strict=True):
            same = (wanted[name] == found[name]) | (
                (wanted[name] != wanted[name]) & (found[name] != found[name])
            )
            if kind in "fd":
                same &= (np.signbit(wanted[name]) == np.signbit(found[name])) | np.isnan(wanted[name])
            lane = int(np.argmin(same))
            assert same.all(), (machine.name, text, lane, wanted[name][lane], found[name][lane])


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return {
        name: library(expressions, tmp_path_factory.mktemp(name))
        for name, expressions in (("whole", WHOLE), ("floats", FLOATS))
    }


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_vector_unit(machine, host):
    for name, expressions in (("whole", WHOLE), ("floats", FLOATS)):
        compare(expressions, host[name], machine, "__builtin_amdgcn_workitem_id_x()", 1)


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_scalar_unit(machine, host):
    compare(WHOLE, host["whole"], machine, "__builtin_amdgcn_workgroup_id_x()", LANES)
