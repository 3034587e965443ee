"""What is chosen for a convolution of planes, and what follows for memory and for sharing the work.

Of each part of the work there is a strip in memory; where strips are small there are more parts than threads.
Where a kernel has more weights than a core's cache holds, threads share the filters first.
"""

from __future__ import annotations

from regweave.convolution.parts import even_parts
from regweave.convolution.planes.folds import Fold, unfolded
from regweave.convolution.planes.form import rows_missing
from regweave.convolution.planes.strips import STRIP_BYTES, plane_elements, strip_bytes, strip_limit
from regweave.kernels.convolution import ConvTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution
from regweave.values import frozen

#: Filters of each thread from which on threads share them rather than rows.
_SHARED_FILTERS = 32


@frozen
class Choice:
    """How a convolution is run: `form`, the kernel's tile, filters per channel tile, columns per strip (whole
    vectors), vectors of each block of a strip, output rows per band; `fold` of a small map."""

    form: str
    tile: ConvTile
    tiles: tuple[int, ...]
    strip_columns: int
    band_rows: int
    fold: Fold | None = None

    def strip_blocks(self, columns: int, lanes: int) -> tuple[int, ...]:
        """Vectors of each block of a strip of that many columns."""
        return even_parts(-(-columns // lanes), max(self.tile.vectors))


def scratch_bytes(c: Convolution, machine: VectorMachine, choice: Choice) -> int:
    """Bytes of one part of the work for a strip, and for the stage of transformed rows."""
    if choice.tile.rolling:
        return band_bytes(c, machine, choice.strip_columns, choice.tile)
    c = unfolded(c, choice.fold)
    if choice.tile.direct and not (choice.tile.filled and rows_missing(c)):
        return 0
    return strip_bytes(c, machine, choice.form, choice.strip_columns, choice.band_rows)


def band_bytes(c: Convolution, machine: VectorMachine, columns: int, tile: ConvTile) -> int:
    """Bytes of memory for a strip of that many columns."""
    # whose modules write kernels, and most processes find theirs written
    from regweave.kernels.convolution import paired_bytes, rolling_bytes

    results = 4 * -(-columns // machine.lanes) * machine.lanes
    row = 4 * plane_elements(c, machine, "none", columns)
    if tile.paired:
        return paired_bytes(row)
    return rolling_bytes(tile, row, results, machine.vector_bytes)


def most_parts(c: Convolution, machine: VectorMachine, choice: Choice, threads: int) -> int:
    """Parts that the work may be divided in: as many as strips have memory for, and one for each thread."""
    room = strip_limit(c) // max(1, scratch_bytes(c, machine, choice))
    return max(threads, room // threads * threads)


def filter_shares(c: Convolution, choice: Choice, threads: int, units: int) -> int:
    """Shares of the filters that are units of their own; `units` there are without."""
    if many_weights(c, threads) or (units < threads and choice.fold is not None):
        return min(threads, len(choice.tiles))
    return 1


def many_weights(c: Convolution, threads: int) -> bool:
    """Whether threads share the filters first: each then reads its own weights only, and fills strips for
    itself."""
    weights = 4 * c.group_filters * c.group_channels * c.vertical.kernel * c.horizontal.kernel
    return threads > 1 and c.group_filters >= _SHARED_FILTERS * threads and weights > STRIP_BYTES
