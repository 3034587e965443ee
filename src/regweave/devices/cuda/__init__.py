"""NVIDIA's compiler and disassembler, which need no GPU: CUDA C++ in, instructions out."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.cuda.compiler import compile_text, disassemble, inspect, unsupported_reason
    from regweave.devices.cuda.sass import read_sass

__all__ = ["compile_text", "disassemble", "inspect", "read_sass", "unsupported_reason"]

__getattr__ = lazy_names(
    __name__,
    compiler=("compile_text", "disassemble", "inspect", "unsupported_reason"),
    sass=("read_sass",),
)
