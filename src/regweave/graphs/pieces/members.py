"""What a region is made of, in the order in which it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final

from regweave.errors import InputError
from regweave.graphs.pieces.lifetimes import packed
from regweave.operators import Axis, EnlargedTaps, PixelShuffle, PlaneWork

if TYPE_CHECKING:
    from regweave.graphs.pieces.pieces import Piece

JOIN: Final = "join"
"""The work of a member that only joins its inputs along their channels."""

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Member:
    """Nodes of a region that go together: a piece, work on planes, or JOIN.

    `inputs` are in the order of the piece's: its image, then residuals and `gates`, which have one element
    for each image and channel.
    """

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    work: Piece | PlaneWork | str
    gates: frozenset[str] = frozenset()

    @cached_property
    def reads(self) -> dict[tuple[str, Shape], Callable[[int, int], tuple[int, int]]]:
        """Which rows of an input of some shape rows of the result are made of, for what was asked before."""
        return {}

    @cached_property
    def axes(self) -> dict[Shape, Axis]:
        """The rows' direction of a convolution, for the shapes of its image that were asked for."""
        return {}

    @property
    def images(self) -> tuple[str, ...]:
        """The inputs without the gates."""
        return tuple(name for name in self.inputs if name not in self.gates)

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape of the result for those of the inputs. Errors: InputError where they do not meet."""
        batch, channels, height, width = shapes[0]
        if isinstance(self.work, (PixelShuffle, EnlargedTaps)):
            channels //= self.work.side**2
        if isinstance(self.work, PlaneWork):
            made = (batch, channels, *self.work.size(height, width))
            if any(shape != made for shape in shapes[1:]):
                raise InputError(f"an image of shape {list(shapes[1])} cannot be added", where=self.output)
            return made
        if self.work == JOIN:
            if any((b, h, w) != (batch, height, width) for b, _, h, w in shapes):
                raise InputError(
                    f"images of shapes {list(map(list, shapes))} cannot be joined", where=self.output
                )
            return batch, sum(shape[1] for shape in shapes), height, width
        assert not isinstance(self.work, str), "all other words are work"
        window = self.work.window
        if window is not None:
            return window.convolution(shapes[0]).out_shape
        result = (batch, self.work.widths[-1] if self.work.links else channels, height, width)
        for name, (b, _, *size) in zip(self.inputs, shapes, strict=True):
            if b != batch or size != ([1, 1] if name in self.gates else [height, width]):
                raise InputError(
                    f"images of shapes {list(map(list, shapes))} cannot be combined", where=self.output
                )
        return result


@dataclass(frozen=True, eq=False)
class Region:
    """Members in running order, the tensors that they read from outside with their channels, and the one
    that leaves."""

    members: tuple[Member, ...]
    inputs: tuple[str, ...]
    output: str
    channels: tuple[int, ...]

    def shapes(self, given: Sequence[Shape]) -> dict[str, Shape]:
        """The shapes of all tensors for those of the inputs. Errors: InputError."""
        found = dict(zip(self.inputs, map(tuple, given), strict=True))
        for member in self.members:
            found[member.output] = member.shape([found[name] for name in member.inputs])
        return found


@dataclass(frozen=True)
class Spot:
    """Where a tensor lies: `offset` bytes into the memory of tensor `root`, its images `pitch` bytes apart.

    The root is the tensor itself, or what it is joined into.
    """

    root: str
    offset: int
    pitch: int


def spots(
    region: Region, shapes: dict[str, Shape]
) -> tuple[dict[str, Spot], dict[str, list[tuple[str, Spot]]]]:
    """Where every tensor that the region makes lies, and what is to be copied where for each joined one.

    A tensor that is joined lies where the joined image wants it. What comes from outside, or is joined twice,
    is copied there.
    """
    found: dict[str, Spot] = {}
    copies: dict[str, list[tuple[str, Spot]]] = {}
    for member in reversed(region.members):
        own = found.setdefault(member.output, Spot(member.output, 0, _bytes(shapes[member.output])))
        if member.work != JOIN:
            continue
        offset = own.offset
        for name in member.inputs:
            spot = Spot(own.root, offset, own.pitch)
            if name in region.inputs or name in found:
                copies.setdefault(member.output, []).append((name, spot))
            else:
                found[name] = spot
            offset += _bytes(shapes[name])
    return found, copies


def _bytes(shape: Shape) -> int:
    """Of one image."""
    return 4 * prod(shape[1:])


def placed(
    region: Region,
    sizes: Mapping[str, int],
    where: Mapping[str, Spot],
    line: int,
    kept: Collection[str] = (),
) -> tuple[dict[str, int], int]:
    """Offsets of the roots in one memory, and its size, for the bytes of each.

    A root has its bytes from its first write to its last read, then others may; those that are `kept` have
    them always. The output has none.
    """
    lives: dict[str, tuple[int, int]] = {}
    for index, member in enumerate(region.members):
        for name in (member.output, *member.inputs):
            if name in where:
                root = where[name].root
                first, _ = lives.get(root, (index, index))
                lives[root] = (first, index)
    lives |= {root: (0, len(region.members)) for root in kept}
    lives.pop(region.output, None)
    return packed(lives, sizes, line)
