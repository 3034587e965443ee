"""Lane-level programs written down in the languages of devices."""

from regweave.emitters.cuda import cuda_function

__all__ = ["cuda_function"]
