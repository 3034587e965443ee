"""x86-64 processors: AVX-512 and AVX2 with one instruction vocabulary."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names
from regweave.machines.x86.cache_conflicts import lines_clash
from regweave.machines.x86.features import detect, processor_features, supports
from regweave.machines.x86.machine import AVX2, AVX512, CALLER_SAVED, VectorMachine

if TYPE_CHECKING:
    from regweave.machines.x86.general import CONDITIONS

__all__ = [
    "AVX2",
    "AVX512",
    "CALLER_SAVED",
    "CONDITIONS",
    "VectorMachine",
    "detect",
    "lines_clash",
    "processor_features",
    "supports",
]

__getattr__ = lazy_names(__name__, general=("CONDITIONS",))
