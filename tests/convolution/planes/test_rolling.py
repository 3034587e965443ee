"""Bands of a few channels that are gone through from top to bottom: edges, missing rows, late stores."""

import numpy as np
import pytest

import regweave
from regweave.cascades.running import STREAM_BYTES
from regweave.convolution.planes.choice import choose
from regweave.convolution.planes.chosen import scratch_bytes
from regweave.convolution.planes.native import NativeConvolution
from regweave.convolution.planes.strips import strip_limit
from regweave.convolution.planes.tables import pack_weights
from regweave.kernels.convolution import rolling_bytes
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

RANDOM = np.random.default_rng(5)
ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]


def data(shape, weights_shape):
    x = RANDOM.standard_normal(shape, dtype=np.float32)
    return x, RANDOM.standard_normal(weights_shape, dtype=np.float32)


def placed(shape, start):
    """Zeros that begin `start` bytes behind a page."""
    memory = np.zeros(4 * int(np.prod(shape)) + 8192, np.uint8)
    first = -memory.ctypes.data % 4096 + start
    return memory[first : first + 4 * int(np.prod(shape))].view(np.float32).reshape(shape)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("size", "kernel", "padding", "groups"),
    [
        ((33, 17), (5, 5), 2, 1),
        ((32, 3), (3, 3), 1, 1),
        ((64, 130), (2, 2), (0, 0, 1, 1), 1),
        ((45, 99), (4, 3), (1, 2, 2, 0), 2),
        ((40, 64), (3, 3), (3, 4, 5, 6), 3),
        ((50, 81), (5, 4), 0, 1),
        ((37, 300), (6, 5), 2, 1),
        ((60, 90), (9, 9), (4, 4, 3, 3), 1),
    ],
)
def test_results_are_those_of_float64(isa, size, kernel, padding, groups):
    x, w = data((2, groups, *size), (2 * groups, 1, *kernel))
    b = RANDOM.standard_normal(2 * groups, dtype=np.float32)
    expected = convolution_of(x.shape, w.shape, padding=padding, groups=groups).reference(x, w)
    expected = np.maximum(expected + b[:, None, None], 0)
    y = [
        regweave.conv2d(x, w, b, padding=padding, groups=groups, activation="relu", isa=isa, threads=threads)
        for threads in (1, 3)
    ]
    np.testing.assert_allclose(y[0], expected, atol=2e-5, rtol=1e-5)
    assert np.array_equal(y[0], y[1])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("channels", "filters", "groups", "kernel"),
    [
        (4, 1, 1, (3, 3)),
        (2, 2, 1, (3, 3)),
        (8, 4, 4, (3, 3)),
        (3, 1, 1, (5, 4)),
        (8, 1, 1, (3, 3)),
        (4, 4, 2, (2, 3)),
    ],
)
def test_channels_are_summed(isa, channels, filters, groups, kernel):
    x, w = data((2, channels, 40, 83), (filters, channels // groups, *kernel))
    b = RANDOM.standard_normal(filters, dtype=np.float32)
    c = convolution_of(x.shape, w.shape, padding=(1, 0, 2, 1), groups=groups)
    y = [
        regweave.conv2d(x, w, b, padding=(1, 0, 2, 1), groups=groups, isa=isa, threads=threads)
        for threads in (1, 2)
    ]
    np.testing.assert_allclose(y[0], c.reference(x, w) + b[:, None, None], atol=3e-5, rtol=1e-5)
    assert np.array_equal(y[0], y[1])
    tile = choose(c, AVX512).tile
    assert (tile.rolling, tile.channels, tile.outputs) == (True, channels // groups, (filters // groups,))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("taps", [3, 5, 9])
def test_a_column_times_a_row(isa, taps):
    x, column = data((1, 1, 70, 200), (1, 1, taps, 1))
    w = column * RANDOM.standard_normal((1, 1, 1, taps)).astype(np.float32)
    expected = convolution_of(x.shape, w.shape, padding=taps // 2).reference(x, w)
    y = regweave.conv2d(x, w, padding=taps // 2, isa=isa)
    np.testing.assert_allclose(y, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("kernel", "start"), [(5, 0), (5, 128), (5, 2048), (3, 64)])
def test_results_do_not_depend_on_where_they_lie(kernel, start):
    x, w = data((1, 1, 2050, 1024), (1, 1, kernel, kernel))
    y = placed(x.shape, start)
    there = placed(x.shape, 0)
    there[:] = x
    regweave.Conv2d(w, padding=kernel // 2, threads=2)(there, out=y)
    assert np.array_equal(y, regweave.conv2d(x, w, padding=kernel // 2, threads=1))


@pytest.mark.skipif(
    regweave.Conv2d(np.ones((1, 1, 2, 2), np.float32)).machine is not AVX512, reason="needs AVX-512"
)
@pytest.mark.parametrize("columns", [48, 80, 176])
def test_runs_shorter_than_what_is_stored_late(columns):
    memory, w = data((1, 1, 50, 1024), (1, 1, 5, 5))
    x, result = memory[..., :columns], placed((1, 1, 50, 256), 0)[..., :columns]
    c = convolution_of(x.shape, w.shape, padding=2)
    choice = choose(c, AVX512, stream=True, late=True)
    assert choice.tile.lagging
    native = NativeConvolution(c, choice, AVX512, x.strides, result.strides, 1)
    native.run(x.ctypes.data, result.ctypes.data, pack_weights(c, choice, w, None))
    np.testing.assert_allclose(result, c.reference(x, w), atol=2e-5)


def test_what_stands_beside_the_image_is_not_read():
    memory = np.full((60, 80), np.nan, np.float32)
    x, w = data((1, 1, 40, 50), (1, 1, 5, 5))
    memory[10:50, 15:65] = x[0, 0]
    y = regweave.conv2d(memory[None, None, 10:50, 15:65], w, padding=2)
    assert np.array_equal(y, regweave.conv2d(x, w, padding=2))


def test_a_nan_stays_where_it_is_read():
    x, w = data((1, 1, 64, 64), (1, 1, 5, 5))
    x[0, 0, 30, 20] = np.nan
    y = np.isnan(regweave.conv2d(x, w, padding=2)[0, 0])
    expected = np.zeros_like(y)
    expected[28:33, 18:23] = True
    assert np.array_equal(y, expected)


def test_only_what_lies_in_the_image_one_row_after_the_other_is_gone_through():
    shape, weights = (1, 1, 512, 512), (1, 1, 5, 5)
    assert choose(convolution_of(shape, weights, padding=2), AVX512).tile.rolling
    few = convolution_of((1, 1, 24, 512), weights, padding=2)
    assert not choose(few, AVX512, form="none").tile.rolling
    assert not choose(convolution_of(shape, weights, padding=2, strides=2), AVX512).tile.rolling
    assert not choose(convolution_of(shape, weights, padding=4, dilations=2), AVX512).tile.rolling
    assert not choose(convolution_of(shape, weights, padding=2), AVX512, neighbours=False).tile.rolling
    assert not choose(convolution_of(shape, (3, 1, 3, 3)), AVX512).tile.rolling
    # of 49 weights 16 registers hold 6
    long = convolution_of((1, 1, 512, 1030), (1, 1, 7, 7))
    assert choose(long, AVX512, form="none").tile.far_weights == 26
    assert not choose(convolution_of(shape, (1, 1, 7, 7)), AVX512, form="none").tile.rolling
    assert not choose(convolution_of(shape, (1, 1, 7, 7)), AVX2).tile.rolling


@pytest.mark.parametrize("size", [(1024, 1024), (128, 8192), (60, 100_000), (40_000, 64)])
@pytest.mark.parametrize("kernel", [2, 5])
def test_memory_of_four_threads_is_a_fiftieth_of_the_image(size, kernel):
    c = convolution_of((1, 1, *size), (1, 1, kernel, kernel), padding=kernel // 2)
    choice = choose(c, AVX512, threads=4)
    assert choice.tile.rolling
    assert 4 * scratch_bytes(c, AVX512, choice) <= strip_limit(c)


def test_memory_is_for_a_row_of_zeros_one_that_is_written_and_the_sums():
    c = convolution_of((1, 1, 512, 512), (1, 1, 5, 5), padding=2)
    choice = choose(c, AVX512, form="none")
    assert choice.strip_columns == 512
    row = 4 * (512 + 16)  # what lies to the right of the last vector
    assert rolling_bytes(choice.tile, row, 4 * 512, 64) == 2 * row + 4 * 4 * 512
    assert scratch_bytes(c, AVX512, choice) == 2 * row + 4 * 4 * 512


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("width", "weights", "padding"),
    [
        (300, (1, 4, 3, 3), 1),
        (530, (2, 2, 3, 3), 1),
        (270, (2, 2, 5, 5), (2, 0, 1, 3)),
        (64, (1, 3, 2, 1), 0),
    ],
)
def test_channels_that_compete_for_the_cache_are_copied_first(isa, width, weights, padding):
    channels, height, apart = weights[1], 37, 1 << 28
    memory = np.empty((channels - 1) * apart // 4 + height * width, np.float32)  # most of it is never touched
    strides = (0, apart, 4 * width, 4)
    x = np.lib.stride_tricks.as_strided(memory, (1, channels, height, width), strides)
    near, w = data((1, channels, height, width), weights)
    x[...] = near
    layers = [regweave.Conv2d(w, padding=padding, isa=isa, threads=1) for _ in range(2)]
    y = layers[0](x)
    assert np.array_equal(y, layers[1](near))
    c = convolution_of(near.shape, weights, padding=padding)
    np.testing.assert_allclose(y, c.reference(near, w), atol=2e-5, rtol=1e-5)
    machine = AVX512 if isa == "avx512" else AVX2
    assert choose(c, machine).tile.copied == 0
    # of 16 registers nothing is left for 50 weights
    assert (choose(c, machine, clash=True).tile.copied > 0) == choose(c, machine).tile.rolling


@pytest.mark.parametrize(("channels", "filters"), [(4, 1), (2, 1), (2, 2)])
def test_of_16_registers_results_of_copied_rows_are_stored_at_once(channels, filters):
    c = convolution_of((1, channels, 512, 8192), (filters, channels, 3, 3), padding=1)
    tiles = [choose(c, AVX2, stream=True, late=True, clash=clash).tile for clash in (False, True)]
    assert [(tile.stream, tile.lagging, tile.copied) for tile in tiles] == [
        (True, True, 0),
        (True, False, 32),
    ]


@pytest.mark.parametrize(
    ("weights", "evades"),
    [((3, 3, 3, 3), True), ((3, 2, 3, 3), True), ((3, 3, 1, 3), False), ((3, 1, 3, 3), False)],
)
def test_of_16_registers_channels_that_compete_for_the_cache_are_not_read_by_turns(weights, evades):
    c = convolution_of((1, weights[1], 512, 8192), weights, padding=(weights[2] // 2, 1))
    forms = [choose(c, AVX2, clash=clash).form for clash in (False, True)]
    assert forms == ["none", "transformed" if evades else "none"]
    assert choose(c, AVX2, clash=True, form="none").form == "none"
    assert choose(c, AVX512, clash=True).form == choose(c, AVX512).form


@pytest.mark.parametrize(("columns", "lines"), [(4096, True), (4080, True), (4088, False)])
def test_results_of_half_a_line_do_not_pass_the_caches(columns, lines):
    """Blocks of 2 vectors of AVX2 are whole lines unless one is left over; other tiles end within lines."""
    c = convolution_of((1, 1, 600, columns), (1, 1, 5, 5), padding=2)
    assert choose(c, AVX2, stream=True).tile.stream == lines
    assert choose(c, AVX512, stream=True).tile.stream
    several = convolution_of((1, 3, 600, columns), (16, 3, 3, 3), padding=1)
    assert not choose(several, AVX2, stream=True).tile.stream
    each = convolution_of((1, 1, 600, columns), (4, 1, 3, 3), padding=1)
    assert choose(each, AVX2, stream=True).tile.stream == lines
    # loads would wait for such stores, or products take longer than the stores
    assert not choose(each, AVX2, stream=True, late=True).tile.stream
    larger = convolution_of((1, 1, 600, columns), (4, 1, 5, 5), padding=2)
    assert not choose(larger, AVX2, stream=True).tile.stream


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("width", "stride"), [(720, 1), (704, 1), (1440, 2)])
def test_several_filters_of_one_channel_past_the_caches(isa, threads, width, stride):
    x, w = data((1, 1, 760 * stride, width), (4, 1, 3, 3))
    c = convolution_of(x.shape, w.shape, padding=1, strides=stride)
    y = placed(c.out_shape, (x.ctypes.data + 2048) // 64 * 64 % 4096)
    y[...] = np.nan
    assert y.nbytes >= STREAM_BYTES
    assert choose(c, AVX512 if isa == "avx512" else AVX2, stream=True).tile.stream
    regweave.Conv2d(w, padding=1, stride=stride, isa=isa, threads=threads)(x, out=y)
    np.testing.assert_allclose(y, c.reference(x, w), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "shape"),
    [(1, 1, 5, ((1,), (2,))), (1, 1, 3, ((1,), (2,))), (2, 2, 3, ((2,), (2,)))],
)
def test_few_registers_hold_sums_rather_than_weights(channels, filters, kernel, shape):
    c = convolution_of((1, channels, 600, 4096), (filters, channels, kernel, kernel), padding=kernel // 2)
    tile = choose(c, AVX2).tile
    assert (tile.outputs, tile.vectors) == shape
