"""The processor that this process runs on: assemble, load, call."""

from regweave.devices.cpu.assembler import assemble
from regweave.devices.cpu.functions import Function, Library, load, load_text

__all__ = ["Function", "Library", "assemble", "load", "load_text"]
