"""GPUs of NVIDIA and AMD as OpenCL sees them: registers, cache lines and the rates of one board each.

NVIDIA: 65536 registers for 2048 (compute capability 8.0, 9.0) or 1536 (8.6, 8.9) threads of a multiprocessor,
so all are resident up to 32 or 40 registers; 255 at most; lines of 128 bytes (CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability"). AMD: 256 vector registers of a lane; gfx9 keeps all 10
waves up to 24 registers, gfx90a and gfx942 all 8 up to 64 of their 512, gfx1100 all 16 of 32 lanes up to 96
of 1536 (LLVM, "User Guide for AMDGPU Backend"); lines of 64 bytes before gfx940 and 128 from there and from
gfx10 on. Weights, the same for all lanes, stand in scalar or uniform registers on both.
"""

from __future__ import annotations

from regweave.machines.compute.machine import ComputeMachine, gpu_machine


def _gpu(
    name: str,
    title: str,
    lanes: int,
    registers: int,
    full: int,
    line: int,
    threads: int,
    tflops: float,
    gb_per_s: float,
    chip: str,
) -> ComputeMachine:
    return gpu_machine(
        name=name,
        title=title,
        lanes=lanes,
        registers=registers,
        full_registers=full,
        uniform=True,
        storage_row=line,
        group=256 if lanes == 64 else 128,
        threads=threads,
        gflops=1000 * tflops,
        gb_per_s=gb_per_s,
        launch_us=8.0,
        chip=chip,
        source="LLVM AMDGPUUsage" if name.startswith("gfx") else "CUDA C++ Programming Guide",
        loads_ahead=name.startswith("gfx"),
    )


GPUS = (
    _gpu("sm_80", "NVIDIA Ampere", 32, 255, 32, 128, 108 * 2048, 19.5, 1555, "A100, 40 GB"),
    _gpu("sm_86", "NVIDIA Ampere", 32, 255, 40, 128, 82 * 1536, 35.6, 936, "RTX 3090"),
    _gpu("sm_89", "NVIDIA Ada", 32, 255, 40, 128, 128 * 1536, 82.6, 1008, "RTX 4090"),
    _gpu("sm_90a", "NVIDIA Hopper", 32, 255, 32, 128, 132 * 2048, 66.9, 3350, "H100 SXM"),
    _gpu("gfx906", "AMD Vega 20", 64, 256, 24, 64, 60 * 2560, 13.4, 1024, "Radeon VII"),
    _gpu("gfx90a", "AMD CDNA 2", 64, 256, 64, 64, 104 * 2048, 22.6, 1638, "MI210"),
    _gpu("gfx942", "AMD CDNA 3", 64, 256, 64, 128, 304 * 2048, 163.4, 5300, "MI300X"),
    _gpu("gfx1100", "AMD RDNA 3", 32, 256, 96, 128, 96 * 1024, 61.4, 960, "RX 7900 XTX"),
)
