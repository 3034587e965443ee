"""Channels last: tiles whose lanes are filters, and what they take, by a small model.

pixels x vectors of filters     14 x 2 on AVX-512: the rows of 7, 14, 28, 56 and 112 pixels are whole tiles,
                                or half ones; 7 x 4 where pixels are a page apart in memory
transformed, fused              all products of up to 4 pixels x 1: weights must come fast, so for few taps
transformed, staged             the first sort of tile for each product, and a way back
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import gcd

from regweave.convolution.channels_last.runs import Runs, runs_of
from regweave.convolution.parts import even_parts
from regweave.convolution.planes.strips import row_transform
from regweave.kernels.channels_last.tiles import MOST_SPANS
from regweave.machines.x86 import VectorMachine
from regweave.operators import Axis, Convolution
from regweave.values import frozen

#: Bytes per cycle that go to a strip, that come from a core's own caches, and from beyond.
FILL_BYTES, NEAR_BYTES, FAR_BYTES = 16, 32, 10
#: Cycles of a tile beside its products.
_START = 60.0
#: Weights of a tile of filters that stay in a core's own cache beside what it reads.
_NEAR_WEIGHTS = 640 * 1024
#: Pixels of a span, vectors of filters of a tile, at most; of a single pixel many of these hide latency.
_MOST_PIXELS, _MOST_VECTORS = 7, 8
#: Lines of a set of the first-level cache that pixels of a tile may take.
_SET_LINES = 7
#: Registers that going back from a transform takes; pixels that share the weights of a product, for these to
#: come in time from a core's own cache.
_TRANSFORMING, _LEAST_PIXELS = 4, 2.8
#: Cycles to add up what lanes hold of a filter, for a pixel.
_FOLDED = 5.0
#: Cycles of a store through a mask that is a vector: AMD's processors make it of many operations.
_MASKED = 20.0


@frozen
class Shape:
    """Pixels of a span (or products of a pixel), spans, vectors of filters, lanes that share a filter; the
    cycles that it takes."""

    pixels: int
    spans: int
    vectors: int
    split: int
    cycles: float


@lru_cache(maxsize=256)
def plain_shape(
    c: Convolution, machine: VectorMachine, runs: Runs, split: int = 1, *, planar: bool = False
) -> Shape:
    """The cheapest tile for a group of filters, where so many lanes share one; of `planar` images pixels lie
    side by side in memory."""
    registers = len(machine.register_class("vector").registers)
    product_cycles = machine.lanes / 16
    rows, columns = c.vertical.outputs, c.horizontal.outputs
    steps = runs.steps(split)
    needed = -(-c.group_filters // machine.lanes)
    # pixels a page apart compete for the same sets of the cache
    pitch = 4 if planar else 4 * c.channels * c.horizontal.stride
    most_pixels = _SET_LINES * 4096 // gcd(pitch, 4096)
    best = Shape(1, 1, 1, split, float("inf"))
    for pixels, spans, vectors in product(
        range(1, min(_MOST_PIXELS, columns) + 1),
        range(1, MOST_SPANS + 1),
        range(1, min(needed, _MOST_VECTORS) + 1),
    ):
        count = pixels * spans
        working = (machine.lanes == 8) + (split > 1)
        if (count + 1) * vectors + working > registers or count > max(most_pixels, 1):
            continue
        in_all = rows * -(-columns // pixels)
        if spans > 1 and spans > in_all:
            continue
        total = 0.0
        for width in even_parts(needed, vectors):
            far = 4 * machine.lanes * width * steps > _NEAR_WEIGHTS
            weights = 4 * machine.lanes * width / (FAR_BYTES if far else NEAR_BYTES)
            loads = (count + 1) * product_cycles if split > 1 else count / 2 + width * product_cycles
            step = max(count * width * product_cycles, loads, weights, 4.0)
            total += (step + 0.15 * (weights + count / 2)) * steps
            total += _START + 2 * count * width * product_cycles
        total += count * (_masked_cycles(c, machine, split) + _FOLDED * (split > 1) * product_cycles)
        total *= -(-in_all // spans)
        if total < best.cycles:
            best = Shape(pixels, spans, vectors, split, total)
    return best


def _masked_cycles(c: Convolution, machine: VectorMachine, split: int = 1) -> float:
    """What storing a pixel's last vector costs where it is not whole."""
    part = split > 1 or c.group_filters % machine.lanes > 0
    return _MASKED if machine.mask_class == "vector" and part else 0.0


@lru_cache(maxsize=256)
def fused_shape(c: Convolution, machine: VectorMachine, runs: Runs, split: int = 1) -> Shape:
    """As `plain_shape`, for tiles of all products of a group of rows."""
    t, registers = row_transform(c), len(machine.register_class("vector").registers)
    product_cycles, columns = machine.lanes / 16, c.horizontal.outputs
    tiles = -(-c.group_filters // machine.lanes) * -(-c.vertical.outputs // t.outputs)
    best = Shape(t.products, 1, 1, split, float("inf"))
    for pixels in range(1, min(MOST_SPANS, columns) + 1):
        if t.products * pixels + _TRANSFORMING > registers:
            break
        if split > 1:  # all are loads, one a cycle
            step = t.products * (pixels + 1) * product_cycles
        else:
            step = t.products * (max(pixels, _LEAST_PIXELS) * product_cycles + 0.3)
        there_and_back = pixels * (4 * t.products + 4 * t.outputs) * product_cycles
        there_and_back += pixels * t.outputs * _FOLDED * (split > 1) * product_cycles
        masked = _masked_cycles(c, machine, split)
        there_and_back += pixels * t.outputs * masked / -(-c.group_filters // machine.lanes)
        total = tiles * -(-columns // pixels) * (runs.steps(split) * step + _START + there_and_back)
        if total < best.cycles:
            best = Shape(t.products, pixels, 1, split, total)
    return best


@lru_cache(maxsize=256)
def staged_shape(c: Convolution, machine: VectorMachine) -> Shape:
    """As `plain_shape`, where each product of a group of rows is a row of results: they go to a stage."""
    t, axis = row_transform(c), c.vertical
    groups = -(-axis.outputs // t.outputs)
    rows = replace(c, vertical=Axis(groups * t.products, 1))
    plain = plain_shape(rows, machine, runs_of(c, dense=True, transformed=True))
    vectors = -(-c.group_filters // machine.lanes)
    back = vectors * groups * c.horizontal.outputs * (5 * t.products + 4 * t.outputs) * machine.lanes / 16
    return replace(plain, cycles=plain.cycles + back)
