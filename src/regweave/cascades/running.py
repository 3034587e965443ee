"""Running a checked call: on the native kernel with threads, or on the portable device.

What a call needs beside the weights (argument block, scratch memory) is a workspace. A call takes a free one
or makes one, so calls from several Python threads at once never share it.

A workspace remembers the shapes that it was last filled in for. Most calls repeat the one before on other
numbers, and `again` then needs the two addresses only. That matters more than it seems: what runs before the
kernel finds its own code and data swept out of the caches by the kernel of the call before. Measured, the
checks of a first call take 9 us when they are repeated at once and 100 to 140 us between kernels, 3 to 7 %
of a chain of 2 to 4 ms; `again` takes 10 to 20 us there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from regweave.cascades.arrays import aligned_bytes, row_pitch
from regweave.cascades.native import NativeChain
from regweave.cascades.threads import run
from regweave.kernels.common.arguments import STREAM
from regweave.operators import Chain

#: Shapes of a call's x and y.
Shapes = tuple[tuple[int, ...], tuple[int, ...]]

#: Memory that may be written, of which the address is wanted; of an ndarray the fastest way to it.
_BYTE: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
_FLOAT = np.dtype(np.float32)

#: From this size on a result is written past the caches, which would not hold it anyway.
STREAM_BYTES = 8 << 20
#: Bytes of a line: past the caches go whole ones only. Where rows begin in the middle of one, halves of many
#: are open at a time, and 262144 x 64-64-64 takes 49 instead of 45 ms on AVX2, whose vectors are half a line.
LINE = 64
#: What one part should at least be worth, and what none of a few per thread need be divided further for.
_PART_SECONDS, _LONG_SECONDS = 80e-6, 2e-3
#: Parts per thread: of most jobs, and of those whose parts would still be long.
_PARTS_EACH, _MOST_PARTS_EACH = 4, 16
#: How much scratch memory all parts together may take.
_MOST_SCRATCH = 16 << 20


def job_parts(flops: float, threads: int, most: int = sys.maxsize) -> int:
    """Into how many parts a job of so many float operations is divided for up to `threads` threads: at most
    `most`, or else one per thread, of which some may then find no work.

    One per thread would do if all ran at one speed from the start; a few more even out what does not. Many
    more cost: each has scratch memory of its own, so that an intermediate is not in the core's cache when the
    next part starts, and each fetches all weights. Measured with 2 threads, 4096 x 64-512-64 runs at 96 % of
    the peak in 2 to 8 parts, at 94 % in 16 and at 89 % in 56.
    """
    if threads == 1:
        return 1
    from regweave.cascades.costs import host_costs

    seconds = flops / host_costs().flops
    worth, long = int(seconds / _PART_SECONDS), int(seconds / _LONG_SECONDS)
    even = max(_PARTS_EACH * threads, min(long, _MOST_PARTS_EACH * threads))
    parts = min(worth, even, most)
    if parts < 2 * threads:
        return max(1, min(threads, 2 * worth))
    return parts // threads * threads


class Runner(Protocol):
    """Carries out a chain on arrays that are checked and laid out."""

    def parts(self, rows: int) -> int:
        """Into how many parts a job of `rows` rows (pixels of all images) is divided."""
        ...

    def run(
        self,
        x: np.ndarray,
        extras: Sequence[np.ndarray],
        y: np.ndarray,
        rows: int,
        batch: int,
        shapes: Shapes | None = None,
    ) -> None:
        """y = chain(x, extras); `rows` is M or the pixels of one image, `batch` the images (1 for rows).

        `shapes` of a contiguous x and y as the caller gave them: `again` will do for the next ones.
        """
        ...

    def again(self, x: object, y: object) -> bool:
        """Do the last call once more on an x and y of the same shapes; False, with nothing done, for
        others."""
        ...


class PortableRunner:
    """In NumPy."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def parts(self, rows: int) -> int:
        return 1

    def again(self, x: object, y: object) -> bool:
        return False

    def run(
        self,
        x: np.ndarray,
        extras: Sequence[np.ndarray],
        y: np.ndarray,
        rows: int,
        batch: int,
        shapes: Shapes | None = None,
    ) -> None:
        from regweave.cascades import portable

        if self.chain.order == "pixels":
            x, y, *extras = (array.reshape(batch, -1, rows) for array in (x, y, *extras))
        elif self.chain.order == "rows":
            extras = [extra.reshape(rows, -1) for extra in extras]
        portable.run_chain(self.chain, x, extras, y)


class _Workspace:
    """The memory of one call at a time: an argument block, and scratch for up to `parts` parts.

    `shapes` are those of x and y that the block is filled in for but for their addresses, if both were
    contiguous and there was nothing beside them; else None.
    """

    def __init__(self, native: NativeChain, parts: int) -> None:
        self.parts = parts
        self.shapes: Shapes | None = None
        self.arguments: Any = native.arguments()
        self.address = ctypes.addressof(self.arguments)
        self.scratch = aligned_bytes(native.scratch_bytes(parts))
        self.arguments.scratch = self.scratch.ctypes.data

    def fill(self, x: int, y: int, y_bytes: int) -> None:
        """The addresses of x and y, whose pitches are there already, and how y is written."""
        arguments = self.arguments
        arguments.x, arguments.y = x, y
        stream = y_bytes >= STREAM_BYTES and not (y | arguments.y_pitch) % LINE
        arguments.flags = STREAM if stream else 0

    def refill(self, x: np.ndarray, y: np.ndarray) -> bool:
        """`fill` for arrays of the workspace's shapes, if they are laid out as contiguous ones are."""
        try:
            at, to = ctypes.addressof(_BYTE(x)), ctypes.addressof(_BYTE(y))
        except (TypeError, ValueError, BufferError):  # read-only, or not contiguous
            return False
        y_bytes = y.nbytes
        if (at | to) % 4 or -y_bytes < to - at < x.nbytes:  # misaligned, or overlapping
            return False
        self.fill(at, to, y_bytes)
        return True


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
        return job_parts(self._flops * rows, self.threads, fitting)

    def run(
        self,
        x: np.ndarray,
        extras: Sequence[np.ndarray],
        y: np.ndarray,
        rows: int,
        batch: int,
        shapes: Shapes | None = None,
    ) -> None:
        chain = self.native.chain
        parts = self.parts(rows * batch)
        workspace = self._take(parts)
        arguments = workspace.arguments
        if chain.order == "rows":
            arguments.x_pitch, arguments.y_pitch = row_pitch(x), row_pitch(y)
        else:
            arguments.x_pitch = arguments.y_pitch = 4 * rows * max(chain.block, 1)
        arguments.rows, arguments.batch, arguments.parts = rows, batch, parts
        for index, extra in enumerate(extras):
            arguments.extras[index] = extra.ctypes.data
        workspace.fill(x.ctypes.data, y.ctypes.data, y.nbytes)
        workspace.shapes = shapes
        self._run(workspace)

    def again(self, x: object, y: object) -> bool:
        if type(x) is not np.ndarray or type(y) is not np.ndarray:
            return False
        try:
            workspace = self._free.pop()
        except IndexError:
            return False
        same = workspace.shapes == (x.shape, y.shape) and x.dtype is _FLOAT and y.dtype is _FLOAT
        if same and workspace.refill(x, y):
            self._run(workspace)
            return True
        self._free.append(workspace)
        return False

    def _run(self, workspace: _Workspace) -> None:
        run(self.native.entry, workspace.address, workspace.arguments.parts, self.threads)
        self._free.append(workspace)

    def _take(self, parts: int) -> _Workspace:
        """A workspace that nobody else uses; list operations are atomic, so no lock is needed."""
        try:
            workspace = self._free.pop()
        except IndexError:
            return _Workspace(self.native, parts)
        return workspace if workspace.parts >= parts else _Workspace(self.native, parts)
