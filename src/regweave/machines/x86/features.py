"""Which of the x86 machines this processor and its operating system are.

The kernel's own list (`/proc/cpuinfo`) is asked: it names a feature only if the operating system also saves
the registers that the feature uses, which the processor's CPUID alone does not tell.
"""

from __future__ import annotations

import os
import platform
from functools import cache

from regweave.machines.x86.machine import AVX2, AVX512, VectorMachine

CPUINFO = "/proc/cpuinfo"


@cache
def processor_features(cpuinfo: str | os.PathLike[str] = CPUINFO) -> frozenset[str]:
    """The features of the first processor listed; none where there is no such list, or no x86-64."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return frozenset()
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()


def supports(machine: VectorMachine, features: frozenset[str] | None = None) -> bool:
    """Whether this processor can run code for `machine`."""
    present = processor_features() if features is None else features
    return all(feature in present for feature in machine.features)


def detect(features: frozenset[str] | None = None) -> VectorMachine | None:
    """The best machine that this processor is, None if it is neither."""
    return next((machine for machine in (AVX512, AVX2) if supports(machine, features)), None)
