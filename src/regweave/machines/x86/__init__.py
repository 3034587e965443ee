"""x86-64 processors: AVX-512 and AVX2 with one instruction vocabulary."""

from regweave.machines.x86.features import detect, processor_features, supports
from regweave.machines.x86.general import CALLER_SAVED, CONDITIONS
from regweave.machines.x86.machine import AVX2, AVX512, VectorMachine

__all__ = [
    "AVX2",
    "AVX512",
    "CALLER_SAVED",
    "CONDITIONS",
    "VectorMachine",
    "detect",
    "processor_features",
    "supports",
]
