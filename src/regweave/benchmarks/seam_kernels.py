"""Folds and swaps judged in whole kernels: all instructions of load, multiply, seam, multiply, store.

    >>> compare_seams(SEAM_CASES[:1])["rows"][0]["instructions"]
    {'fold': 53, 'swap': 58, 'exchange': 77, 'shared': 62}

What a fold or a swap saves at the seam it may pay back in the loads of the next operand and in moves. So the
kernels are compiled, and neither may take more instructions than the same kernel with an exchange;
where the exchange moves nothing there is nothing to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from regweave.devices import cuda, hip
from regweave.emitters import emit
from regweave.errors import DeviceError, UnsupportedError
from regweave.kernels.seams import SeamKernel, seam_kernel
from regweave.machines.catalogue import find_machine

_WAYS = ("identity", "fold", "swap", "exchange", "shared")
_JUDGED = ("fold", "swap")
_AMD = {
    "gfx90a": (
        "v_mfma_f32_32x32x8_f16",
        "v_mfma_f32_16x16x16_f16",
        "v_mfma_f32_16x16x4_f32",
        "v_mfma_f32_32x32x2_f32",
        "v_mfma_i32_16x16x16_i8",
        "v_mfma_f64_16x16x4_f64",
    ),
    "gfx942": (
        "v_mfma_f32_32x32x8_f16",
        "v_mfma_f32_16x16x16_f16",
        "v_mfma_f32_16x16x4_f32",
        "v_mfma_i32_16x16x32_i8",
        "v_mfma_f32_16x16x32_fp8_fp8",
    ),
    "gfx950": ("v_mfma_f32_16x16x32_f16", "v_mfma_f32_32x32x16_f16", "v_mfma_i32_16x16x64_i8"),
    "gfx1100": ("v_wmma_f32_16x16x16_f16", "v_wmma_i32_16x16x16_iu8"),
    "gfx1200": ("v_wmma_f32_16x16x16_f16_gfx12", "v_wmma_i32_16x16x16_iu8_gfx12"),
}


@dataclass(frozen=True)
class SeamCase:
    """A kernel: both products' instruction, the operand that takes the result, ReLU between them or not."""

    instruction: str
    machine: str
    operand: str = "A"
    activation: bool = False

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        work = ", ReLU" if self.activation else ""
        return f"{self.instruction} -> {self.operand}{work} {self.machine}"


def _cases() -> tuple[SeamCase, ...]:
    tf32, f16, s8 = "mma.m16n8k8.tf32", "mma.m16n8k16.f16", "mma.m16n8k32.s8"
    cases = []
    for machine in ("sm_80", "sm_90a", "sm_100a", "sm_120"):
        cases += [SeamCase(tf32, machine, "A", activation) for activation in (False, True)]
        cases += [SeamCase(tf32, machine, "B"), SeamCase(f16, machine, "A"), SeamCase(f16, machine, "B")]
        cases += [SeamCase(s8, machine, operand) for operand in "AB"]
        cases.append(SeamCase("mma.m8n8k4.f64", machine))
    cases += [SeamCase("mma.m16n8k8.f64", "sm_90a"), SeamCase("mma.m16n8k32.e4m3", "sm_120")]
    for machine, instructions in _AMD.items():
        cases += [SeamCase(instruction, machine, operand) for instruction in instructions for operand in "AB"]
    return tuple(cases)


SEAM_CASES = _cases()


def compare_seams(
    cases: Sequence[SeamCase] = SEAM_CASES, *, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """Compile every kernel with every strategy that applies, and count its instructions.

    Each row has `missed`, the strategies that take more than the exchange. DeviceError without the compiler
    that a case needs.
    """
    for compiler in dict.fromkeys(_compiler(case.machine) for case in cases):
        reason = compiler.unsupported_reason()
        if reason is not None:
            raise DeviceError(reason, where="bench seams")
    rows = []
    for case in cases:
        say(case.name)
        kernels = {way: kernel for way in _WAYS if (kernel := _kernel(case, way)) is not None}
        counts = {way: _instructions(kernel, case.machine) for way, kernel in kernels.items()}
        exchange = kernels["exchange"].plan
        judged = _JUDGED if exchange.cost.exchanges else ()
        rows.append(
            {
                "name": case.name,
                "machine": case.machine,
                "instructions": counts,
                "strategies": {way: kernel.plan.chosen.name for way, kernel in kernels.items()},
                "exchanges": exchange.cost.exchanges,
                "missed": [way for way in judged if counts.get(way, 0) > counts["exchange"]],
            }
        )
    return {"rows": rows, "reached": not any(row["missed"] for row in rows)}


def _kernel(case: SeamCase, way: str) -> SeamKernel | None:
    try:
        return seam_kernel(
            case.instruction, case.machine, way, operand=case.operand, activation=case.activation
        )
    except UnsupportedError:
        return None


def _instructions(kernel: SeamKernel, machine: str) -> int:
    compiler = _compiler(machine)
    language = "hip" if compiler is hip else "cuda"
    (code,) = compiler.inspect(emit(kernel.program, language), machine, kernel.program.name)
    return len(code)


def _compiler(machine: str) -> ModuleType:
    return hip if find_machine(machine).family == "amd" else cuda
