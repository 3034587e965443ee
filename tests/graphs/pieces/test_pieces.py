"""Output shapes of pieces, and the cursor that judges reshapes and constants."""

import pytest

from regweave.graphs import Piece
from regweave.graphs.elementwise.cursor import Cursor
from regweave.graphs.pieces.pieces import output_dims
from regweave.operators import Rest, Same


@pytest.mark.parametrize(
    ("source", "result", "dims"),
    [
        (("N", 4), ("N", 5), (Same(0), 5)),
        (("N", "T", 4), ("N", "T", 5), (Same(0), Same(1), 5)),
        (("N", "T", 4), ("N*T", 5), (Rest(), 5)),
        (("N", "N", 4), ("N", "N", 5), (Same(0), Same(1), 5)),
        (("N", 4, "H", "W"), ("N", 5, "H*W"), (Same(0), 5, Rest())),
        (("N", 4), (1, "N", 5), (1, Same(0), 5)),
        (("M", 4), ("N", "T", 5), None),
    ],
)
def test_output_dims(source, result, dims):
    assert output_dims(source, result) == dims


def piece(**options):
    settings = {
        "kind": "single", "nodes": ("n",), "gemm_nodes": ("n",), "input": "x", "output": "y", "order": "rows",
        "channel_axis": -1, "widths": (4, 5), "input_shape": (2, 3, 4), "output_dims": (Rest(), 5),
    }  # fmt: skip
    return Piece(**{**settings, **options})


def test_output_shapes():
    assert piece().output_shape((2, 3, 4)) == (6, 5)
    assert piece().output_shape((0, 3, 4)) == (0, 5)
    assert piece(output_dims=None).output_shape((2, 3, 4)) == (2, 3, 5)
    assert piece(output_dims=None, widths=()).output_shape((2, 3)) == (2, 3)
    with pytest.raises(ValueError, match="no output of shape"):
        piece(output_dims=(Same(0), 5)).output_shape((2, 3, 4))


def test_sizes():
    assert (piece().m, piece().batch, piece().pixels) == (6, 1, 6)
    assert piece(input_shape=(None, 4)).m is None
    image = piece(order="pixels", channel_axis=1, input_shape=(2, 4, 3, 5), output_dims=None)
    assert (image.m, image.batch, image.pixels) == (30, 2, 15)
    assert piece(refusal="because").chain is None
    assert piece().run is None


def test_reshapes_seen_by_a_cursor():
    rows = Cursor("t", ("N", "T", 4), 2, 4)
    assert rows.reshaped("u", ("N*T", 4)).axis == 1
    assert rows.reshaped("u", ("N", "T", 1, 4)).axis == 3
    assert rows.reshaped("u", ("N", "T", 4, 1)).axis == 2
    assert rows.reshaped("u", ("N", "T", 2, 2)) is None
    assert rows.reshaped("u", ("T", "N", 4)).shape == ("T", "N", 4)
    pixels = Cursor("t", ("N", 4, "H", "W"), 1, 4)
    assert pixels.reshaped("u", ("N", 4, "H*W")).axis == 1
    assert pixels.reshaped("u", ("N", "H", "W", 4)) is None
    assert Cursor("t", None, -1, 4).reshaped("u", ("N", 4)) is None


@pytest.mark.parametrize(
    ("constant", "found"),
    [
        ((), ("scalar", None)),
        ((1, 1), ("scalar", None)),
        ((6,), None),
        ((4, 1, 1), ("channel", 1)),
        ((1, 4, 1, 1), ("channel", 1)),
        ((2, 4, 5, 6), ("full", None)),
        ((1, 1, 1, 1, 1), None),
        ((2, 1, 1, 1), None),
        ((0,), None),
    ],
)
def test_constants_seen_by_a_cursor(constant, found):
    assert Cursor("t", (2, 4, 5, 6), 1, 4).classify(constant) == found


def test_a_run_learns_where_its_channels_are():
    run = Cursor("t", (2, 4, 5, 6), None, None)
    assert run.classify((6,)) == ("channel", 3)
    assert run.classify((4, 1, 1)) == ("channel", 1)
    assert run.classify((5, 1)) is None
    unknown = Cursor("t", None, -1, 4)
    assert unknown.classify((4,)) == ("channel", -1)
    assert unknown.classify((1, 4)) is None
    assert unknown.classify((1,)) == ("scalar", None)
