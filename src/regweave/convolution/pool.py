"""Calls of one kernel by any threads: each takes the memory for its strips from a pool.

    calls = CallPool(kernel, arguments, threads, flag_bytes, watched=tile.combined is not None)
    calls.run(x, y, packed)     # False: results are not finite, the plain sum is to be asked

Everything but three addresses is fixed when the arguments are made. Strips take memory only while a call
runs; a call takes a free piece or makes one, so calls from several Python threads at once do not share it.
"""

from __future__ import annotations

import ctypes
from typing import Generic, TypeVar

import numpy as np

from regweave.cascades.arrays import address_of, aligned_bytes
from regweave.cascades.threads import run
from regweave.devices import cpu
from regweave.kernels.channels_last import LastArguments
from regweave.kernels.convolution import ConvArguments

Arguments = TypeVar("Arguments", ConvArguments, LastArguments)


class CallPool(Generic[Arguments]):
    """A kernel with its arguments, complete but for image, result, weights, scratch memory and flags.

    `flag_bytes` is what each part tells of its results: a vector, NaN where one is not finite. It is looked
    at where results are watched, since a kernel that combines rows first spreads what is not finite.
    """

    def __init__(
        self, kernel: cpu.Function, arguments: Arguments, threads: int, flag_bytes: int, *, watched: bool
    ) -> None:
        self.kernel, self.arguments, self.threads = kernel, arguments, threads
        self.flag_bytes, self.watched = flag_bytes, watched
        self._free: list[tuple[Arguments, np.ndarray, np.ndarray]] = []

    def run(self, x: int, y: int, packed: np.ndarray) -> bool:
        """The result at address `y` of the image at address `x`; False if this form is not for its values."""
        parts = self.arguments.parts
        try:
            arguments, scratch, flags = self._free.pop()
        except IndexError:
            scratch = aligned_bytes(parts * self.arguments.scratch_bytes)
            arguments = type(self.arguments).from_buffer_copy(self.arguments)
            arguments.scratch = scratch.ctypes.data
            flags = aligned_bytes(parts * self.flag_bytes).view(np.float32)
            arguments.flags = flags.ctypes.data
        arguments.x, arguments.y, arguments.packed = x, y, address_of(packed)
        run(self.kernel.address, ctypes.addressof(arguments), parts, self.threads)
        finite = not self.watched or not np.isnan(flags).any()
        self._free.append((arguments, scratch, flags))
        return bool(finite)
