"""Kernels that are a column times a row: which ones are, and that their results are those of the sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.convolution import Conv2d
from regweave.convolution.separable import factors
from regweave.kernels.convolution import ConvTile, conv_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]


def kernel(rows, columns):
    return np.outer(rows, columns).astype(np.float32)[None, None]


GAUSSIAN = kernel(*2 * [np.exp(-(np.arange(-2, 3) ** 2) / 2.0) / 2.5])
SOBEL = kernel([1, 2, 1], [-1, 0, 1])
BOX = np.full((1, 1, 9, 9), np.float32(1 / 81))


@pytest.mark.parametrize("weights", [GAUSSIAN, SOBEL, BOX, kernel([0, 0, 3], [0, 1e-10, 5e10])])
def test_blurs_and_derivatives_are_a_column_times_a_row(weights):
    height = weights.shape[2]
    found = factors(weights)[0].astype(np.float64)
    product = np.outer(found[:height], found[height:])
    assert (np.abs(product - weights[0, 0]) <= 2.0**-21 * np.abs(weights[0, 0])).all()
    assert 0.5 <= np.abs(found[height:]).sum() <= 1 + 1e-6


def test_other_kernels_are_not():
    laplacian = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)[None, None]
    nearly = GAUSSIAN.copy()
    nearly[0, 0, 3, 3] *= np.float32(1 + 2e-6)
    nothing = np.zeros((1, 1, 3, 3), np.float32)
    infinite = np.full((1, 1, 3, 3), np.inf, np.float32)
    one_of_two = np.concatenate([SOBEL, laplacian])
    beyond_f32 = np.full((1, 1, 3, 3), 3e38, np.float32)  # its column, divided by its row, is
    for weights in (laplacian, nearly, nothing, infinite, beyond_f32, one_of_two):
        with np.errstate(over="raise"):
            assert factors(weights) is None
    assert factors(np.ones((1, 2, 3, 3), np.float32)) is None  # channels are summed
    for spares_nothing in ((1, 1, 1, 5), (1, 1, 2, 2), (1, 1, 5)):
        assert factors(np.ones(spares_nothing, np.float32)) is None


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_results_are_those_of_the_sum(isa, data):
    number = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    filters, height, width = number(1, 3), number(2, 7), number(3, 11)
    stride, dilation = (number(1, 2), number(1, 2)), (number(1, 2), number(1, 2))
    padding = tuple(number(0, 6) for _ in range(4))
    shape = (2, filters, height * dilation[0] + number(0, 20), width * dilation[1] + number(0, 90))
    random = np.random.default_rng(number(0, 99))
    x, bias = (
        random.standard_normal(shape).astype(np.float32),
        random.standard_normal(filters).astype(np.float32),
    )
    weights = random.standard_normal((filters, 1, height, 1)) * random.standard_normal((filters, 1, 1, width))
    weights = weights.astype(np.float32)
    assert factors(weights) is not None
    given_ = {"padding": padding, "groups": filters}
    c = convolution_of(shape, weights.shape, strides=stride, dilations=dilation, **given_)
    y = Conv2d(weights, bias, stride=stride, dilation=dilation, isa=isa, **given_)(x)
    bound = c.reference(np.abs(x), np.abs(weights), np.abs(bias)) * 1e-6 + 1e-7
    assert (np.abs(y - c.reference(x, weights, bias)) <= bound).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("side", [3, 5, 7])
@pytest.mark.parametrize(("filters", "groups"), [(2, 1), (2, 2), (4, 2), (3, 3), (5, 5)])
def test_several_filters_of_bands(filters, groups, side, isa):
    """Where each filter's column and row begin counts those that found no register, too."""
    random = np.random.default_rng(filters)
    weights = random.standard_normal((filters, 1, side, 1)) * random.standard_normal((filters, 1, 1, side))
    weights = weights.astype(np.float32)
    assert factors(weights) is not None
    bias = random.standard_normal(filters).astype(np.float32)
    for height, width in ((40, 33), (64, 300)):
        x = random.standard_normal((2, groups, height, width)).astype(np.float32)
        c = convolution_of(x.shape, weights.shape, padding=1, groups=groups)
        bound = c.reference(np.abs(x), np.abs(weights), np.abs(bias)) * 1e-6 + 1e-7
        for threads in (1, 3):
            y = Conv2d(weights, bias, padding=1, groups=groups, threads=threads, isa=isa)(x)
            assert (np.abs(y - c.reference(x, weights, bias)) <= bound).all()


@pytest.mark.parametrize("isa", ISAS)
def test_large_images_in_two_threads_and_what_is_not_finite(isa):
    """Rows a page long; results pass the caches."""
    x = np.random.default_rng(2).standard_normal((1, 1, 1100, 2048)).astype(np.float32)
    x[0, 0, 50, 0], x[0, 0, 700, 2047], x[0, 0, 0, 9] = np.nan, np.inf, 3e38
    one, two = (Conv2d(GAUSSIAN, padding=2, threads=n, isa=isa)(x) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    expected = convolution_of(x.shape, GAUSSIAN.shape, padding=2).reference(x, GAUSSIAN)
    assert (np.isfinite(one) == np.isfinite(expected)).all()
    finite = np.isfinite(expected)
    assert np.allclose(one[finite], expected[finite], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
def test_fewer_products_are_written(machine):
    tile = ConvTile((1,), 4, (1,), 3, 3, separable=True, column_bytes=4, direct=True)
    text = conv_kernel(tile, machine).text
    plain = conv_kernel(ConvTile((1,), 4, (1,), 3, 3, column_bytes=4, direct=True), machine).text
    assert tile.held_weights == 6
    # two routines; 4 rows of results from 6 rows of an image, of each 2 products beside the first
    assert text.count("vfmadd231ps") == 2 * (6 * 2 + 4 * 3)
    assert plain.count("vfmadd231ps") == 2 * 4 * 9
