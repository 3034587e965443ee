"""clang for AMD's GPUs, which needs neither ROCm nor a GPU.

HIP C++ goes in and instructions come out; assembly goes in and code objects come out.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.hip.compiler import compile_text, inspect, unsupported_reason
    from regweave.devices.hip.disassembler import disassemble
    from regweave.devices.hip.gcn import read_gcn
    from regweave.devices.hip.objects import Counts, assemble, machine_code, read_counts

__all__ = [
    "Counts",
    "assemble",
    "compile_text",
    "disassemble",
    "inspect",
    "machine_code",
    "read_counts",
    "read_gcn",
    "unsupported_reason",
]

__getattr__ = lazy_names(
    __name__,
    compiler=("compile_text", "inspect", "unsupported_reason"),
    disassembler=("disassemble",),
    gcn=("read_gcn",),
    objects=("Counts", "assemble", "machine_code", "read_counts"),
)
