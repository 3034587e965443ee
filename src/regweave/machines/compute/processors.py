"""x86-64 processors, by themselves and through OpenCL; lanes are the positions of a vector register.

Rates are measured ones of two cores of server processors (`regweave bench conv` prints this machine's): 230
GFLOP/s sustained by two threads of one with AVX-512, 200 by two of one that has AVX2 only, 35 GB/s read and
written. Where vectors of 16 elements are two registers each, vectors of 8 are as fast, and what fits the
registers can be counted. Work that must be the same in all lanes, a weight, is a memory operand of the
multiply-add (broadcast from memory, "Embedded Broadcast Support" in Intel's instruction set reference,
volume 2, EVEX) and takes no vector register. A launch through OpenCL is the time to wake the second core.
"""

from __future__ import annotations

from regweave.machines.compute.machine import ComputeMachine, VectorCore

_CHIP = "two cores of a server processor"

_AVX512_CORE = VectorCore()
#: Two multiply-adds a cycle, no weights as operands, 16 registers.
_AVX2_CORE = VectorCore(in_flight=8.0, weight_cost=0.4, streams=12, late=12.0, uncrowded=16, crowded=0.05)


def _processor(
    name: str,
    title: str,
    kind: str,
    lanes: int,
    registers: int,
    gflops: float,
    launch_us: float,
    core: VectorCore = _AVX512_CORE,
) -> ComputeMachine:
    return ComputeMachine(
        name=name,
        title=title,
        kind="assembly" if kind == "assembly" else "vectors",
        lanes=lanes,
        width=1,
        registers=registers,
        full_registers=registers,
        uniform=True,
        storage_row=64,
        group=lanes,
        threads=2 * lanes,
        gflops=gflops,
        gb_per_s=35.0,
        launch_us=launch_us,
        load_cost=0.6,
        core=core,
        chip=_CHIP,
        source="Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapters 14 and 15",
    )


PROCESSORS = (
    _processor("avx512", "x86-64 with AVX-512, in assembly", "assembly", 16, 32, 230.0, 0.0),
    _processor("avx2", "x86-64 with AVX2, in assembly", "assembly", 8, 16, 115.0, 0.0),
    _processor("opencl-avx512", "x86-64 with AVX-512 through OpenCL", "vectors", 16, 32, 230.0, 30.0),
    _processor("opencl-avx2", "x86-64 with AVX2 through OpenCL", "vectors", 8, 16, 200.0, 30.0, _AVX2_CORE),
)
