"""GPUs of phones: Arm's Bifrost and Valhall, Qualcomm's Adreno.

Arm's GPU datasheet gives warp width, resident threads of a core, f32 operations per clock and core and the
load and store cache (16 KiB, lines of 64 bytes):

    G71, G72    warps of 4     384 threads    24 operations
    G76         warps of 8     768 threads    48 operations
    G77         warps of 16   1024 threads    64 operations

The register file of a core gives each thread 64 registers of 32 bits where half of the threads are
resident, 32 or fewer where all are (Arm, "Mali offline compiler user guide", work registers; the same
on Valhall). A thread loads at best 128 bits at a time. Adreno 6xx keeps 96 vec4 registers for each fibre slot
of a wave (Mesa, `ir3_shader.c` and `freedreno_devices.py`): at most 48 vec4, 192 registers, and all 16 waves
of 64 fibres up to 48 registers; "Qualcomm Snapdragon Mobile Platform OpenCL General Programming and
Optimization" recommends loads of 128 bits.
"""

from __future__ import annotations

from regweave.machines.compute.machine import ComputeMachine, gpu_machine

_DATASHEET = "Arm GPU datasheet; Arm Mali offline compiler user guide"


def _mali(
    name: str,
    title: str,
    lanes: int,
    operations: int,
    resident: int,
    cores: int,
    mhz: int,
    gb_per_s: float,
    chip: str,
) -> ComputeMachine:
    return gpu_machine(
        name=name,
        title=title,
        lanes=lanes,
        registers=64,
        full_registers=32,
        uniform=False,
        storage_row=64,
        group=64,
        threads=resident * cores,
        gflops=operations * cores * mhz / 1000,
        gb_per_s=gb_per_s,
        launch_us=60.0,
        chip=chip,
        source=_DATASHEET,
    )


MOBILE = (
    _mali("bifrost-g71", "Arm Mali-G71 (Bifrost)", 4, 24, 384, 8, 1037, 28.8, "Kirin 960, 8 cores"),
    _mali("bifrost-g72", "Arm Mali-G72 (Bifrost)", 4, 24, 384, 12, 746, 29.8, "Kirin 970, 12 cores"),
    _mali("bifrost-g76", "Arm Mali-G76 (Bifrost)", 8, 48, 768, 10, 720, 34.1, "Kirin 980, 10 cores"),
    _mali("valhall", "Arm Mali-G77 (Valhall)", 16, 64, 1024, 11, 800, 44.0, "Exynos 990, 11 cores"),
    gpu_machine(
        name="adreno-630",
        title="Qualcomm Adreno 630",
        lanes=64,
        registers=192,
        full_registers=48,
        uniform=True,
        storage_row=64,
        group=64,
        threads=2 * 16 * 64,
        gflops=727.0,
        gb_per_s=29.8,
        launch_us=60.0,
        chip="Snapdragon 845",
        source="Mesa freedreno (ir3_shader.c, freedreno_devices.py)",
    ),
)
