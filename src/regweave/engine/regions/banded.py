"""A region prepared band by band (see graphs/regions/bands.py): the same kernels, on some rows of its images.

Every step is a whole small convolution to its kernel: rows [first, last) with padding only where the image
really ends, in planes that are as far apart as the windows want it. Bands depend on shapes alone, never on
the number of threads, and so do the results.
"""

from __future__ import annotations

from math import prod

from regweave.devices.onnxruntime import LINE, OUTPUT_PLACE, WORK_PLACE, Place, Prepared, Step
from regweave.engine.regions.interleaved import Part
from regweave.engine.regions.plan import Plan
from regweave.engine.regions.preparing import Shape, piece_step, planes_step, room_of
from regweave.graphs import Piece
from regweave.graphs.pieces.members import JOIN, Spot, placed
from regweave.graphs.regions.bands import (
    Band,
    Bands,
    Slide,
    Work,
    band_by_band,
    is_convolution,
    rows_read,
    total_bytes,
    vertical,
)
from regweave.operators import EnlargedTaps, Largest, PlaneWork, Repeat

BAND_BYTES = 7 << 19
"""What the windows of a region may take: more than a core's own cache, since very low bands cost more than
that gains (a stem of 6 convolutions at 640 x 640: 14.2 ms as a whole, 13.0 in bands of 4 rows, 12.3 of 8)."""

BAND_ROWS = (96, 48, 24, 12, 6, 4)
"""Of a region's result, as its windows allow: rows are transformed in groups of 2, 3 (at stride 2) and 4, and
what is left of a group costs as much as a whole one. A stem takes 10.4 ms in bands of 8 rows, 9.9 of 12."""

MOST_STEPS = 4096
"""Of a prepared size; each takes about a kilobyte."""

_PAGE = 4096


def banded(plan: Plan) -> Banded | None:
    """The region in bands; None where its images fit the cache as they are, or bands cannot be made."""
    region, shapes, where = plan.region, plan.shapes, plan.where
    out = shapes[region.output]
    if 0 in out or total_bytes(region, shapes, where) <= BAND_BYTES * out[0]:
        return None
    found = None
    for rows in BAND_ROWS:  # many bands take longer to plan than few
        bands = band_by_band(region, shapes, where, rows)
        if bands is None:
            return None
        found = Banded(plan, bands)
        if found.size <= BAND_BYTES:
            break
    if found is None or out[0] * sum(len(b.works) + len(b.slides) for b in found.bands.bands) > MOST_STEPS:
        return None
    return found


class Banded:
    """A plan whose images are windows of rows, one batch element after the other."""

    def __init__(self, plan: Plan, bands: Bands) -> None:
        self.plan, self.bands = plan, bands
        self.pitch = {}
        for root, rows in bands.windows.items():
            plane = -(-4 * rows * plan.shapes[root][3] // LINE) * LINE
            # planes whose distance is a multiple of a page would share the sets of the cache
            self.pitch[root] = plane if plane % _PAGE else plane + LINE
        sizes = {root: plan.shapes[root][1] * pitch for root, pitch in self.pitch.items()}
        self.offsets, self.size = placed(plan.region, sizes, plan.where, LINE, bands.kept)
        self.parts: dict[tuple, tuple[Part, ...]] = {}

    def prepared(self) -> Prepared:
        """The steps of all bands of all images."""
        shape = self.plan.shapes[self.plan.region.output]
        for band in self.bands.bands:
            for work in band.works:
                if is_convolution(work.member):
                    self._parts(work)
        dense = [part.dense for parts in self.parts.values() for part in parts]
        strips, room = room_of(dense, self.plan.layers.scratch_bytes)
        steps = [
            step
            for image in range(shape[0])
            for band in self.bands.bands
            for step in (
                *(self._slide(slide, room) for slide in band.slides if slide.last > slide.first),
                *(step for work in band.works for step in self._steps(work, band, image, strips, room)),
            )
        ]
        return Prepared(shape, tuple(steps), room + self.size)

    def _place(self, tensor: str, row: int, band: Band, image: int, room: int) -> tuple[Place, int]:
        """Where a row of a tensor lies, and the bytes from one of its planes to the next."""
        region, shape = self.plan.region, self.plan.shapes[tensor]
        line, plane, whole = 4 * shape[3], 4 * prod(shape[2:]), 4 * prod(shape[1:])
        if tensor in region.inputs:
            return Place(region.inputs.index(tensor), image * whole + row * line), plane
        return self._spot(self.plan.where[tensor], tensor, row, band, image, room)

    def _spot(
        self, spot: Spot, tensor: str, row: int, band: Band, image: int, room: int
    ) -> tuple[Place, int]:
        shape = self.plan.shapes[tensor]
        line, plane = 4 * shape[3], 4 * prod(shape[2:])
        if spot.root == self.plan.region.output:
            return Place(OUTPUT_PLACE, image * spot.pitch + spot.offset + row * line), plane
        pitch = self.pitch[spot.root]
        at = self.offsets[spot.root] + spot.offset // plane * pitch + (row - band.starts[spot.root]) * line
        return Place(WORK_PLACE, room + at), pitch

    def _slide(self, slide: Slide, room: int) -> Step:
        _, channels, _, width = self.plan.shapes[slide.root]
        base = room + self.offsets[slide.root]
        x = Place(WORK_PLACE, base + 4 * width * (slide.first - slide.start))
        pitch = self.pitch[slide.root]
        shape = (1, channels, slide.last - slide.first, width)
        return self._planes(Repeat(), shape, (x, pitch), (Place(WORK_PLACE, base), pitch))

    def _planes(self, work: PlaneWork, shape: Shape, x: tuple[Place, int], y: tuple[Place, int]) -> Step:
        layers = self.plan.layers
        return planes_step(work, shape, (*x, 0), (*y, 0), layers.machine, layers.threads)

    def _steps(self, work: Work, band: Band, image: int, strips: int, room: int) -> list[Step]:
        member, shapes = work.member, self.plan.shapes
        if member.work == JOIN:
            found = []
            for name, spot in self.plan.copies.get(member.output, ()):
                shape = (1, shapes[name][1], work.last - work.first, shapes[name][3])
                x = self._place(name, work.first, band, image, room)
                to = self._spot(spot, name, work.first, band, image, room)
                found.append(self._planes(Repeat(), shape, x, to))
            return found
        source = member.inputs[0]
        _, channels, height, width = shapes[source]
        low, high = rows_read(member, source, shapes[source], work.first, work.last)
        if isinstance(member.work, EnlargedTaps):
            return [self._taps(member.work, work, band, image, room)]
        x = self._place(source, low, band, image, room)
        y = self._place(member.output, work.first, band, image, room)
        if is_convolution(member):
            return [part.step(x[0], y[0], strips, 0, 0) for part in self._parts(work)]  # one image
        if isinstance(member.work, Piece):
            images = [
                self._place(name, 0 if name in member.gates else low, band, image, room)
                for name in member.inputs
            ]
            layers, pixels = self.plan.layers, (high - low) * width
            return [piece_step(layers.other(member.work), pixels, images, y, strips, layers.threads)]
        operation = member.work
        if isinstance(operation, Largest):
            operation, _, _ = operation.band(work.first, work.last, height)
        assert isinstance(operation, PlaneWork), "a member is one of these"
        return [self._planes(operation, (1, channels, high - low, width), x, y)]

    def _taps(self, taps: EnlargedTaps, work: Work, band: Band, image: int, room: int) -> Step:
        """Sums of taps, whose rows have others above and below them that are read too."""
        first, last = work.first // taps.scale, -(-work.last // taps.scale)
        source, *added = work.member.inputs
        _, channels, height, width = self.plan.shapes[source]
        x = self._place(source, first, band, image, room)
        y = self._place(work.member.output, work.first, band, image, room)
        addend = [(*self._place(name, work.first, band, image, room), 0) for name in added]
        layers = self.plan.layers
        return planes_step(
            taps, (1, channels, last - first, width), (*x, 0), (*y, 0), layers.machine, layers.threads,
            addend[0] if addend else None, (first > 0, last < height),
        )  # fmt: skip

    def _parts(self, work: Work) -> tuple[Part, ...]:
        """The convolution of the rows that a work makes; the same one wherever these are as many."""
        member, shapes = work.member, self.plan.shapes
        source = member.inputs[0]
        axis, _ = vertical(member, shapes[source]).band(work.first, work.last)
        key = member.output, axis.size, axis.before, axis.after
        if key not in self.parts:
            assert isinstance(member.work, Piece), "the caller asks for convolutions only"
            strides = []
            for name in (source, member.output):
                width, plane = shapes[name][3], 4 * prod(shapes[name][2:])
                spot = self.plan.where.get(name)
                pitch = plane if spot is None else self.pitch.get(spot.root, plane)
                strides.append((shapes[name][1] * pitch, pitch, 4 * width, 4))
            shape = (1, shapes[source][1], axis.size, shapes[source][3])
            ends = axis.before, axis.after
            self.parts[key] = self.plan.convolutions(member, shape, *strides, ends=ends)
        return self.parts[key]
