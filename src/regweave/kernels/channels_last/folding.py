"""Lanes that share a filter: what they hold of results is added up, and results come to lie side by side.

    2 lanes a filter, 8 filters     a0 a0' a1 a1' ...  and  b0 b0' b1 b1' ...
        -> a0 a1 b0 b1 | a2 a3 b2 b3 | ...  -> a0 a1 ... a7 b0 b1 ... b7     (pixels a and b)

Every level adds what two shuffles take of two vectors; a vector at the end holds as many pixels as lanes
shared a filter. How lanes stand meanwhile is found by sending their names through the same shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regweave.assembly.variables import Variable
from regweave.kernels.channels_last.storing import activated
from regweave.kernels.channels_last.tiles import DenseTile
from regweave.kernels.common.workspace import Workspace
from regweave.machines.x86.lane_table import shuffle_halves, shuffle_quarters, shuffle_within
from regweave.values import frozen

#: By lanes: level -> (entry, its meaning, the numbers that take what is added).
_LEVELS: dict[int, tuple[tuple[str, Callable[..., Any], tuple[int, int]], ...]] = {
    16: (*[("shuffle_within", shuffle_within, (0x88, 0xDD))] * 2,
         *[("shuffle_quarters", shuffle_quarters, (0x88, 0xDD))] * 2),
    8: (*[("shuffle_within", shuffle_within, (0x88, 0xDD))] * 2,
        ("shuffle_halves", shuffle_halves, (0x20, 0x31))),
}  # fmt: skip


def folded(w: Workspace, results: Sequence[Variable], split: int, filters: int) -> list[Variable]:
    """`split` results after another in each vector, of `filters` lanes each; the last may be filled up."""
    b, lanes = w.b, w.geometry.lanes
    order = b.vector("order")
    index, vectors = _order(lanes, split, filters), []
    b.emit("load", order, b.data(index.astype(np.int32).tobytes()))
    for first in range(0, len(results), split):
        part = list(results[first : first + split])
        part += part[-1:] * (split - len(part))
        for entry, _, numbers in _LEVELS[lanes][: split.bit_length() - 1]:
            sums = []
            for one, other in zip(part[::2], part[1::2], strict=True):
                taken = b.vectors("taken", 2)
                for to, number in zip(taken, numbers, strict=True):
                    b.emit(entry, to, one, other, number)
                b.emit("add", taken[0], taken[0], taken[1])
                sums.append(taken[0])
            part = sums
        b.emit("permute", part[0], order, part[0])
        vectors.append(part[0])
    return vectors


def _order(lanes: int, split: int, filters: int) -> np.ndarray:
    """Which lane goes where at the end: result by result, filter by filter."""
    part = [result * lanes + np.arange(lanes) // split for result in range(split)]
    for _, meaning, numbers in _LEVELS[lanes][: split.bit_length() - 1]:
        pairs = list(zip(part[::2], part[1::2], strict=True))
        part, others = ([meaning(*pair, number) for pair in pairs] for number in numbers)
        assert all(map(np.array_equal, part, others)), "only parts of one result are added"
    places = {int(name): lane for lane, name in enumerate(part[0])}
    wanted = [places[result * lanes + lane] for result in range(split) for lane in range(filters)]
    return np.array(wanted + [0] * (lanes - len(wanted)))


@frozen
class FoldedRun:
    """`pixels` results that are neighbours: `to` holds the address of the first one, and is lost."""

    to: Variable
    pixels: int


def store_folded(
    w: Workspace,
    tile: DenseTile,
    results: Sequence[Variable],
    runs: Sequence[FoldedRun],
    before: Callable[[int], None] = lambda run: None,
) -> None:
    """Results of lanes that share a filter are added up, activated and stored, run by run; `before` is called
    for what precedes the stores of a run.

    Slot `mask` is the address of the masks of the pixels of a vector: of each one alone, or, if pixels are
    joined, of the first one, the first two, ...
    """
    b, split, each = w.b, tile.split, w.geometry.lanes // tile.split
    vectors: dict[tuple[int, int], Variable] = {}
    first = 0
    for number, run in enumerate(runs):
        part = results[first : first + run.pixels]
        first += run.pixels
        for place, vector in enumerate(folded(w, part, split, tile.joined or each)):
            vectors[number, place] = vector
    ordered, memory = activated(w, tile.epilogue, vectors)
    masks, pitch = b.general("masks"), b.general("y_pitch")
    b.emit("mov", masks, w.slot("mask"))
    b.emit("mov", pitch, w.field("y_pixel"))

    def mask_of(pixel: int) -> Variable:
        mask = b.mask("lanes")
        b.emit("load_mask", mask, b.at(masks, pixel * _mask_bytes(w)))
        return mask

    for (number, place), value in ordered.items():
        if place == 0:
            before(number)
        if (number, place) in memory:
            value = b.vector("value")
            b.emit("load", value, memory[number, place])
        to, pixels = runs[number].to, min(split, runs[number].pixels - place * split)
        if not tile.joined:
            for pixel in range(pixels):
                b.emit("store_masked", b.at(to, -4 * pixel * each), value, mask_of(pixel))
                b.emit("add", to, pitch)
            continue
        if pixels * tile.joined == w.geometry.lanes:
            b.emit("store_stream" if tile.stream else "store", b.at(to), value)
        else:
            b.emit("store_masked", b.at(to), value, mask_of(pixels - 1))
        b.emit("add", to, 4 * split * tile.joined)


def _mask_bytes(w: Workspace) -> int:
    return w.geometry.lanes // 8 if w.b.machine.mask_class == "mask" else w.geometry.vector_bytes
