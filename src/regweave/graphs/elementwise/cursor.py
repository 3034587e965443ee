"""Where a walk through the graph stands: a tensor, its shape, and which axis holds the channels.

A chain's values are a matrix, however many dimensions the tensor has: rows (all axes but the channels) by
channels. The cursor keeps what the two views have in common, so that a Reshape can be judged: it keeps the
rows if the product of the axes before the channels, the channels, and the product of the axes behind them
all stay.

    [batch, time, 64]      channels on axis 2, rows = batch*time
    [batch, 64, 3, width]  channels on axis 1, pixels = 3*width
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from regweave.graphs.shapes.dimensions import Dim, Shape, product


@dataclass(frozen=True)
class Cursor:
    """A tensor on the way: `shape` is symbolic, None if its rank is not known; `axis` the channels' axis.

    `axis` is None where nothing has said yet which axis that is (a run of element-wise work only), and -1
    where the rank is not known and the channels come last.
    """

    tensor: str
    shape: Shape | None
    axis: int | None
    channels: Dim | None

    def at(self, tensor: str) -> Cursor:
        """The same place under another tensor name."""
        return replace(self, tensor=tensor)

    def reshaped(self, tensor: str, shape: Shape) -> Cursor | None:
        """The cursor after the tensor took another shape, or None if that mixes rows or channels."""
        if self.shape is None or self.axis is None or self.channels is None:
            return None
        before, behind = product(self.shape[: self.axis]), product(self.shape[self.axis + 1 :])
        for axis in reversed(range(len(shape))):
            if (
                shape[axis] == self.channels
                and product(shape[:axis]) == before
                and product(shape[axis + 1 :]) == behind
            ):
                return Cursor(tensor, shape, axis, self.channels)
        return None

    @property
    def is_last(self) -> bool:
        """Whether the channels are the last axis: the layout that a MatMul reads."""
        return self.axis == (-1 if self.shape is None else len(self.shape) - 1)

    def classify(self, constant: tuple[int, ...]) -> tuple[str, int | None] | None:
        """How a constant of this shape meets the tensor: what it is, and the axis that it varies along.

        ("scalar", None), ("channel", axis), ("full", None) for the whole tensor's shape; None where it would
        need something else, or would change the shape of the result.
        """
        sized = [axis for axis, dim in enumerate(constant) if dim != 1]
        if self.shape is None:
            if not sized and len(constant) <= 1:
                return "scalar", None
            return ("channel", -1) if len(constant) == 1 and self.axis == -1 else None
        if len(constant) > len(self.shape):
            return None
        if not sized:
            return "scalar", None
        offset = len(self.shape) - len(constant)
        axis = offset + sized[0]
        may_be_channels = self.axis == axis or (self.axis is None and axis in (1, len(self.shape) - 1))
        if len(sized) == 1 and may_be_channels and self.shape[axis] == constant[sized[0]]:
            return "channel", axis
        if constant == self.shape:
            return "full", None
        return None
