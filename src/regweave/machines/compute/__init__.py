"""Devices that convolutions are planned for, by name: processors and GPUs, most of them through OpenCL."""

from __future__ import annotations

from regweave.errors import unknown_name
from regweave.machines.compute.gpus import GPUS
from regweave.machines.compute.machine import ComputeMachine
from regweave.machines.compute.mobile import MOBILE
from regweave.machines.compute.processors import PROCESSORS

MACHINES = {machine.name: machine for machine in (*PROCESSORS, *MOBILE, *GPUS)}
#: Whole families, by their usual member.
_FAMILIES = {"bifrost": "bifrost-g76", "adreno": "adreno-630"}
#: This processor, by the vectors that it has; as the best of them where it has none.
_HERE = {"cpu": "{}", "opencl-cpu": "opencl-{}"}

__all__ = ["MACHINES", "ComputeMachine", "compute_machine_names", "find_compute_machine"]


def compute_machine_names() -> tuple[str, ...]:
    """The names of all devices, families included."""
    return (*_HERE, *_FAMILIES, *MACHINES)


def find_compute_machine(name: str) -> ComputeMachine:
    """The device of this name; InputError with the nearest names otherwise.

    `cpu` and `opencl-cpu` are this processor: AVX2 where it lacks AVX-512.
    """
    if isinstance(name, str) and name in _HERE:
        from regweave.machines.x86.features import detect

        found = detect()
        return MACHINES[_HERE[name].format("avx512" if found is None else found.name)]
    if isinstance(name, str) and _FAMILIES.get(name, name) in MACHINES:
        return MACHINES[_FAMILIES.get(name, name)]
    raise unknown_name("machine", name, compute_machine_names(), where="machine")
