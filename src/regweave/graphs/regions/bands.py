"""A region band by band: a few rows of every image between its members, while they are in a core's own cache.

    Conv 3x3/2 -> MaxPool 2x2 -> Concat -> Conv 3x3/2     4 more rows of the result take 8 of the joined
                                                          image, these 8 of the pool, these 16 of the first

A member runs over the rows that the members behind it need and that it has not made yet; nothing is computed
twice. Each image is a window of rows that moves down: before a band, the rows that are still needed move to
its top.

    band    rows [first, last) that each member makes
    window  the rows of an image that its memory holds: all that a band makes, and reads again

Whole images that do not fit a cache travel to memory and back at every member. And planes of a size that is
a multiple of 4096 bytes compete for the same few sets of the first-level cache, which windows do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from regweave.graphs.pieces.members import Member, Region, Shape, Spot
from regweave.graphs.pieces.pieces import Piece
from regweave.operators import Axis, EnlargedTaps, Largest, PixelShuffle, Repeat


@dataclass(frozen=True, eq=False)
class Slide:
    """Rows [first, last) of an image that move to the top of its window, which then starts with `first`; it
    started with `start`."""

    root: str
    start: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Work:
    """A member that makes rows [first, last)."""

    member: Member
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Band:
    """What moves, what runs then, and the row that each window starts with meanwhile."""

    slides: tuple[Slide, ...]
    works: tuple[Work, ...]
    starts: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Bands:
    """All bands, the rows of each image's window (by its root), and those that a later band reads again."""

    bands: tuple[Band, ...]
    windows: Mapping[str, int]
    kept: frozenset[str]


def vertical(member: Member, shape: Shape) -> Axis:
    """The rows' direction of a convolution on an image of that shape."""
    assert isinstance(member.work, Piece), "the caller asks for convolutions only"
    assert member.work.window is not None, "the piece of a convolution has one"
    if shape not in member.axes:
        member.axes[shape] = member.work.window.convolution(shape).vertical
    return member.axes[shape]


def is_convolution(member: Member) -> bool:
    """Whether a member reads more rows than those that it makes, with weights."""
    return isinstance(member.work, Piece) and member.work.window is not None


def rows_read(member: Member, source: str, shape: Shape, first: int, last: int) -> tuple[int, int]:
    """The rows of an input of that shape that rows [first, last) of the result are made of."""
    key = source, shape
    if key not in member.reads:
        member.reads[key] = _reading(member, source, shape)
    return member.reads[key](first, last)


def _reading(member: Member, source: str, shape: Shape) -> Callable[[int, int], tuple[int, int]]:
    """The same as a function of rows: bands ask it thousands of times."""
    work, height = member.work, shape[2]
    if isinstance(work, EnlargedTaps) and source == member.inputs[0]:
        low, high, scale = min(work.offsets(0)), max(work.offsets(work.scale - 1)), work.scale
        return lambda first, last: (max(0, first // scale + low), min(height, -(-last // scale) + high))
    if isinstance(work, (Repeat, PixelShuffle)):
        return lambda first, last: (first // work.vertical, -(-last // work.vertical))
    if isinstance(work, Largest):
        axis = Axis(height, work.kernel[0], work.strides[0], before=work.pads[0], after=work.pads[2])
        return axis.places
    if is_convolution(member):
        return vertical(member, shape).places
    return lambda first, last: (first, last)


def band_by_band(
    region: Region, shapes: Mapping[str, Shape], where: Mapping[str, Spot], rows: int
) -> Bands | None:
    """A region in bands of `rows` rows of its result; None where a member needs more than the rows around."""
    height = {name: shape[2] for name, shape in shapes.items()}
    if not all(_is_local(member, shapes[member.inputs[0]]) for member in region.members):
        return None
    readers: dict[str, list[Member]] = {}
    for member in region.members:
        for name in member.images:
            readers.setdefault(name, []).append(member)
    parts: dict[str, list[str]] = {}
    for name, spot in where.items():
        if spot.root != region.output:
            parts.setdefault(spot.root, []).append(name)

    def needed(root: str, done: Mapping[str, int]) -> int:
        """The first row of a root that is read or made from now on."""
        first = height[root]
        for name in parts[root]:
            first = min(first, done[name])
            for member in readers.get(name, ()):
                at = done[member.output]
                if at < height[member.output]:
                    first = min(first, rows_read(member, name, shapes[name], at, at + 1)[0])
        return first

    done = dict.fromkeys(where, 0)
    steps = []
    for row in range(0, height[region.output], rows):
        ends = dict(done)
        ends[region.output] = min(row + rows, height[region.output])
        for member in reversed(region.members):
            name = member.output
            if isinstance(member.work, (Repeat, PixelShuffle, EnlargedTaps)):
                ends[name] = min(height[name], -(-ends[name] // member.work.vertical) * member.work.vertical)
            if ends[name] > done[name]:
                for source in member.images:
                    _, last = rows_read(member, source, shapes[source], done[name], ends[name])
                    if source in ends:
                        ends[source] = max(ends[source], last)
        steps.append((done, ends, {root: needed(root, done) for root in parts}))
        done = ends
    windows = {
        root: max(max(ends[name] for name in names) - first[root] for _, ends, first in steps)
        for root, names in parts.items()
    }
    kept = frozenset(
        root
        for before, _, first in steps
        for root, names in parts.items()
        if first[root] < max(before[name] for name in names)
    )
    bands, starts = [], dict.fromkeys(parts, 0)
    for before, ends, first in steps:
        slides = []
        for root, names in parts.items():
            if max(ends[name] for name in names) - starts[root] > windows[root]:
                made = max(before[name] for name in names)
                slides.append(Slide(root, starts[root], first[root], max(made, first[root])))
                starts[root] = first[root]
        works = [
            Work(member, before[member.output], ends[member.output])
            for member in region.members
            if ends[member.output] > before[member.output]
        ]
        bands.append(Band(tuple(slides), tuple(works), dict(starts)))
    return Bands(tuple(bands), windows, kept)


def _is_local(member: Member, shape: Shape) -> bool:
    """Whether every row of a member's result has a row of its input in its window."""
    if not is_convolution(member):
        return True
    axis = vertical(member, shape)
    return all(axis.taps(row) for row in (0, axis.outputs - 1))


def total_bytes(region: Region, shapes: Mapping[str, Shape], where: Mapping[str, Spot]) -> int:
    """What all images between the members take."""
    roots = {spot.root for spot in where.values()} - {region.output}
    return sum(4 * prod(shapes[root]) for root in roots)
