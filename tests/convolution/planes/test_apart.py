"""Products of transformed rows, one after the other: when, and that results are the same but for rounding."""

import numpy as np
import pytest

from regweave.convolution import Conv2d
from regweave.convolution.planes.choice import choose
from regweave.kernels.convolution import conv_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import activation, convolution_of

ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]
RANDOM = np.random.default_rng(11)


def tile_of(image, weights, machine=AVX512, stride=1, **settings):
    c = convolution_of(image, weights, strides=stride, padding=weights[2] // 2)
    return choose(c, machine, **settings).tile


def test_products_are_apart_where_that_spares_loads():
    stem = tile_of((1, 3, 224, 224), (64, 3, 7, 7), stride=2)  # 3 filters x 9 products have 36 loads
    assert stem.apart
    assert stem.accumulators(max(stem.outputs), max(stem.vectors)) == 24
    assert not tile_of((1, 16, 112, 112), (64, 16, 3, 3)).apart  # 5 x 6 products fill the registers
    assert tile_of((1, 64, 112, 112), (64, 64, 3, 3)).apart
    assert tile_of((1, 16, 112, 112), (64, 16, 3, 3), AVX2).apart  # where only 2 x 6 do
    few = [
        ((1, 1, 60, 112), (64, 1, 3, 3)),
        ((1, 9, 60, 112), (64, 9, 3, 1)),
        ((1, 4, 60, 112), (8, 4, 2, 2)),
    ]
    assert [tile_of(*shapes, AVX2).apart for shapes in few] == [False] * 3  # too few taps


def test_few_registers_transform_few_channels_whose_results_stay_in_a_cache():
    forms = {}
    for channels, size in ((1, 100), (2, 100), (2, 1000), (3, 1000)):
        c = convolution_of((1, channels, size, size), (8, channels, 3, 3), padding=1)
        forms[channels, size] = choose(c, AVX2).form
    assert forms == {(1, 100): "none", (2, 100): "transformed", (2, 1000): "none", (3, 1000): "transformed"}


def test_what_goes_over_memory_or_is_scattered_stays_together():
    shapes = (1, 64, 56, 56), (64, 64, 3, 3)
    gelu = activation("gelu")
    assert gelu is not None
    assert not tile_of(*shapes, epilogue=(gelu,)).apart
    assert tile_of(*shapes, AVX2, epilogue=(gelu,)).apart  # 2 x 6 products together cost more
    assert not tile_of(*shapes, dense=False).apart


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("image", "weights", "stride", "padding"),
    [
        ((2, 6, 41, 60), (17, 6, 7, 7), 2, 3),  # rows that two bands have
        ((1, 64, 21, 43), (10, 64, 3, 3), 1, 1),  # pieces
        ((1, 50, 14, 14), (31, 50, 3, 3), 1, (1, 0, 2, 1)),  # folded
        ((1, 60, 7, 7), (40, 60, 3, 3), 1, 1),
        ((1, 40, 18, 100), (9, 40, 5, 5), 1, 2),
        ((1, 150, 9, 20), (5, 150, 4, 1), 1, 0),
    ],
)
def test_results_are_those_of_float64(isa, image, weights, stride, padding):
    x = RANDOM.standard_normal(image, dtype=np.float32)
    w = RANDOM.standard_normal(weights, dtype=np.float32)
    b = RANDOM.standard_normal(weights[0], dtype=np.float32)
    settings = {"stride": stride, "padding": padding, "activation": "relu", "isa": isa}
    y, again = (Conv2d(w, b, threads=threads, **settings)(x) for threads in (1, 3))
    c = convolution_of(image, weights, strides=stride, padding=padding)
    tile = choose(c, AVX512 if isa == "avx512" else AVX2).tile
    assert tile.apart
    bound = c.reference(np.abs(x), np.abs(w), np.abs(b)).max() * 3e-6
    assert np.abs(y - np.maximum(c.reference(x, w, b), 0)).max() <= bound
    assert np.array_equal(y, again)


@pytest.mark.parametrize(("columns", "together"), [(1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (8, 1)])
def test_few_registers_have_the_taps_of_a_kernel_row_written_out(columns, together):
    """Pieces of sums are whole kernel rows, also of 5 and 7 columns, which do not divide 48."""
    image, weights = (1, 40, 9, 70), (6, 40, 3, columns)
    c = convolution_of(image, weights)
    tile = choose(c, AVX2).tile
    assert tile.apart
    assert tile.taps_together == together
    assert choose(c, AVX512).tile.taps_together == 1
    if supports(AVX2):
        x, w = (RANDOM.standard_normal(shape, dtype=np.float32) for shape in (image, weights))
        bound = c.reference(np.abs(x), np.abs(w)).max() * 3e-6
        assert np.abs(Conv2d(w, isa="avx2")(x) - c.reference(x, w)).max() <= bound


@pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")
@pytest.mark.parametrize(
    ("image", "weights", "stride", "folded"),
    [
        ((2, 20, 18, 45), (9, 20, 3, 3), 1, False),  # rows that two bands have, a last vector in part
        ((1, 60, 9, 9), (40, 60, 3, 3), 1, True),
        ((1, 20, 33, 80), (9, 20, 3, 3), 2, False),
    ],
)
def test_costly_activations_follow_products_that_are_apart(image, weights, stride, folded):
    x, w = (RANDOM.standard_normal(shape, dtype=np.float32) for shape in (image, weights))
    b = RANDOM.standard_normal(weights[0], dtype=np.float32)
    c = convolution_of(image, weights, strides=stride, padding=1)
    op = activation("silu")
    assert op is not None
    choice = choose(c, AVX2, epilogue=(op,))
    assert choice.tile.apart
    assert (choice.fold is not None) == folded
    settings = {"stride": stride, "padding": 1, "activation": "silu", "isa": "avx2"}
    y, again = (Conv2d(w, b, threads=threads, **settings)(x) for threads in (1, 3))
    plain = c.reference(x, w, b)
    bound = c.reference(np.abs(x), np.abs(w), np.abs(b)).max() * 3e-6
    assert np.abs(y - plain / (1 + np.exp(-plain))).max() <= bound
    assert np.array_equal(y, again)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_the_rows_that_read_it(isa, value):
    x = RANDOM.standard_normal((1, 64, 30, 40), dtype=np.float32)
    x[0, 60, 7, 39] = value
    w = RANDOM.standard_normal((8, 64, 3, 3), dtype=np.float32)
    with np.errstate(all="ignore"):
        results = [Conv2d(w, padding=1, form=form, isa=isa)(x) for form in ("transformed", "none")]
    assert np.array_equal(*results, equal_nan=True)


def test_registers_suffice_for_every_size_of_a_tile():
    for machine, stride, rows in ((AVX512, 1, 5), (AVX512, 2, 7), (AVX2, 1, 2), (AVX2, 1, 5)):
        tile = tile_of((1, 64, 60, 90), (30, 64, rows, 3), machine, stride=stride)
        assert tile.apart
        assert conv_kernel(tile, machine).registers
