"""clang for AMD's GPUs, which needs neither ROCm nor a GPU: HIP C++ in, instructions out."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.hip.compiler import compile_text, inspect, unsupported_reason
    from regweave.devices.hip.gcn import read_gcn

__all__ = ["compile_text", "inspect", "read_gcn", "unsupported_reason"]

__getattr__ = lazy_names(
    __name__,
    compiler=("compile_text", "inspect", "unsupported_reason"),
    gcn=("read_gcn",),
)
