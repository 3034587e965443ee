"""What convolutions and regions compute, in float64: some rows of a result, from no more than these need.

    rows [40, 41) of y  <-  rows [39, 42) of b, 3x3  <-  rows [78, 85) of a, 3x3 at stride 2  <-  ...

A region is held to the truth as a whole: all of it lies between its inputs and the rows that are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from regweave.graphs import Piece
from regweave.graphs.pieces.members import JOIN, Member, Region
from regweave.graphs.regions.bands import is_convolution, rows_read, vertical
from regweave.operators import Largest, PixelShuffle, Repeat


class Truth:
    """The tensors of a region for given values of its inputs."""

    def __init__(self, region: Region, tensors: Mapping[str, np.ndarray]) -> None:
        self._given = {name: np.asarray(tensors[name], np.float64) for name in region.inputs}
        self._shapes = region.shapes([value.shape for value in self._given.values()])
        self._makers = {member.output: member for member in region.members}
        self._known: dict[tuple[str, int, int], np.ndarray] = {}

    def rows(self, tensor: str, first: int, last: int) -> np.ndarray:
        """Rows [first, last) of all images of a tensor [batch, channels, last - first, width]."""
        if tensor in self._given:
            return self._given[tensor][:, :, first:last]
        key = tensor, first, last
        if key not in self._known:
            self._known[key] = self._made(self._makers[tensor], first, last)
        return self._known[key]

    def _made(self, member: Member, first: int, last: int) -> np.ndarray:
        source, work = member.inputs[0], member.work
        if work == JOIN:
            return np.concatenate([self.rows(name, first, last) for name in member.inputs], axis=1)
        low, high = rows_read(member, source, self._shapes[source], first, last)
        x = self.rows(source, low, high)
        if isinstance(work, (Repeat, PixelShuffle)):
            start = first - low * work.vertical
            return work.reference(x)[:, :, start : start + last - first]
        if isinstance(work, Largest):
            return work.band(first, last, self._shapes[source][2])[0].reference(x)
        assert isinstance(work, Piece), "a member is one of these"
        if is_convolution(member):
            return self._convolved(member, work, x, first, last)
        images = [
            self._given[name] if name in member.gates else self.rows(name, first, last)
            for name in member.inputs
        ]
        planes = [image.reshape(*image.shape[:2], -1) for image in images]
        computed = work.chain or work.run
        assert computed is not None, "a piece that was built has work"
        return computed.reference(planes[0], planes[1:]).reshape(x.shape[0], -1, *x.shape[2:])

    def _convolved(self, member: Member, work: Piece, x: np.ndarray, first: int, last: int) -> np.ndarray:
        layer, window = work.layer, work.window
        assert layer is not None
        assert window is not None
        shape = self._shapes[member.inputs[0]]
        axis, rows = vertical(member, shape).band(first, last)
        _, left, _, right = window.convolution(shape).pads
        more = axis.before + axis.size + axis.after - len(rows)
        padded = np.pad(x, ((0, 0), (0, 0), (axis.before, more - axis.before), (0, 0)))
        settings = {**window.settings, "padding": (0, left, 0, right)}
        y = (
            replace(window, settings=settings)
            .convolution(padded.shape)
            .reference(padded, layer.weights, layer.bias)
        )
        for op in layer.epilogue:
            y = op.reference(y)
        return y
