"""Machine descriptions: validated data, one folder per family."""

from regweave.machines.machine import Machine, RegisterClass

__all__ = ["Machine", "RegisterClass"]
