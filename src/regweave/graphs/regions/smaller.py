"""Regions in which convolutions of enlarged images are computed before these are enlarged.

    x -> Resize 4 -------\\                     x -> 1x1, 9 times the filters -> sums of taps, 4 times
    y -> Resize 2 -> Concat -> Conv 3x3   ->    y -> 1x1, 9 times the filters -> sums of taps, twice
    z -------------------/                      z -> Conv 3x3;  all are added

A pixel that is repeated meets every tap of a window several times, with the same product each time. So each
tap is a product on the small image, of filters of its own, and what remains to be done on the large one are
sums (see kernels/planes/taps.py): 9 products for each of 4 (16, 64) results in place of 9 for each. Feature
pyramids join images of several sizes like that.

A model's nodes are left alone: this concerns what a region runs, and it is held to the truth of the original.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regweave.graphs.elementwise.steps import Step
from regweave.graphs.pieces.layers import Layer, Window
from regweave.graphs.pieces.members import JOIN, Member, Region
from regweave.graphs.pieces.pieces import Piece
from regweave.operators import ChannelAdd, EnlargedTaps, Relu, Repeat

LEAST_CHANNELS = 8
"""Of an enlarged image: with fewer, adding up takes as long as the products that are saved."""

SCALES = (2, 4, 8)
SIDES = (3, 5)
_SAME = ("same_upper", "same_lower")


def with_small_products(region: Region) -> Region:
    """The region with such convolutions done in front; the region itself where there are none."""
    makers = {member.output: member for member in region.members}
    counts = Counter(name for member in region.members for name in member.inputs)
    channels = _channels(region)
    members: list[Member] = []
    for member in region.members:
        parts = _parts(member, makers, counts, channels)
        if any(part.scale > 1 for part in parts):
            members += _Lowered(member, parts).members()
        else:
            members.append(member)
    if len(members) == len(region.members):
        return region
    return replace(region, members=tuple(_needed(members, region.output)))


@dataclass(frozen=True)
class _Part:
    """Channels [first, last) of a convolution's image: a tensor that is enlarged `scale` times."""

    tensor: str
    first: int
    last: int
    scale: int


def _channels(region: Region) -> dict[str, int]:
    """Of every tensor."""
    found = dict(zip(region.inputs, region.channels, strict=True))
    for member in region.members:
        sizes = [(1, found[name], 1, 1) for name in member.inputs]
        work = member.work
        if isinstance(work, Piece) and work.window is not None:
            found[member.output] = work.window.shape[0]
        else:
            found[member.output] = member.shape(sizes)[1]
    return found


def _parts(
    member: Member, makers: dict[str, Member], counts: Counter[str], channels: dict[str, int]
) -> list[_Part]:
    """What the image of a convolution is made of; nothing where its taps cannot be added up afterwards."""
    work = member.work
    if not isinstance(work, Piece) or work.window is None or not _is_plain(work.window):
        return []
    layer = work.layer
    if layer is None or layer.epilogue not in ((), (Relu(),)):
        return []
    source = member.inputs[0]
    maker = makers.get(source)
    joined = maker is not None and maker.work == JOIN and counts[source] == 1
    parts, at = [], 0
    for name in maker.inputs if maker is not None and joined else (source,):
        above, last = makers.get(name), at + channels[name]
        scale = 1
        if above is not None and isinstance(above.work, Repeat) and last - at >= LEAST_CHANNELS:
            repeat = above.work
            if repeat.vertical == repeat.horizontal and repeat.vertical in SCALES:
                scale, name = repeat.vertical, above.inputs[0]
        parts.append(_Part(name, at, last, scale))
        at = last
    return parts


def _is_plain(window: Window) -> bool:
    """Whether a square of taps is centred on every pixel."""
    settings, (_, _, *sides) = window.settings, window.shape
    padding = (sides[0] // 2,) * 4
    return (
        sides[0] in SIDES
        and sides[0] == sides[1]
        and tuple(settings["strides"]) == tuple(settings["dilations"]) == (1, 1)
        and settings["groups"] == 1
        and (settings["padding"] in _SAME or tuple(settings["padding"]) == padding)
    )


def _needed(members: list[Member], output: str) -> Iterator[Member]:
    """Those whose result is read."""
    read = {name for member in members for name in member.inputs} | {output}
    kept = [member for member in members if member.output in read]
    return iter(kept) if len(kept) == len(members) else _needed(kept, output)


class _Lowered:
    """A convolution as convolutions of its parts and sums of taps."""

    def __init__(self, member: Member, parts: list[_Part]) -> None:
        assert isinstance(member.work, Piece), "the caller asks for convolutions only"
        assert member.work.layer is not None, "the piece of a convolution has one"
        assert member.work.window is not None
        self.member, self.piece = member, member.work
        self.layer: Layer = member.work.layer
        self.window: Window = member.work.window
        self.side = self.window.shape[2]
        self.small = [part for part in parts if part.scale > 1]
        self.whole = [part for part in parts if part.scale == 1]

    def members(self) -> Iterator[Member]:
        """In running order: what is not enlarged, then the others, the largest scale first."""
        nodes, name = self.member.nodes, self.member.output
        total = ""
        if self.whole:
            source, total = self.whole[0].tensor, f"{name}/whole"
            if len(self.whole) > 1:
                source = f"{name}/joined"
                yield Member(nodes, tuple(part.tensor for part in self.whole), source, JOIN)
            chosen = [index for part in self.whole for index in range(part.first, part.last)]
            yield self._convolution(source, total, self.layer.weights[:, chosen], self.layer.bias)
        ordered = sorted(self.small, key=lambda part: -part.scale)
        for part in ordered:
            is_last = part is ordered[-1]
            taps = f"{name}/taps{part.first}"
            yield self._products(part, taps, None if total else self.layer.bias)
            work = EnlargedTaps(part.scale, self.side, bool(total), is_last and bool(self.layer.epilogue))
            output = name if is_last else f"{name}/sum{part.first}"
            yield Member(nodes, (taps, total) if total else (taps,), output, work)
            total = output

    def _products(self, part: _Part, output: str, bias: np.ndarray | None) -> Member:
        """Each tap of each filter as a filter of its own; the bias goes with one that is never outside."""
        taps = self.layer.weights[:, part.first : part.last].transpose(0, 2, 3, 1)
        weights = np.ascontiguousarray(taps).reshape(-1, part.last - part.first, 1, 1)
        spread = None
        if bias is not None:
            spread = np.zeros((len(bias), self.side**2), np.float32)
            spread[:, self.side**2 // 2] = bias
            spread = spread.reshape(-1)
        return self._convolution(part.tensor, output, weights, spread)

    def _convolution(self, source: str, output: str, weights: np.ndarray, bias: np.ndarray | None) -> Member:
        filters, channels, height, width = weights.shape
        settings = {**self.window.settings, "padding": (height // 2, width // 2) * 2}
        steps = ()
        if bias is not None:
            vector = np.asarray(bias, np.float64)
            steps = (Step((ChannelAdd(),), (vector,), self.member.nodes[:1], output),)
        piece = replace(
            self.piece,
            input=source,
            output=output,
            widths=(channels, filters),
            input_shape=None,
            output_dims=None,
            steps=steps,
            window=Window(weights.shape, lambda: weights, settings),
        )
        return Member(self.member.nodes, (source,), output, piece)
