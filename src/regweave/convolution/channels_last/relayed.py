"""A convolution of bands of planes as machine code: a relay of kernels, for arrays of one shape.

    native = BandedConvolution(c, choice, x_strides, y_strides, weights, bias, threads)
    native.run(x, y, packed)

The tables of all steps are made once; a call adds the addresses of its image and its result to them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from regweave.cascades.arrays import aligned_bytes
from regweave.cascades.running import job_parts
from regweave.cascades.threads import run
from regweave.convolution.channels_last.banded import BandChoice, band_bytes, bands, plane_strides
from regweave.convolution.planes.native import NativeConvolution
from regweave.convolution.planes.strips import strip_limit
from regweave.convolution.planes.tables import pack_weights
from regweave.devices import cpu
from regweave.kernels.colours.kernel import colour_kernel
from regweave.kernels.colours.structure import ColourArguments, Colours
from regweave.kernels.convolution import ConvArguments
from regweave.kernels.relay import RelayPart, RelayStep, relay_kernel
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution


def _dtype(structure: type[ctypes.Structure]) -> np.dtype:
    return np.dtype([(name, np.int64) for name, *_ in structure._fields_])


_COLOURS, _STEP, _PART, _CONV = map(_dtype, (ColourArguments, RelayStep, RelayPart, ConvArguments))


@lru_cache(maxsize=32)
def _exchange(channels: int, machine: VectorMachine, *, back: bool, stream: bool = False) -> cpu.Function:
    """Pixels of so many channels to planes, or back."""
    colours = Colours(
        channels, channels, "f32", "f32", source_planes=back, target_planes=not back, matrix=False,
        stream=stream,
    )  # fmt: skip
    return cpu.load_made(lambda: colour_kernel(colours, machine), repr(colours), machine)


@lru_cache(maxsize=4)
def _relay(machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: relay_kernel(machine), "relay", machine)


class _Band(NamedTuple):
    """Output rows from `first` on, the image rows that they read; the convolution of their planes, its
    arguments, the strides of the planes."""

    first: int
    rows: int
    lines: range
    native: NativeConvolution
    arguments: np.ndarray
    x: tuple[int, ...]
    y: tuple[int, ...]


class _Bound(NamedTuple):
    """Numbers that are addresses once that of the image, or else of the result, is added `times` times."""

    where: np.ndarray
    number: np.ndarray
    times: np.ndarray
    image: bool


class _Work(NamedTuple):
    """Tables and memory of a call."""

    bound: tuple[_Bound, ...]
    flags: np.ndarray
    parts: np.ndarray
    kept: tuple[np.ndarray, ...]


class BandedConvolution:
    """A convolution of images whose pixels, and those of its results, follow one another in rows; strides in
    bytes of image, channel, row and pixel."""

    def __init__(
        self,
        c: Convolution,
        choice: BandChoice,
        x_strides: Sequence[int],
        y_strides: Sequence[int],
        weights: np.ndarray,
        bias: np.ndarray | None,
        threads: int,
    ) -> None:
        self.c, self.choice, self.threads = c, choice, threads
        self.x_strides, self.y_strides = x_strides, y_strides
        self.parts = band_parts(c, choice, threads)
        self._packed: dict[object, np.ndarray] = {}
        made: dict[object, tuple[NativeConvolution, np.ndarray, tuple[int, ...], tuple[int, ...]]] = {}
        self._bands = []
        for first, band, lines in bands(c, choice.band_rows):
            key = band.vertical, bool(lines)
            if key not in made:
                made[key] = self._made(band, weights, bias, empty=not lines)
            self._bands.append(_Band(first, band.vertical.outputs, lines, *made[key]))
        self._watched = any(band.native.choice.tile.combined is not None for band in self._bands)
        self._relay, self._free = _relay(choice.asked.machine), list[_Work]()

    def _made(
        self, band: Convolution, weights: np.ndarray, bias: np.ndarray | None, *, empty: bool
    ) -> tuple[NativeConvolution, np.ndarray, tuple[int, ...], tuple[int, ...]]:
        down, across = band.axes
        x = plane_strides(band.channels, down.size, across.size, None if empty else self.x_strides[2])
        y = plane_strides(band.filters, down.outputs, across.outputs, self.y_strides[2])
        choice = self.choice.asked.choose(band)
        order = choice.tiles, choice.tile
        if order not in self._packed:
            self._packed[order] = pack_weights(band, choice, weights, bias)
        native = NativeConvolution(band, choice, self.choice.asked.machine, x, y, 1)
        return native, np.frombuffer(bytes(native.template(self._packed[order])), _CONV), x, y

    def run(self, x: int, y: int, packed: np.ndarray) -> bool:
        """The result at address `y` of the image at address `x`; False if this form is not for its values."""
        try:
            work = self._free.pop()
        except IndexError:
            work = self._work()
        for where, number, times, image in work.bound:
            where[...] = number + times * (x if image else y)
        run(self._relay.address, work.parts.ctypes.data, self.parts, self.threads)
        finite = not self._watched or not np.isnan(work.flags).any()
        self._free.append(work)
        return bool(finite)

    def _work(self) -> _Work:
        """The steps of each part: for each of its bands, rows apart, planes convolved, rows together."""
        c, choice, found = self.c, self.choice, self._bands
        apart = _exchange(c.channels, choice.asked.machine, back=False).address if c.channels > 1 else 0
        together = 0
        if c.filters > 1:
            together = _exchange(c.filters, choice.asked.machine, back=True, stream=choice.stream).address
        rooms = [max(band.x[0] for band in found), max(band.y[0] for band in found)]
        scratch = max(int(band.arguments["scratch_bytes"][0]) for band in found)
        room = -(-(sum(rooms) + scratch) // 64) * 64
        memory = aligned_bytes(self.parts * room)
        zeros = np.zeros(max((band.x[0] for band in found if not band.lines), default=0), np.uint8)
        units = [(image, band) for image in range(c.batch) for band in found]
        conv = np.concatenate([band.arguments for _, band in units])
        flags = np.zeros((len(units), choice.asked.machine.vector_bytes // 4), np.float32)
        conv["flags"] = flags.ctypes.data + np.arange(len(units)) * flags.strides[0]
        there = np.zeros((2, len(units)), np.int64)  # of single channels and filters: where they are
        taken, put, kinds, counts = [], [], [], np.zeros(self.parts, np.int64)
        for number, (image, band) in enumerate(units):
            part = number * self.parts // len(units)
            source = planes = memory.ctypes.data + part * room
            result = planes + rooms[0]
            conv["scratch"][number] = result + rooms[1]
            x = image * self.x_strides[0] + band.lines.start * self.x_strides[2]
            y = image * self.y_strides[0] + band.first * self.y_strides[2]
            jobs = 0, 0
            if not band.lines:
                source = zeros.ctypes.data
            elif apart:
                taken.append(
                    self._rows(
                        c.horizontal.size, c.channels, x, self.x_strides[2], planes, band.x, len(band.lines)
                    )
                )
                jobs = len(taken[-1]), 0
            else:
                source, there[0, number] = x, 1
            if together:
                put.append(
                    self._rows(
                        c.horizontal.outputs,
                        c.filters,
                        y,
                        self.y_strides[2],
                        result,
                        band.y,
                        band.rows,
                        back=True,
                    )
                )
                jobs = jobs[0], len(put[-1])
            else:
                result, there[1, number] = y, 1
            conv["x"][number], conv["y"][number] = source, result
            kinds += [np.zeros(jobs[0], np.int8), np.ones(1, np.int8), np.full(jobs[1], 2, np.int8)]
            counts[part] += jobs[0] + 1 + jobs[1]
        tables = [
            np.concatenate(taken or [np.zeros(0, _COLOURS)]),
            conv,
            np.concatenate(put or [np.zeros(0, _COLOURS)]),
        ]
        kind = np.concatenate(kinds)
        steps = np.zeros(len(kind), _STEP)
        for which, (table, function) in enumerate(zip(tables, (apart, 0, together), strict=True)):
            steps["arguments"][kind == which] = table.ctypes.data + np.arange(len(table)) * table.itemsize
            steps["function"][kind == which] = function
        steps["function"][kind == 1] = [band.native.kernel.address for _, band in units]
        parts = np.zeros(self.parts, _PART)
        parts["count"] = counts
        parts["steps"] = steps.ctypes.data + (np.cumsum(counts) - counts) * steps.itemsize
        one = np.ones(1, np.int64)
        bound = [(tables[0]["source"], one, True), (tables[2]["target"], one, False)]
        bound += [(conv["x"], there[0], True), (conv["y"], there[1], False)]
        return _Work(
            tuple(_Bound(where, where.copy(), times, image) for where, times, image in bound),
            flags,
            parts,
            (memory, zeros, steps, *tables),
        )

    def _rows(
        self,
        width: int,
        channels: int,
        pixels: int,
        pitch: int,
        planes: int,
        steps: Sequence[int],
        count: int,
        *,
        back: bool = False,
    ) -> np.ndarray:
        """What takes `count` rows of pixels apart, from `pixels` on, `pitch` bytes apart; or puts them
        together.

        What fills no vector at the end of a row is done with pixels before it, again.
        """
        lanes = self.choice.asked.machine.lanes
        starts = (0,) if width % lanes == 0 else (0, width - lanes)
        jobs, rows = np.zeros((count, len(starts)), _COLOURS), np.arange(count)
        for job, first in zip(jobs.T, starts, strict=True):
            sides = pixels + rows * pitch + 4 * channels * first, planes + rows * steps[2] + 4 * first
            job["source"], job["target"] = reversed(sides) if back else sides
            job["source_step" if back else "target_step"] = steps[1]
            job["tiles"] = 1 if first else width // lanes
        return jobs.reshape(-1)


def band_parts(c: Convolution, choice: BandChoice, threads: int) -> int:
    """Parts that the work is divided in: as many as strips have memory for, and one for each thread."""
    room = strip_limit(c) // max(1, band_bytes(c, choice))
    units = c.batch * -(-c.vertical.outputs // choice.band_rows)
    most = min(units, max(threads, room // threads * threads))
    return min(most, job_parts(2.0 * c.products, threads, most))  # a relay has a step at least
