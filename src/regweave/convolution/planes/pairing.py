"""Kernels of one channel whose rows of results are taken two at a time (see kernels.convolution.paired).

    5 x 5     35 products for two rows instead of 50; from 11 vectors of a row on
    7 x 7     70 instead of 98; from 6 vectors on

A pair of rows begins with a vector more and ends where none is full, so it is not for narrow images. Kernels
of 3 x 3 take no longer than the image takes to come from memory.
"""

from __future__ import annotations

from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.convolution import ConvTile, pairs
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise

#: Kernel rows and columns; rows at most of which results are stored late: both take general registers.
_ROWS, _COLUMNS, _MOST_LATE = range(4, 8), range(4, 10), 5
#: Rows of results at least.
_LEAST_ROWS = 8
#: Cycles, measured: of a product; beside the products of a vector of two rows, row by row and paired; of a
#: pair of rows. The share that must be gained.
_PRODUCT, _ROW_BY_ROW, _PAIRED, _PAIR, _GAIN = 1.1, 3, 6, 118, 1.05


def paired_tile(
    c: Convolution, machine: VectorMachine, epilogue: tuple[Elementwise, ...], *, late: bool
) -> ConvTile | None:
    """The tile but for its stores; None where rows cannot be paired, or it does not pay. `late`: results
    are stored some vectors late."""
    height, width = c.vertical.kernel, c.horizontal.kernel
    if (
        machine.mask_class != "mask"
        or c.group_filters * c.group_channels > 1
        or any(axis.stride * axis.dilation > 1 for axis in c.axes)
        or height not in _ROWS
        or width not in _COLUMNS
        or c.vertical.outputs < _LEAST_ROWS
        or (late and height > _MOST_LATE)
        or not Epilogue(epilogue, by_vector=False).direct
        or not _pays(height, width, -(-c.horizontal.outputs // machine.lanes))
    ):
        return None
    return ConvTile(
        outputs=(1,),
        rows=2,
        vectors=(1,),
        kernel_rows=height,
        kernel_columns=width,
        column_bytes=4,
        direct=True,
        far_weights=height * width,
        rolling=True,
        paired=True,
        epilogue=epilogue,
    )


def _pays(height: int, width: int, vectors: int) -> bool:
    """Whether two rows of so many vectors take less time as a pair than one after the other."""
    apart = (2 * height * width * _PRODUCT + _ROW_BY_ROW) * vectors
    together = (pairs(height).products * width * _PRODUCT + _PAIRED) * vectors + _PAIR
    return apart > _GAIN * together
