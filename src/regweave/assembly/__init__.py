"""Assembly with registers assigned up front: templates, analysis, allocation, text."""

from regweave.assembly.builder import Builder
from regweave.assembly.listing import Listing
from regweave.assembly.variables import Memory, Variable

__all__ = ["Builder", "Listing", "Memory", "Variable"]
