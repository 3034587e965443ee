"""Kernels for channels last: what they refuse, and that the listings of equal tiles are made once."""

import ctypes

import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.kernels.channels_last import (
    BandEntry,
    DenseTile,
    DepthTile,
    FilterEntry,
    LastArguments,
    SpanEntry,
    WindowEntry,
    last_kernel,
)
from regweave.kernels.convolution import transform
from regweave.machines.x86 import AVX2, AVX512


def test_tables_are_of_64_bit_numbers():
    for entry in (BandEntry, FilterEntry, LastArguments, SpanEntry, WindowEntry):
        assert ctypes.sizeof(entry) == 8 * len(entry._fields_)
        assert entry.__doc__


def test_tiles_beyond_the_registers():
    assert DenseTile((7, 7), (2,)).fits(32)
    with pytest.raises(UnsupportedError, match="14 pixels x 3 vectors"):
        last_kernel(DenseTile((7, 7), (3,)), AVX512)
    with pytest.raises(UnsupportedError, match="14 pixels x 2 vectors"):
        last_kernel(DenseTile((7, 7), (2,)), AVX2)


@pytest.mark.parametrize(
    ("tile", "settings", "words"),
    [
        (DenseTile, {"spans": (), "vectors": (1,)}, "empty side"),
        (DenseTile, {"spans": (10,), "vectors": (1,)}, "at most 4 spans of at most 9"),
        (DenseTile, {"spans": (6, 5), "vectors": (1,), "transform": transform(4, 3)}, "6 products"),
        (DenseTile, {"spans": (6, 6), "vectors": (2,), "transform": transform(4, 3)}, "one vector"),
        (DepthTile, {"rows": 0, "columns": 1, "kernel": (3, 3)}, "empty side"),
        (DepthTile, {"rows": 4, "columns": 4, "kernel": (29, 3)}, "more than 31"),
    ],
)
def test_tiles_that_cannot_be(tile, settings, words):
    with pytest.raises(InputError, match=words):
        tile(**settings)


def test_rows_and_columns_that_are_met():
    tile = DepthTile(2, 3, kernel=(3, 2), stride=(2, 1), dilation=(1, 2))
    assert tile.image_rows == (0, 1, 2, 3, 4)
    assert tile.image_columns == (0, 1, 2, 3, 4)
    assert tile.met(0, 2) == ((0, 2), (1, 0))
    assert tile.met(1, 2) == ((0, 1), (2, 0))


def test_equal_tiles_share_a_listing():
    assert last_kernel(DenseTile((2,), (1,)), AVX2) is last_kernel(DenseTile((2,), (1,)), AVX2)
