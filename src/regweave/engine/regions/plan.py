"""What a region does for images of given sizes: where each tensor lies, and one step after the other.

Every member's shape is worked out, then where its tensors lie (an input, the output, or memory of the
operator's own), then a kernel for each member with those addresses.

    memory   [flags][strips of the convolution that runs][images between members, by their lifetimes]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from regweave.convolution import Conv2d
from regweave.devices.onnxruntime import LINE, OUTPUT_PLACE, WORK_PLACE, Place, Prepared, Step
from regweave.engine.regions.interleaved import Part, convolutions, strides_of
from regweave.engine.regions.layers import Layers
from regweave.engine.regions.preparing import Shape, piece_step, planes_step, room_of
from regweave.graphs import Piece
from regweave.graphs.pieces.members import JOIN, Member, Region, Spot, placed, spots
from regweave.graphs.regions.bands import is_convolution
from regweave.operators import PlaneWork, Repeat


class Plan:
    """A region for given shapes, and for values that are `finite` or not."""

    def __init__(self, region: Region, layers: Layers, given: Sequence[Shape], finite: bool) -> None:
        self.region, self.layers, self.finite = region, layers, finite
        self.shapes = region.shapes(given)
        self.where, self.copies = spots(region, self.shapes)
        self.parts: dict[str, tuple[Part, ...]] = {}
        self.strips, self.start, self.offsets = 0, 0, {}

    def prepared(self) -> Prepared:
        """One step after the other on whole images."""
        out_shape = self.shapes[self.region.output]
        if 0 in out_shape:
            return Prepared(out_shape, (), 0)
        for member in self.region.members:
            if is_convolution(member):
                shape = self.shapes[member.inputs[0]]
                strides = strides_of(shape), strides_of(self.shapes[member.output])
                self.parts[member.output] = self.convolutions(member, shape, *strides)
        dense = [part.dense for parts in self.parts.values() for part in parts]
        self.strips, self.start = room_of(dense, self.layers.scratch_bytes)
        sizes = {name: 4 * prod(shape) for name, shape in self.shapes.items()}
        self.offsets, size = placed(self.region, sizes, self.where, LINE)
        steps = [step for member in self.region.members for step in self._steps(member)]
        return Prepared(out_shape, tuple(steps), self.start + size)

    def _steps(self, member: Member) -> list[Step]:
        if isinstance(member.work, PlaneWork):
            source, *added = member.inputs
            addend = self._plane(added[0]) if added else None
            return [self._planes(member.work, source, self._plane(member.output), addend)]
        if member.work == JOIN:
            copies = self.copies.get(member.output, ())
            return [self._planes(Repeat(), name, self._plane(name, spot)) for name, spot in copies]
        if not is_convolution(member):
            return self._pieces(member)
        (x, x_image), (y, y_image) = self._place(member.inputs[0]), self._place(member.output)
        return [part.step(x, y, self.strips, x_image, y_image) for part in self.parts[member.output]]

    def _pieces(self, member: Member) -> list[Step]:
        """Products or an element-wise run, image by image."""
        assert isinstance(member.work, Piece), "a member is one of these"
        batch, _, height, width = self.shapes[member.output]
        work, steps = self.layers.other(member.work), []
        for image in range(batch):
            images = []
            for tensor in (*member.inputs, member.output):
                place, pitch = self._place(tensor)
                plane = 4 * prod(self.shapes[tensor][2:])
                images.append((Place(place.source, place.offset + image * pitch), plane))
            steps.append(
                piece_step(work, height * width, images[:-1], images[-1], self.strips, self.layers.threads)
            )
        return steps

    def _place(self, tensor: str) -> tuple[Place, int]:
        """Where a tensor lies, and the bytes from one of its images to the next."""
        if tensor in self.region.inputs:
            return Place(self.region.inputs.index(tensor)), 4 * prod(self.shapes[tensor][1:])
        return self._spot(self.where[tensor])

    def _spot(self, spot: Spot) -> tuple[Place, int]:
        if spot.root == self.region.output:
            return Place(OUTPUT_PLACE, spot.offset), spot.pitch
        return Place(WORK_PLACE, self.start + self.offsets[spot.root] + spot.offset), spot.pitch

    def _plane(self, tensor: str, spot: Spot | None = None) -> tuple[Place, int, int]:
        """Where a tensor lies (or its copy), and the bytes from one of its planes and images to the next."""
        place, image = self._place(tensor) if spot is None else self._spot(spot)
        return place, 4 * prod(self.shapes[tensor][2:]), image

    def _planes(
        self,
        work: PlaneWork,
        source: str,
        to: tuple[Place, int, int],
        addend: tuple[Place, int, int] | None = None,
    ) -> Step:
        y = to[0], 4 * prod(work.size(*self.shapes[source][2:])), to[2]
        machine, threads = self.layers.machine, self.layers.threads
        return planes_step(work, self.shapes[source], self._plane(source), y, machine, threads, addend)

    def convolutions(
        self,
        member: Member,
        shape: Shape,
        x_strides: tuple[int, ...],
        y_strides: tuple[int, ...],
        ends: tuple[int, int] | None = None,
    ) -> tuple[Part, ...]:
        """What runs a member's convolution on images of that shape; `ends` is other padding above and below,
        for rows of its image."""
        work = member.work
        assert isinstance(work, Piece), "the caller asks for convolutions only"
        assert work.window is not None, "the piece of a convolution has one"
        padding = None
        if ends is not None:
            _, left, _, right = work.window.convolution(self.shapes[member.inputs[0]]).pads
            padding = (ends[0], left, ends[1], right)
        layer = self.layers.convolution(work, padding)

        def parted(padding: tuple[int, ...], dilations: tuple[int, int]) -> Conv2d:
            return self.layers.convolution(work, padding, dilations)

        return convolutions(layer, shape, x_strides, y_strides, parted, self.finite)
