"""Machine descriptions: validated data, one folder per family."""

from regweave.machines.machine import Machine, RegisterClass
from regweave.machines.target import AssemblyMachine

__all__ = ["AssemblyMachine", "Machine", "RegisterClass"]
