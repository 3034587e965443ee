"""Pixels times a small matrix on a CPU: `kernel` has its steps, `bytes` brings pixels to lanes and back."""

__all__: list[str] = []
