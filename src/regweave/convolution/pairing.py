"""Kernels of one channel whose rows of results are taken two at a time (see kernels.convolution.paired).

    5 x 5     35 products for two rows instead of 50
    7 x 7     70 instead of 98

That is for kernels that have products to spare: those of 3 x 3 take no longer than the image takes to come
from memory. A row of results takes a vector more than it has, so it is not for narrow images.
"""

from __future__ import annotations

from regweave.kernels.convolution import ConvTile
from regweave.kernels.epilogue import Epilogue
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise

#: Kernel rows and columns.
_ROWS, _COLUMNS = range(4, 8), range(3, 10)
#: Kernel rows at most of which results are stored late: both take general registers.
_MOST_LATE = 5
#: Rows of results and vectors of a row at least.
_LEAST_ROWS, _LEAST_VECTORS = 8, 4


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
        or -(-c.horizontal.outputs // machine.lanes) < _LEAST_VECTORS
        or (late and height > _MOST_LATE)
        or not Epilogue(epilogue, by_vector=False).direct
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
