"""What assembly for AMD's GCN and CDNA processors consists of: registers, instructions, distances."""

from regweave.machines.amd.assembly.targets import GFX90A, GFX906, GFX942, TARGETS, GcnMachine, find_target

__all__ = ["GFX90A", "GFX906", "GFX942", "TARGETS", "GcnMachine", "find_target"]
