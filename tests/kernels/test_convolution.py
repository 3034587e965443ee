"""Convolution kernels as listings: what they refuse, and that their registers are proved."""

from dataclasses import replace

import pytest

from regweave.assembly.proof import prove
from regweave.errors import InputError, UnsupportedError
from regweave.kernels.convolution import ConvTile, conv_kernel
from regweave.machines.x86 import AVX2, AVX512
from regweave.operators import Gelu, Relu

ROLLING = ConvTile((1,), 5, (1,), 5, 5, False, 4, direct=True, stream=True, rolling=True, lagging=True)


@pytest.mark.parametrize(
    ("machine", "tile"),
    [
        (AVX512, ConvTile((4, 3), 1, (6, 5), direct=True, stream=True, epilogue=(Relu(),))),
        (AVX512, ConvTile((1,), 8, (2, 1), kernel_rows=5, direct=True)),
        (AVX512, ConvTile((1,), 8, (4, 3), 3, 3, column_bytes=4, direct=True)),
        (AVX512, ROLLING),
        (
            AVX512,
            replace(
                ROLLING, outputs=(2,), rows=3, kernel_rows=3, kernel_columns=3, channels=2, far_weights=12
            ),
        ),
        (AVX2, ConvTile((1,), 6, (2, 1), 3, 3, True, 4, direct=True, rolling=True)),
        (AVX2, ConvTile((1,), 4, (1,), 3, 3, 2, 2, epilogue=(Relu(),))),
        (AVX512, ConvTile((8,), 1, (3,), epilogue=(Gelu(),), dense=False)),
        (AVX2, ConvTile((6, 5), 1, (2,), direct=True)),
        (AVX2, ConvTile((1,), 4, (2,), kernel_rows=3, row_stride=2, row_dilation=3)),
        (AVX2, ConvTile((2,), 4, (1,), kernel_rows=5, row_dilation=2)),
        (AVX512, ConvTile((2,), 3, (4,), kernel_rows=3, row_stride=2, row_dilation=1)),
    ],
)
def test_registers_are_proved(machine, tile):
    listing = conv_kernel(tile, machine)
    prove(listing)
    stem = f"column_{tile.vectors[0]}" if tile.kernel_columns else f"tile_{tile.outputs[0]}_{tile.vectors[0]}"
    stem = "rolling_band" if tile.rolling else stem
    assert stem in listing.text


def test_image_rows_are_shared_between_the_rows_of_a_tile():
    tile = ConvTile((1,), 3, (2,), kernel_rows=3, row_stride=2, row_dilation=2)
    assert tile.image_rows == (0, 2, 4, 6, 8)
    assert tile.row_of(2, 1) == 6


def test_a_tile_beyond_the_registers_is_refused():
    with pytest.raises(UnsupportedError, match="32 vector registers"):
        conv_kernel(ConvTile((8,), 1, (4,)), AVX512)


@pytest.mark.parametrize(
    "given",
    [
        {"outputs": ()},
        {"vectors": (0,)},
        {"kernel_rows": 3},
        {"stream": True, "dense": False},
        {"lagging": True},
        {"rolling": True},
    ],
)
def test_tiles_that_make_no_sense_are_refused(given):
    with pytest.raises(InputError):
        ConvTile(**{"outputs": (4,), "rows": 1, "vectors": (2,), **given})
