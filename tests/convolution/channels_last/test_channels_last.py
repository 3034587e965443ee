"""Images whose channels lie side by side: kernels whose lanes are filters, or channels."""

import math

import numpy as np
import pytest

from regweave.convolution import Conv2d
from regweave.convolution.channels_last import (
    LastChoice,
    LastConvolution,
    choose_last,
    native,
    pack_last,
)
from regweave.convolution.channels_last.runs import runs_of
from regweave.kernels.channels_last import DenseTile, DepthTile
from regweave.kernels.convolution import transform
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
ISAS = [machine.name for machine in MACHINES]
ACTIVATIONS = {
    None: lambda y: y,
    "relu": lambda y: np.maximum(y, 0),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "gelu": lambda y: y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) / 2,
}


def last_axis(array):
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def random_case(random):
    """(image [batch, height, width, channels], weights, bias, settings)."""
    while True:
        depthwise = random.random() < 0.3
        groups = int(random.choice([2, 5, 16, 17, 40] if depthwise else [1, 1, 2, 4]))
        deep = 1 if depthwise else int(random.integers(1, 40))
        most = int(random.choice([9, 70]))  # of few filters lanes are shared
        filters = groups * (int(random.choice([1, 1, 2])) if depthwise else int(random.integers(1, most)))
        kernel = tuple(map(int, random.choice([1, 2, 3, 3, 4, 5, 7], 2)))
        settings = {
            "stride": tuple(map(int, random.choice([1, 1, 2, 3], 2))),
            "dilation": tuple(map(int, random.choice([1, 1, 2], 2))),
            "padding": tuple(map(int, random.integers(0, 4, 4))),
            "groups": groups,
        }
        batch, (height, width) = int(random.choice([1, 2])), map(int, random.integers(1, 36, 2))
        x = random.standard_normal((batch, height, width, groups * deep), dtype=np.float32)
        w = random.standard_normal((filters, deep, *kernel), dtype=np.float32)
        layer = Conv2d(w, order="nhwc", **settings)
        try:
            c = layer.convolution(x.shape)
        except ValueError:
            continue  # a kernel beyond its image
        if min(c.out_shape) > 0:
            return c, x, w, random.standard_normal(filters, dtype=np.float32), settings


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_of_views(isa, seed):
    random = np.random.default_rng([seed, len(isa)])
    for _ in range(4):
        c, x, w, bias, settings = random_case(random)
        # an image inside a larger one full of NaN, upside down; a result between others
        around = np.full((x.shape[0], x.shape[1] + 2, x.shape[2] + 3, x.shape[3] + 5), np.nan, np.float32)
        around[:, 1:-1, 2:-1, 3:-2] = x[:, ::-1]
        view = around[:, 1:-1, 2:-1, 3:-2][:, ::-1]
        batch, filters, height, width = c.out_shape
        out = np.full((batch, height + 2, 2 * width, filters + 3), 7, np.float32)
        name = list(ACTIVATIONS)[int(random.integers(4))]
        threads = int(random.choice([1, 3]))
        layer = Conv2d(w, bias, order="nhwc", activation=name, isa=isa, threads=threads, **settings)
        expected = c.reference(np.moveaxis(x, -1, 1), w) + bias[:, None, None].astype(np.float64)
        expected = np.moveaxis(ACTIVATIONS[name](expected), 1, -1)
        limit = 2e-6 * max(1, abs(expected).max())
        assert abs(layer(x) - expected).max() < limit, (c, name)
        layer(view, out=out[:, 1:-1, ::2, 1:-2])
        assert abs(out[:, 1:-1, ::2, 1:-2] - expected).max() < limit, (c, name)
        out[:, 1:-1, ::2, 1:-2] = 7
        assert (out == 7).all(), c


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("channels", "filters", "groups", "settings"),
    [(1, 5, 1, {"stride": 4, "padding": 3}), (65, 40, 1, {"dilation": 2}), (32, 64, 4, {}), (40, 40, 40, {})],
)
def test_signals(isa, channels, filters, groups, settings):
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 40, channels), dtype=np.float32)
    w = random.standard_normal((filters, channels // groups, 3), dtype=np.float32)
    layer = Conv2d(w, order="nhwc", groups=groups, isa=isa, **settings)
    expected = layer.convolution(x.shape).reference(np.moveaxis(x, -1, 1), w)
    assert abs(layer(x) - np.moveaxis(expected, 1, -1)).max() < 2e-6 * abs(expected).max()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("shape", "weights", "settings"),
    [
        ((3, 17, 23, 24), (40, 24, 3, 3), {"padding": 1}),  # transformed rows
        ((1, 30, 30, 24), (24, 24, 3, 3), {"padding": 1, "stride": 2}),
        ((1, 40, 300, 4), (64, 4, 1, 1), {}),  # all pixels in one row
        ((1, 12, 14, 64), (5, 64, 3, 3), {"padding": 1}),  # few filters
        ((2, 9, 50, 40), (40, 1, 5, 5), {"padding": 2, "groups": 40}),
        ((1, 12, 12, 32), (700, 32, 3, 3), {"padding": 1, "form": "none"}),  # threads share the filters
    ],
)
def test_threads_do_not_change_bits(isa, shape, weights, settings, monkeypatch):
    many = lambda flops, threads, most: most if threads > 1 else 1  # noqa: E731
    monkeypatch.setattr(native, "job_parts", many)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(size, dtype=np.float32) for size in (shape, weights))
    one = Conv2d(w, order="nhwc", threads=1, isa=isa, **settings)(x)
    for threads in (2, 3, 16):
        assert np.array_equal(Conv2d(w, order="nhwc", threads=threads, isa=isa, **settings)(x), one)


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_not_finite_stays_with_its_pixels(isa):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(size, dtype=np.float32) for size in ((1, 20, 20, 16), (32, 16, 3, 3)))
    layer = Conv2d(w, padding=1, order="nhwc", isa=isa)
    finite = layer(x)
    x[0, 10, 10, 3], x[0, 4, 15, 0] = np.inf, np.nan
    met = np.zeros((20, 20), bool)
    met[9:12, 9:12] = met[3:6, 14:17] = True
    y = layer(x)
    assert not np.isfinite(y[0, met]).all(axis=-1).any()
    assert abs(y[0, ~met] - finite[0, ~met]).max() < 1e-4
    assert np.isnan(y[0, 3:6, 14:17]).all()
    assert np.isinf(y[0, 9:12, 9:12]).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [1, 3])
def test_one_channel_on_either_side(isa, channels):
    """Of one channel both orders of memory are the same, on that side."""
    random = np.random.default_rng(0)
    x = random.standard_normal((1, channels, 19, 33), dtype=np.float32)
    for filters in (1, 8, 20):
        w = random.standard_normal((filters, channels, 3, 3), dtype=np.float32)
        planes = Conv2d(w, padding=1, isa=isa)(x)
        pixels = Conv2d(w, padding=1, isa=isa, order="nhwc")(last_axis(x))
        assert abs(pixels - last_axis(planes)).max() < 6e-5


@pytest.mark.parametrize("isa", ISAS)
def test_results_of_whole_lines_pass_the_caches(isa):
    random = np.random.default_rng(0)
    for shape, weights, settings in (
        ((1, 260, 260, 32), (32, 32, 1, 1), {}),
        ((1, 260, 260, 32), (32, 1, 3, 3), {"groups": 32}),
        ((1, 260, 260, 4), (32, 4, 3, 3), {"padding": 1}),
        ((1, 530, 512, 8), (8, 8, 3, 3), {"padding": 1}),
    ):
        x, w = (random.standard_normal(size, dtype=np.float32) for size in (shape, weights))
        layer = Conv2d(w, order="nhwc", isa=isa, threads=1, **settings)
        y = layer(x)
        assert layer._last[2].choice.tile.stream == (layer.machine is AVX512)  # whole lines, or none
        planes = Conv2d(w, isa=isa, threads=1, **settings)(np.moveaxis(x, -1, 1))
        assert abs(np.moveaxis(planes, 1, -1) - y).max() < 6e-5


@pytest.mark.parametrize("isa", ISAS)
def test_new_results_start_a_little_before_the_image(isa):
    """In a page: a load then never looks as if it read what was just stored, however long pixels are."""
    x, w = np.ones((1, 14, 14, 512), np.float32), np.ones((512, 1, 3, 3), np.float32)
    y = Conv2d(w, padding=1, groups=512, order="nhwc", isa=isa)(x)
    assert (y.ctypes.data - x.ctypes.data) % 4096 in range(4096 - 320, 4096 - 192)


def choice_of(machine, shape, weights, *, dense=True, threads=1, **settings):
    c = convolution_of(shape, weights, **settings)
    return choose_last(c, machine, stream=False, epilogue=(), threads=threads, dense=dense)


@pytest.mark.skipif(AVX512 not in MACHINES, reason="no AVX-512")
def test_tiles_that_are_chosen():
    pixels = choice_of(AVX512, (1, 256, 1, 3136), (64, 256, 1, 1))
    assert (pixels.tile.spans, pixels.tiles, pixels.form) == ((7, 7), (2, 2), "none")
    assert not pixels.tile.strip
    # 4 KiB from pixel to pixel: all in one set of the cache
    assert choice_of(AVX512, (1, 1024, 1, 196), (256, 1024, 1, 1)).tile.pixels <= 8
    square = choice_of(AVX512, (1, 64, 56, 56), (64, 64, 3, 3), padding=1)
    assert (square.form, square.tile.staged, square.tile.pixels) == ("transformed", True, 14)
    few = choice_of(AVX512, (1, 3, 300, 300), (16, 3, 3, 3), padding=1)
    assert (few.form, few.tile.staged, few.tile.spans) == ("transformed", False, (6, 6, 6, 6))
    assert choice_of(AVX512, (1, 64, 56, 56), (64, 64, 3, 3), padding=1, dense=False).form == "none"
    eight = choice_of(AVX512, (1, 8, 56, 56), (8, 8, 1, 1))
    assert (eight.machine, eight.tile.split) in ((AVX512, 2), (AVX2, 1))
    three = choice_of(AVX512, (1, 64, 1, 3136), (3, 64, 1, 1))
    assert (three.machine, three.tile.split, three.tile.joined) == (AVX512, 4, 0)
    # 28 pixels x 4 elements a step are 7 lines; a small image is in the cache
    assert (three.tile.ahead, pixels.tile.ahead) == (0, 1)
    assert choice_of(AVX512, (1, 64, 1, 50176), (3, 64, 1, 1)).tile.ahead == 7
    depth = choice_of(AVX512, (1, 128, 56, 56), (128, 1, 3, 3), padding=1, groups=128)
    assert isinstance(depth.tile, DepthTile)
    assert depth.tile.padded == (True, True)
    assert choice_of(AVX512, (1, 32, 300, 300), (32, 1, 127, 127), groups=32) is None


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
def test_planes_are_made_where_lanes_would_be_empty(machine):
    assert choice_of(machine, (1, 3, 540, 960), (3, 3, 3, 3), padding=1) is None
    assert choice_of(machine, (1, 3, 540, 960), (3, 1, 5, 5), padding=2, groups=3) is None
    assert choice_of(machine, (1, 64, 28, 28), (128, 1, 3, 3), padding=1, groups=64) is None
    # 64 planes are dearer than three filters in a vector
    assert choice_of(machine, (1, 64, 1, 50000), (3, 64, 1, 1)) is not None


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
@pytest.mark.parametrize("split", [2, 4, 8, 16])
@pytest.mark.parametrize("transformed", [False, True])
@pytest.mark.parametrize("joined", [False, True])
def test_lanes_that_share_a_filter(machine, split, transformed, joined):
    """Runs of 27 elements: some are left over; two rows of results that there are not, of the transformed."""
    if split > machine.lanes:
        pytest.skip("more lanes than there are")
    random, filters = np.random.default_rng(split), machine.lanes // split
    x = random.standard_normal((1, 6, 13, 9), dtype=np.float32)
    w, bias = (
        random.standard_normal((filters, 9, 3, 3), dtype=np.float32),
        np.arange(filters, dtype=np.float32),
    )
    c = convolution_of((1, 9, 6, 13), w.shape, padding=1)
    tile = DenseTile(
        (6, 6) if transformed else (5,),
        (1,),
        strip=True,
        masked=True,
        transform=transform(4, 3) if transformed else None,
        split=split,
        tail=True,
        joined=filters if joined else 0,
    )
    choice = LastChoice(
        tile, machine, (1,), 8 if transformed else 6, 13, runs_of(c, dense=True, transformed=transformed)
    )
    y = np.full((1, 6, 13, filters + 2 * (not joined)), np.nan, np.float32)
    strides = [np.moveaxis(array, -1, 1).strides for array in (x, y)]
    made = LastConvolution(c, choice, *strides, threads=1)
    assert made.run(x.ctypes.data, y.ctypes.data, pack_last(c, choice, w, bias))
    expected = c.reference(np.moveaxis(x, -1, 1), w) + bias[:, None, None]
    assert abs(np.moveaxis(y[..., :filters], -1, 1) - expected).max() < 2e-5
    assert np.isnan(y[..., filters:]).all()


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
@pytest.mark.parametrize("size", [(10**9, 3), (3, 10**9)])
def test_the_longest_images_are_cut_by_halving(machine, size):
    choice = choice_of(machine, (1, 8, *size), (16, 8, 3, 3), padding=1)
    c = convolution_of((1, 8, *size), (16, 8, 3, 3), padding=1)
    assert 0 < native.scratch_bytes(c, choice) < 448 * 1024


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
def test_strips_are_small(machine):
    for shape, weights in (((1, 3, 1080, 1920), (16, 3, 3, 3)), ((1, 32, 1000, 1000), (32, 32, 5, 5))):
        c = convolution_of(shape, weights, padding=1)
        choice = choose_last(c, machine, stream=False, epilogue=(), threads=2, dense=True)
        assert isinstance(choice.tile, DenseTile)
        each = native.scratch_bytes(c, choice)
        assert each > 0
        for threads in (1, 4):
            strides = [
                np.moveaxis(np.empty((0, *size[2:], size[1]), np.float32), -1, 1).strides
                for size in (shape, c.out_shape)
            ]
            parts = LastConvolution(c, choice, *strides, threads=threads).parts
            assert parts * each <= 0.02 * 4 * np.prod(shape)


@pytest.mark.parametrize("machine", MACHINES, ids=ISAS)
@pytest.mark.parametrize("staged", [False, True])
def test_products_of_transformed_rows_in_registers_and_on_a_stage(machine, staged):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(size, dtype=np.float32) for size in ((1, 13, 17, 8), (24, 8, 3, 3)))
    c = convolution_of((1, 8, 13, 17), w.shape, padding=1)
    vectors = -(-24 // machine.lanes)
    tile = DenseTile(
        (2, 2) if staged else (6,),
        (vectors if staged else 1,),
        strip=True,
        masked=24 % machine.lanes > 0,
        transform=transform(4, 3),
        staged=staged,
    )
    runs = runs_of(c, dense=True, transformed=True)
    choice = LastChoice(tile, machine, (vectors,) if staged else (1,) * vectors, 8, 17, runs)
    y = np.full((1, 13, 17, 24), np.nan, np.float32)
    strides = [np.moveaxis(array, -1, 1).strides for array in (x, y)]
    made = LastConvolution(c, choice, *strides, threads=1)
    assert choice.form == "transformed"
    assert made.run(x.ctypes.data, y.ctypes.data, pack_last(c, choice, w, None))
    assert abs(np.moveaxis(y, -1, 1) - c.reference(np.moveaxis(x, -1, 1), w)).max() < 2e-5
