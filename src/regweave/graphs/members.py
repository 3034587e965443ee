"""What a region is made of, in the order in which it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from regweave.errors import InputError
from regweave.operators import Largest, Repeat

if TYPE_CHECKING:
    from regweave.graphs.pieces import Piece

JOIN: Final = "join"
"""The work of a member that only joins its inputs along their channels."""

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Member:
    """Nodes of a region that go together: a convolution (its piece), work on planes, or JOIN."""

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    work: Piece | Repeat | Largest | str

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape of the result for those of the inputs. Errors: InputError where they do not meet."""
        batch, channels, height, width = shapes[0]
        if isinstance(self.work, (Repeat, Largest)):
            return (batch, channels, *self.work.size(height, width))
        if self.work == JOIN:
            if any((b, h, w) != (batch, height, width) for b, _, h, w in shapes):
                raise InputError(
                    f"images of shapes {list(map(list, shapes))} cannot be joined", where=self.output
                )
            return batch, sum(shape[1] for shape in shapes), height, width
        assert not isinstance(self.work, str), "all other words are work"
        window = self.work.window
        assert window is not None, "the piece of a convolution has one"
        return window.convolution(shapes[0]).out_shape


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
    region: Region, shapes: dict[str, Shape], where: dict[str, Spot], line: int
) -> tuple[dict[str, int], int]:
    """Offsets of the roots in one memory, and its size: a root has its bytes from its first write to its last
    read, then others may. The output has none."""
    lives: dict[str, tuple[int, int]] = {}
    for index, member in enumerate(region.members):
        for name in (member.output, *member.inputs):
            if name in where:
                root = where[name].root
                first, _ = lives.get(root, (index, index))
                lives[root] = (first, index)
    offsets: dict[str, int] = {}
    sizes = {root: -(-4 * prod(shapes[root]) // line) * line for root in lives if root != region.output}
    for root in sorted(sizes, key=lambda name: -sizes[name]):
        first, last = lives[root]
        others = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if lives[other][0] <= last and first <= lives[other][1]
        )
        at = 0
        for start, end in others:
            if at + sizes[root] <= start:
                break
            at = max(at, end)
        offsets[root] = at
    return offsets, max((offsets[root] + sizes[root] for root in sizes), default=0)
