"""What leaves regweave for other people's builds: plans as headers, permutations of weights, self-tests."""

from regweave.interop.folder import export_plan

__all__ = ["export_plan"]
