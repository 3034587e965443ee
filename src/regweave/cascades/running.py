"""Running a checked call: on the native kernel with threads, or on the portable device.

What a call needs beside the weights (argument block, scratch memory) is a workspace. A call takes a free one
or makes one, so calls from several Python threads at once never share it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from regweave.cascades.arrays import aligned_bytes, row_pitch
from regweave.cascades.native import NativeChain
from regweave.cascades.threads import run
from regweave.kernels.arguments import STREAM
from regweave.operators import Chain

#: From this size on a result is written past the caches, which would not hold it anyway.
STREAM_BYTES = 8 << 20
#: What one part should at least be worth, and how much scratch memory all parts together may take.
_PART_SECONDS = 80e-6
_MOST_SCRATCH = 16 << 20
_MOST_PARTS = 256


def job_parts(flops: float, threads: int, most: int = _MOST_PARTS) -> int:
    """Into how many parts a job of so many float operations is divided for up to `threads` threads.

    One per thread would do if all ran at one speed from the start; a few more even out what does not.
    """
    if threads == 1:
        return 1
    from regweave.cascades.costs import host_costs

    worth = int(flops / host_costs().flops / _PART_SECONDS)
    parts = min(worth, most)
    if parts < 2 * threads:
        return max(1, min(threads, 2 * worth))
    return parts // threads * threads


class Runner(Protocol):
    """Carries out a chain on arrays that are checked and laid out."""

    def parts(self, rows: int) -> int:
        """Into how many parts a job of `rows` rows (pixels of all images) is divided."""
        ...

    def run(self, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray, rows: int, batch: int) -> None:
        """y = chain(x, extras); `rows` is M or the pixels of one image, `batch` the images (1 for rows)."""
        ...


class PortableRunner:
    """In NumPy."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def parts(self, rows: int) -> int:
        return 1

    def run(self, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray, rows: int, batch: int) -> None:
        from regweave.cascades import portable

        if self.chain.order == "pixels":
            x, y, *extras = (array.reshape(batch, -1, rows) for array in (x, y, *extras))
        elif self.chain.order == "rows":
            extras = [extra.reshape(rows, -1) for extra in extras]
        portable.run_chain(self.chain, x, extras, y)


class _Workspace:
    """The memory of one call at a time: an argument block, and scratch for up to `parts` parts."""

    def __init__(self, native: NativeChain, parts: int) -> None:
        self.parts = parts
        self.arguments: Any = native.arguments()
        self.address = ctypes.addressof(self.arguments)
        self.scratch = aligned_bytes(native.scratch_bytes(parts))
        self.arguments.scratch = self.scratch.ctypes.data


class NativeRunner:
    """By the kernel, on up to `threads` threads."""

    def __init__(self, native: NativeChain, threads: int) -> None:
        self.native = native
        self.threads = threads
        self._free: list[_Workspace] = []
        stages = native.chain.stages
        self._flops = 2.0 * sum(stage.k * stage.n for stage in stages)

    def parts(self, rows: int) -> int:
        fitting = _MOST_SCRATCH // max(self.native.plan.scratch_bytes, 1)
        return job_parts(self._flops * rows, self.threads, min(_MOST_PARTS, fitting))

    def run(self, x: np.ndarray, extras: Sequence[np.ndarray], y: np.ndarray, rows: int, batch: int) -> None:
        native = self.native
        chain = native.chain
        parts = self.parts(rows * batch)
        workspace = self._take(parts)
        arguments = workspace.arguments
        arguments.x, arguments.y = x.ctypes.data, y.ctypes.data
        if chain.order == "rows":
            arguments.x_pitch, arguments.y_pitch = row_pitch(x), row_pitch(y)
        else:
            arguments.x_pitch = arguments.y_pitch = 4 * rows * max(chain.block, 1)
        arguments.rows, arguments.batch, arguments.parts = rows, batch, parts
        step = native.machine.vector_bytes
        aligned = arguments.y % step == 0 and arguments.y_pitch % step == 0
        arguments.flags = STREAM if aligned and y.nbytes >= STREAM_BYTES else 0
        for index, extra in enumerate(extras):
            arguments.extras[index] = extra.ctypes.data
        run(native.entry, workspace.address, parts, self.threads)
        self._free.append(workspace)

    def _take(self, parts: int) -> _Workspace:
        """A workspace that nobody else uses; list operations are atomic, so no lock is needed."""
        try:
            workspace = self._free.pop()
        except IndexError:
            return _Workspace(self.native, parts)
        return workspace if workspace.parts >= parts else _Workspace(self.native, parts)
