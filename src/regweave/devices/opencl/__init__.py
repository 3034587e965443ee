"""OpenCL devices: the processor, with real sub-groups of 4 to 64 lanes, and a GPU where there is one."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.opencl.buffers import HALF_PAGE, buffer
    from regweave.devices.opencl.kept import build_kept, compile_all
    from regweave.devices.opencl.kernels import Kernel, Library, build
    from regweave.devices.opencl.runtime import (
        Runtime,
        load_runtime,
        open_gpu,
        open_runtime,
        unsupported_reason,
    )
    from regweave.devices.opencl.trials import execute, execute_all

__all__ = [
    "HALF_PAGE",
    "Kernel",
    "Library",
    "Runtime",
    "buffer",
    "build",
    "build_kept",
    "compile_all",
    "execute",
    "execute_all",
    "load_runtime",
    "open_gpu",
    "open_runtime",
    "unsupported_reason",
]

__getattr__ = lazy_names(
    __name__,
    buffers=("HALF_PAGE", "buffer"),
    kept=("build_kept", "compile_all"),
    kernels=("Kernel", "Library", "build"),
    runtime=("Runtime", "load_runtime", "open_gpu", "open_runtime", "unsupported_reason"),
    trials=("execute", "execute_all"),
)
