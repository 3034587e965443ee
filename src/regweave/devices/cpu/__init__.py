"""The processor that this process runs on: what it is, its memory; assemble, load, call."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.cpu.assembler import assemble
    from regweave.devices.cpu.buffers import aligned_empty, is_aligned
    from regweave.devices.cpu.functions import Function, Library, load, load_made, load_text
    from regweave.devices.cpu.processor import Caches, caches, chosen_machine

__all__ = [
    "Caches",
    "Function",
    "Library",
    "aligned_empty",
    "assemble",
    "caches",
    "chosen_machine",
    "is_aligned",
    "load",
    "load_made",
    "load_text",
]

__getattr__ = lazy_names(
    __name__,
    assembler=("assemble",),
    buffers=("aligned_empty", "is_aligned"),
    functions=("Function", "Library", "load", "load_made", "load_text"),
    processor=("Caches", "caches", "chosen_machine"),
)
