"""Self-tests of a plan: a C program that simulates the warp, and the same on a device.

`NAME_selftest.c` needs a C compiler and nothing else. `NAME_selftest.cu` runs the header's function on a
GPU, with nvcc or hipcc; `NAME_selftest.cl` is the same kernel for a host program of one's own. All three
give every lane words that tell each element of the tile apart, and compare what comes back with the
relation of the two layouts.
"""

from __future__ import annotations

from regweave.emitters import emit, emit_trial
from regweave.interop.header import CONDITIONS, can_emit
from regweave.interop.lockstep import lockstep_text
from regweave.interop.probes import Probes, c_array
from regweave.programs import Program

_REPORT = """
static int differences(size_t probe, const uint32_t *found) {
    int wrong = 0;
    for (size_t place = 0; place < RESULTS; ++place) {
        uint32_t difference = (found[place] ^ wanted[probe][place]) & cares[probe][place];
        if (difference != 0 && ++wrong <= 4)
            printf("probe %u, thread %u, register %u: %08x, wanted %08x\\n", (unsigned)probe,
                   (unsigned)(place % THREADS), (unsigned)(place / THREADS), (unsigned)found[place],
                   (unsigned)wanted[probe][place]);
    }
    return wrong;
}
"""

_VERDICT = """    if (wrong != 0) {
        printf("%d words are wrong\\n", wrong);
        return 1;
    }
    printf("all %d probes agree\\n", PROBES);
    return 0;
}
"""

_SIMULATED = """
int main(void) {
    static uint32_t found[RESULTS];
    int wrong = 0;
    for (size_t probe = 0; probe < PROBES; ++probe) {
        simulate(given[probe], found);
        wrong += differences(probe, found);
    }
"""

_ON_DEVICE = """
#ifndef __CUDACC_RTC__
#define CHECK(call) do { auto status = (call); if (status != 0) { \\
    printf("%s: error %d\\n", #call, (int)status); return 2; } } while (0)

int main() {
    static uint32_t found[RESULTS];
    void *x, *y;
    int wrong = 0;
    CHECK(DEVICE(Malloc)(&x, sizeof given[0]));
    CHECK(DEVICE(Malloc)(&y, sizeof wanted[0]));
    for (size_t probe = 0; probe < PROBES; ++probe) {
        CHECK(DEVICE(Memcpy)(x, given[probe], sizeof given[0], DEVICE(MemcpyHostToDevice)));
        selftest<<<1, THREADS>>>((const SOURCE *)x, (RESULT *)y);
        CHECK(DEVICE(GetLastError)());
        CHECK(DEVICE(Memcpy)(found, y, sizeof wanted[0], DEVICE(MemcpyDeviceToHost)));
        wrong += differences(probe, found);
    }
"""


def simulated_text(program: Program, probes: Probes, words: str) -> str:
    """The C program; UnsupportedError for programs that cannot be simulated there."""
    simulation = lockstep_text(program, "simulate")
    heading = [
        f"// {words}",
        "// The lanes simulated in lockstep, on arrays: cc -std=c99 this.c -lm && ./a.out",
        *(f"#include <{library}.h>" for library in ("math", "stdint", "stdio", "string")),
        "",
    ]
    return "\n".join([*heading, *_data(program, probes), simulation]) + _REPORT + _SIMULATED + _VERDICT


def device_text(program: Program, probes: Probes, words: str, header: str) -> str | None:
    """The program for nvcc and hipcc; None if neither language has words for all steps."""
    kernels: list[str] = []
    for language in ("hip", "cuda"):
        if can_emit(program, language):
            kernels += [f"#{'el' if kernels else ''}if {CONDITIONS[language]}", _kernel(program, language)]
    if not kernels:
        return None
    kinds = {"f32": "float", "b32": "unsigned"}
    heading = [
        f"// {words}",
        "// On a GPU: nvcc -x cu this.cu && ./a.out, or hipcc -x hip this.cu && ./a.out",
        "#if defined(__HIP__)",
        "#include <hip/hip_runtime.h>",
        "#define DEVICE(name) hip##name",
        "#else",
        "#define DEVICE(name) cuda##name",
        "#endif",
        f'#include "{header}"',
        f"#define SOURCE {kinds[program.source.type]}",
        f"#define RESULT {kinds[program.destination.type]}",
        "",
    ]
    host = [
        "#ifndef __CUDACC_RTC__",
        "#include <stdint.h>",
        "#include <stdio.h>",
        "",
        *_data(program, probes),
    ]
    return (
        "\n".join([*heading, *kernels, "#endif", "", *host])
        + _REPORT
        + "#endif\n"
        + _ON_DEVICE
        + _VERDICT
        + "#endif\n"
    )


def opencl_text(program: Program, words: str, header: str) -> str | None:
    """The kernel in OpenCL C; None if it has no words for all steps."""
    if not can_emit(program, "opencl"):
        return None
    threads = program.lanes * program.warps
    heading = [
        f"// {words}",
        f"// One work-group of {threads}: word i of item t is x[i * {threads} + t], and likewise in y.",
        f'#include "{header}"',
        "",
    ]
    return "\n".join([*heading, _kernel(program, "opencl")])


def _kernel(program: Program, language: str) -> str:
    """The kernel alone: the function itself comes from the header."""
    return emit_trial(program, language, name="selftest").removeprefix(emit(program, language) + "\n")


def _data(program: Program, probes: Probes) -> list[str]:
    threads = program.lanes * program.warps
    return [
        f"#define THREADS {threads}u",
        f"#define PROBES {len(probes.given)}",
        f"#define RESULTS {probes.wanted.shape[1]}",
        "",
        c_array("given", probes.given),
        "",
        c_array("wanted", probes.wanted),
        "",
        c_array("cares", probes.cares),
        "",
    ]
