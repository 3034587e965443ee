"""A convolution as machine code: kernel, packed weights and tables, to be run on arrays of one shape.

    native = NativeConvolution(c, choice, machine, x_strides, y_strides)
    native.run(x, y, packed, threads)

Everything but the addresses of image, result and weights is fixed when it is made; `pool.py` calls it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from regweave.cascades.costs import host_costs
from regweave.cascades.running import job_parts
from regweave.convolution.planes.chosen import Choice, filter_shares, most_parts, scratch_bytes
from regweave.convolution.planes.folds import unfolded
from regweave.convolution.planes.strips import lines_of, strip_lines
from regweave.convolution.planes.tables import make_tables, tile_table
from regweave.convolution.pool import CallPool
from regweave.devices import cpu
from regweave.kernels.convolution import ConvArguments, ConvTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution
from regweave.values import frozen

#: Groups that are a unit of the work, at most; units for each thread, at least.
_MOST_UNITED, _UNITS = 64, 4


@lru_cache(maxsize=64)
def loaded_convolution(tile: ConvTile, machine: VectorMachine) -> cpu.Function:
    """The kernel `void conv(const ConvArguments *, size_t part)` of a tile."""

    def make():
        from regweave.kernels.convolution import conv_kernel

        return conv_kernel(tile, machine)

    return cpu.load_made(make, f"convolution {tile!r}", machine)


def _united(groups: int, others: int, threads: int) -> int:
    """Groups that are done one after the other in a unit of the work: threads still find enough units."""
    most = min(_MOST_UNITED, groups, max(1, groups * others // (_UNITS * threads)) if threads > 1 else groups)
    return next(count for count in range(most, 0, -1) if groups % count == 0)


AWAKE_SECONDS = 5e-6
"""What a part is worth where another thread waits for it."""


@frozen(eq=False)
class DenseConvolution:
    """What runs a convolution of images whose elements lie one after the other, for whoever calls kernels
    themselves.

    `arguments` are complete but for x, y, `scratch` (`scratch_bytes` for each of `parts`) and `flags`
    (`flag_bytes` for each part). Where a flag is NaN after all parts, values were not finite, and the result
    is not to be used.
    """

    native: NativeConvolution
    packed: np.ndarray
    out_shape: tuple[int, ...]

    @cached_property
    def arguments(self) -> ConvArguments:
        """The argument block; keep this object as long as it is in use."""
        found = self.native.template(self.packed)
        found.parts = self.parts
        return found

    @property
    def kernel(self) -> cpu.Function:
        """`void kernel(const ConvArguments *, size_t part)`."""
        return self.native.kernel

    @property
    def parts(self) -> int:
        """Parts that the work is divided in: for threads that are awake, unlike ours."""
        native = self.native
        if native.threads == 1:
            return native.parts
        worth = int(native.flops / host_costs().flops / AWAKE_SECONDS)
        return max(native.parts, min(native.threads, native.units, worth))

    @property
    def scratch_bytes(self) -> int:
        """Bytes of each part."""
        return self.arguments.scratch_bytes

    @property
    def flag_bytes(self) -> int:
        """Bytes of each part's flags, 0 where it leaves none."""
        return self.native.flag_bytes if self.native.choice.tile.combined is not None else 0


class NativeConvolution:
    """A convolution of one shape, for images and results of given strides (in bytes, four each)."""

    def __init__(
        self,
        c: Convolution,
        choice: Choice,
        machine: VectorMachine,
        x_strides: Sequence[int],
        y_strides: Sequence[int],
        threads: int,
    ) -> None:
        self.choice, self.threads = choice, threads
        #: What a part tells of its results: a vector, NaN where one is not finite.
        self.flag_bytes = machine.vector_bytes
        self.kernel = loaded_convolution(choice.tile, machine)
        lines = lines_of(c, choice.band_rows)
        read_lines = strip_lines(c, choice.form, choice.band_rows)
        transform = choice.tile.transform
        combined = choice.tile.combined
        rows = c.vertical.kernel if combined is None else combined.products
        taps = c.group_channels * rows * c.horizontal.kernel
        if choice.tile.separable:
            taps = c.vertical.kernel + c.horizontal.kernel  # held in registers or not
        self._tables = tables = make_tables(c, choice, machine, x_strides[1:], y_strides[2:])
        out_rows = unfolded(c, choice.fold).vertical.outputs
        bands = -(-out_rows // choice.band_rows)
        united = 1 if choice.tile.filled else _united(c.groups, c.batch * bands * len(tables.strips), threads)
        groups = c.groups // united
        self._tiles = tile_table(choice, taps, y_strides[1], united, x_strides[1] * c.group_channels)
        units = c.batch * groups * bands * len(tables.strips)
        each = -(-len(self._tiles) // (1 if united > 1 else filter_shares(c, choice, threads, units)))
        shares = -(-len(self._tiles) // each)
        units *= shares
        units = min(units, most_parts(c, machine, choice, threads))
        #: what parts consist of, and float operations of all
        self.units, self.flops = units, 2.0 * c.products
        self.parts = job_parts(self.flops, threads, units)
        row = tables.plane_bytes * tables.planes
        #: bytes of a part's strip
        self.strip_bytes = row * read_lines * c.group_channels
        self._arguments = ConvArguments(
            taps=tables.taps.ctypes.data,
            strip_taps=tables.strip_taps.ctypes.data,
            tap_masks=tables.tap_masks.ctypes.data,
            tiles=ctypes.addressof(self._tiles),
            strips=ctypes.addressof(tables.strips),
            packed_group=4 * united * c.group_filters * (1 + taps),
            tap_count=len(tables.taps),
            tile_count=len(self._tiles),
            shares=shares,
            share_tiles=each,
            strip_count=len(tables.strips),
            x_image=x_strides[0],
            x_group=x_strides[1] * united * c.group_channels,
            x_channel=x_strides[1],
            x_row=x_strides[2],
            x_step=x_strides[3] * c.horizontal.stride,
            y_image=y_strides[0],
            y_group=y_strides[1] * united * c.group_filters,
            y_channel=y_strides[1],
            y_row=y_strides[2],
            y_element=y_strides[3],
            channels=c.group_channels,
            height=c.vertical.size,
            top=c.vertical.before,
            out_rows=out_rows,
            band_rows=choice.band_rows,
            bands=bands,
            row_stride=c.vertical.stride,
            lines=lines,
            strip_row=row,
            tile_step=choice.tile.rows * (1 if transform else c.vertical.stride),
            row_groups=choice.band_rows // choice.tile.out_rows,
            stage_offset=self.strip_bytes,
            planes=tables.planes,
            batch=c.batch,
            groups=groups,
            parts=self.parts,
            scratch_bytes=scratch_bytes(c, machine, choice),
        )
        self.run = CallPool(
            self.kernel, self._arguments, threads, self.flag_bytes, watched=combined is not None
        ).run

    def template(self, packed: np.ndarray) -> ConvArguments:
        """The arguments with these weights, complete but for x, y, scratch and flags."""
        arguments = ConvArguments.from_buffer_copy(self._arguments)
        arguments.packed = packed.ctypes.data
        return arguments
