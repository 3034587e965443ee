"""Pixels times a small matrix on a CPU.

`structure` is what a kernel is made for, `kernel` has its steps. Between memory and one vector per channel
stand `lanes`, for interleaved numbers, and `bytes`.
"""

__all__: list[str] = []
