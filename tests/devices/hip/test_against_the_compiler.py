"""What LLVM compiles is accepted as it is, and without its waits and no-ops gets the same ones from us.

The compiler's kernels name their registers outright: they go through the builder line by line. A barrier's
waits are the one difference: we wait for LDS before any barrier, the compiler where a fence says so.
"""

from __future__ import annotations

import re

import pytest

from regweave.assembly.amd import FinishedKernel, Kernel
from regweave.devices.hip import compile_text
from regweave.machines.amd.assembly import TARGETS, GcnMachine

pytest.importorskip("ziglang")

_HEAD = """
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
typedef double d4 __attribute__((ext_vector_type(4)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
#define T __builtin_amdgcn_workitem_id_x()
#define SYNC __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
__shared__ float tile[1024];
"""
_KERNELS = {
    "saxpy": """(const float* x, float* y, float a, int n) {
        int i = __builtin_amdgcn_workgroup_id_x() * 64 + T;
        if (i < n) y[i] = a * x[i] + y[i] / x[i];
    }""",
    "product": """(const float* a, const float* b, float* c, int n) {
        float sum[16] = {0};
        for (int k = 0; k < n; k += 16) {
            for (int i = 0; i < 16; i++) tile[T * 16 + i] = a[k * n + T + i * 64];
            SYNC;
            for (int i = 0; i < 16; i++) {
                float v = b[k * n + T * 16 + i];
                for (int j = 0; j < 16; j++) sum[j] += v * tile[i * 64 + j];
            }
            SYNC;
        }
        for (int j = 0; j < 16; j++) c[T * 16 + j] = __builtin_expf(sum[j]);
    }""",
    "integers": """(const int* x, int* y, int n) {
        int v = x[T], s = 0;
        for (int i = 0; i < n; i++) {
            v = __builtin_amdgcn_mov_dpp(v, 0x1b, 0xf, 0xf, true) + __builtin_amdgcn_ds_bpermute(v * 4, T);
            int r = __builtin_amdgcn_readlane(v, i & 63);
            s += r;
            if (r > 5) v = __builtin_amdgcn_sdot4(v, r, s, false);
            y[r] = v;
        }
        long long q = (long long)v * s;
        y[T] = v + s; y[T + 64] = v / s; y[T + 128] = v % n;
        y[T + 192] = (int)(q >> 17) + __builtin_popcount(v);
    }""",
    "doubles": """(const double* x, double* y, int n) {
        double v = x[T];
        for (int i = 0; i < n; i++) v = v * v / x[i] + (double)i;
        y[T] = v < 3 ? v : __builtin_sqrt(v);
    }""",
    "quads": """(const f4* x, f4* y, int n) {
        f4 v = x[T];
        for (int i = 0; i < n; i++) { y[T + 64 * i] = v; v = v * x[T + i] + 1.0f; }
        y[T] = v;
    }""",
}
_MATRICES = {
    "matrix": """(const h4* a, const h4* b, f4* c, int n) {
        f4 sum = {0, 0, 0, 0};
        for (int i = 0; i < n; i++)
            sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a[T + 64 * i], b[T + 64 * i], sum, 0, 0, 0);
        c[T] = sum * 2.0f;
    }""",
    "chain": """(const h4* a, const h4* b, f16v* c, int n) {
        f16v sum = {0};
        f4 small = {0, 0, 0, 0};
        sum = __builtin_amdgcn_mfma_f32_32x32x8f16(a[T], b[T], sum, 0, 0, 0);
        h4 z;
        for (int i = 0; i < 4; i++) z[i] = sum[i];
        sum = __builtin_amdgcn_mfma_f32_32x32x8f16(z, b[T], sum, 0, 0, 0);
        small = __builtin_amdgcn_mfma_f32_4x4x4f16(z, b[T], small, 0, 0, 0);
        sum[0] += small[0];
        c[T] = sum;
    }""",
    "wide": """(const double* a, const double* b, d4* c, int n) {
        d4 sum = {0};
        sum = __builtin_amdgcn_mfma_f64_16x16x4f64(a[T], b[T], sum, 0, 0, 0);
        sum = __builtin_amdgcn_mfma_f64_16x16x4f64(sum[1], b[T], sum, 0, 0, 0);
        c[T] = sum * sum[2] + 1.5;
    }""",
}


@pytest.fixture(scope="module", params=TARGETS.values(), ids=lambda machine: machine.name)
def compiled(request) -> tuple[GcnMachine, dict[str, list[str]]]:
    """The compiler's instructions, by kernel."""
    machine = request.param
    kernels = _KERNELS | (_MATRICES if machine.unified else {})
    text = _HEAD + "".join(f'extern "C" __global__ void {name}{body}\n' for name, body in kernels.items())
    assembly = compile_text(text, machine.target_id)
    found = {}
    for name in kernels:
        body = re.search(rf"^{name}:.*?\n(.*?)^\.Lfunc_end", assembly, re.DOTALL | re.MULTILINE)
        assert body is not None
        lines = [line.partition(";")[0].strip() for line in body[1].splitlines()]
        found[name] = [line for line in lines if line and (line[0] != "." or line.endswith(":"))]
    return machine, found


def rebuilt(machine: GcnMachine, lines: list[str], *, waits: str) -> FinishedKernel:
    k = Kernel(machine, name="k", waits=waits)
    if not machine.architected:  # the compiler starts from more registers than we ask for
        for number in range(24):
            k.emit_line(f"s_mov_b32 s{number}, 0")
    for line in lines:
        if line.endswith(":"):
            k.label(line[:-1])
        elif waits == "manual" or not line.startswith(("s_nop", "s_waitcnt")):
            k.emit_line(" ".join(line.split()))
    return k.finish()


def test_the_compilers_kernels_are_accepted(compiled):
    machine, kernels = compiled
    for name, lines in kernels.items():
        assert len(rebuilt(machine, lines, waits="manual").operations) >= 15, name


def test_the_compilers_waits_and_distances_are_ours(compiled):
    machine, kernels = compiled
    for name, lines in kernels.items():
        finished = rebuilt(machine, lines, waits="insert")
        states = sum(int(line.split()[1]) + 1 for line in lines if line.startswith("s_nop"))
        assert sum(gap.states for gap in finished.gaps.values()) == states, name
        waits = sum(line.startswith("s_waitcnt") for line in lines)
        assert finished.waits.count <= waits, name
        assert finished.waits.count == waits or name == "product"
