"""The processor that this process runs on: assemble, load, call."""

from regweave.devices.cpu.assembler import assemble
from regweave.devices.cpu.functions import Function, load, load_text

__all__ = ["Function", "assemble", "load", "load_text"]
