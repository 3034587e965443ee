"""regweave keeps data in registers."""

__version__ = "0.1.0"
