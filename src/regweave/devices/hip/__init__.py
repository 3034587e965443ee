"""clang for AMD's GPUs, which needs neither ROCm nor a GPU; and a GPU, where there is one.

HIP C++ goes in and instructions come out; assembly goes in and code objects come out; kernels run.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.hip.agreement import Agreement, check_object
    from regweave.devices.hip.compiler import compile_text, inspect, unsupported_reason
    from regweave.devices.hip.disassembler import disassemble
    from regweave.devices.hip.execution import device_reason, run
    from regweave.devices.hip.gcn import read_gcn
    from regweave.devices.hip.objects import Counts, assemble, machine_code, read_counts

__all__ = [
    "Agreement",
    "Counts",
    "assemble",
    "check_object",
    "compile_text",
    "device_reason",
    "disassemble",
    "inspect",
    "machine_code",
    "read_counts",
    "read_gcn",
    "run",
    "unsupported_reason",
]

__getattr__ = lazy_names(
    __name__,
    agreement=("Agreement", "check_object"),
    compiler=("compile_text", "inspect", "unsupported_reason"),
    disassembler=("disassemble",),
    execution=("device_reason", "run"),
    gcn=("read_gcn",),
    objects=("Counts", "assemble", "machine_code", "read_counts"),
)
