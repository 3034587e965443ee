"""Whether a small map is folded (see folds), and how often: what takes the fewest cycles.

Cycles are those of products, half vectors less where a machine has them, and those of weights, which each
strip and each band reads anew: from a core's caches or from beyond.
"""

from __future__ import annotations

from regweave.convolution.planes.folds import Fold, fold, unfolded
from regweave.convolution.planes.shapes import FEW_OUTPUTS, flat_shape, row_cost
from regweave.convolution.planes.strips import (
    SHARERS,
    STRIP_BYTES,
    band_rows_of,
    row_transform,
    strip_budget,
    strip_bytes,
    strip_columns,
)
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution

#: A folded map's outputs beside one another, at most; the share of cycles that folding must leave.
_MOST_FOLDED, _FOLDED_GAIN = 256, 0.9
#: Of a vector's time, what its half spares; bytes of weights per cycle from a core's caches and beyond.
_HALF, _NEAR_BYTES, _FAR_BYTES = 0.3, 32, 10


def best_fold(c: Convolution, machine: VectorMachine, form: str) -> Fold | None:
    """The folds of a small map that cost least; None where none cost less than the map as it is."""
    down, filters = c.vertical, c.group_filters
    group = row_transform(c).outputs if form == "transformed" else 1
    if filters <= FEW_OUTPUTS or (group > 1 and down.kernel == 2):  # there groups differ in size
        return None
    most = min(down.outputs, _MOST_FOLDED // c.horizontal.outputs)
    few = machine.mask_class == "vector" and form == "transformed"
    if most < 2 or (few and max(down.stride, c.horizontal.stride) > 1):  # two phases' rows find no registers
        return None
    best, least = None, _FOLDED_GAIN * _map_cycles(c, machine, form, None)
    heights = {-(-down.outputs // (count * group)) * group for count in range(2, most + 1)}
    for rows in sorted(height for height in heights if height < down.outputs):
        by = fold(c, rows)
        wide = unfolded(c, by)
        if wide.horizontal.outputs > _MOST_FOLDED or (
            strip_bytes(wide, machine, form, machine.lanes, rows) > strip_budget(c)
        ):
            continue
        cycles = _map_cycles(c, machine, form, by)
        if cycles < least:
            best, least = by, cycles
    return best


def _map_cycles(c: Convolution, machine: VectorMachine, form: str, by: Fold | None) -> float:
    """Cycles of a map: products, and the weights, which each strip and each band reads anew."""
    wide, filters = unfolded(c, by), c.group_filters
    vectors, taps = -(-wide.horizontal.outputs // machine.lanes), c.group_channels * c.horizontal.kernel
    halves = machine.mask_class == "mask" and -wide.horizontal.outputs % machine.lanes >= machine.lanes // 2
    if form == "transformed":
        t = row_transform(c)
        rows = by.rows if by else t.outputs
        strip = strip_columns(wide, machine, form, rows)
        band = by.rows if by else band_rows_of(c, machine, form, strip, rows, SHARERS)
        groups = -(-wide.vertical.outputs // band) * band // t.outputs
        weights = filters * taps * t.products
        cycles = groups * (vectors - _HALF * halves) * weights
    else:
        taps *= c.vertical.kernel
        registers = len(machine.register_class("vector").registers)
        outputs, width = flat_shape(machine, registers, filters, vectors)
        row = row_cost(machine, filters, vectors, outputs, width)[0]
        strip = strip_columns(wide, machine, form, by.rows if by else 1)
        band = by.rows if by else band_rows_of(c, machine, form, strip, 1, 1)
        weights = filters * taps
        cycles = wide.vertical.outputs * row * (1 - _HALF * halves / vectors) * taps
    passes = -(-wide.vertical.outputs // band) * -(-wide.horizontal.outputs // strip)
    near = 4 * weights <= STRIP_BYTES
    return cycles + passes * 4 * weights / (_NEAR_BYTES if near else _FAR_BYTES)
