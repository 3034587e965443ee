"""Bits of a result depend neither on the number of threads nor on which part of the work is done last."""

import ctypes
from itertools import product

import numpy as np
import pytest

from regweave.convolution import Conv2d, pool
from regweave.convolution.planes import native
from regweave.machines.x86 import AVX2, AVX512, supports

ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]
KERNELS, SIZES = (2, 3, 4, 5), (14, 15, 17, 56, 57)


def image_and_weights(size, kernel, channels=8, filters=8, batch=3):
    random = np.random.default_rng(size + kernel)
    x = random.standard_normal((batch, channels, size, size), np.float32)
    return x, random.standard_normal((filters, channels, kernel, kernel), np.float32)


@pytest.fixture(autouse=True)
def _as_many_parts_as_possible(monkeypatch):
    """These images are small: one part would do."""
    many = lambda flops, threads, most: most if threads > 1 else 1  # noqa: E731
    monkeypatch.setattr(native, "job_parts", many)


def in_turn(order):
    """What runs all parts of a kernel, one after the other, in the order that `order` brings them in."""

    def run(address, arguments, parts, threads):
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(address)
        for part in order(range(parts)):
            kernel(arguments, part)

    return run


ORDERS = in_turn(iter), in_turn(reversed)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_do_not_change_bits(isa, kernel):
    for size in SIZES:
        x, w = image_and_weights(size, kernel)
        one = Conv2d(w, padding=kernel // 2, threads=1, isa=isa)(x)
        for threads in (2, 3, 5, 16):
            layer = Conv2d(w, padding=kernel // 2, threads=threads, isa=isa)
            assert np.array_equal(layer(x), one), (size, threads)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", ["transformed", None])
@pytest.mark.parametrize("changes", [{}, {"order": "nhwc"}, {"activation": "gelu"}, {"stride": 2}])
def test_the_order_of_parts_does_not_change_bits(isa, form, changes, monkeypatch):
    results = []
    for order in ORDERS:
        monkeypatch.setattr(pool, "run", order)
        for kernel, size in product((3, 5) if "stride" in changes else KERNELS, SIZES):
            x, w = image_and_weights(size, kernel, filters=5, batch=2)
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if "order" in changes else x
            results.append(Conv2d(w, padding=1, threads=5, form=form, isa=isa, **changes)(x))
    half = len(results) // 2
    for first, second in zip(results[:half], results[half:], strict=True):
        assert np.array_equal(first, second), first.shape


@pytest.mark.parametrize("isa", ISAS)
def test_the_order_of_parts_does_not_change_bits_that_pass_the_caches(isa, monkeypatch):
    monkeypatch.setattr("regweave.convolution.decision.STREAM_BYTES", 0)
    tiles, results = [], []
    kernel = native.loaded_convolution
    monkeypatch.setattr(native, "loaded_convolution", lambda *made: tiles.append(made[0]) or kernel(*made))
    x, w = image_and_weights(64, 3)
    x = np.ascontiguousarray(x[:, :, :57])
    for order in ORDERS:
        monkeypatch.setattr(pool, "run", order)
        results.append(Conv2d(w, padding=1, threads=5, form="transformed", isa=isa)(x))
    assert [tile.stream for tile in tiles] == [isa == "avx512"] * 2  # half lines never pass them
    assert np.array_equal(*results)


@pytest.mark.parametrize("isa", ISAS)
def test_shared_rows_are_those_of_the_band_before(isa):
    """14 rows in bands of 4: the first twelve are what an image that ends with them gives."""
    x, w = image_and_weights(16, 3, channels=64, filters=64)
    layer = Conv2d(w, form="transformed", threads=1, isa=isa)
    whole, cut = layer(x), layer(np.ascontiguousarray(x[:, :, :14]))
    assert layer.dense(x.shape).native.choice.fold is None
    assert np.array_equal(whole[:, :, :12], cut)


@pytest.mark.parametrize("order", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "groups", "stride"),
    [(1, 1, 5, 1, 1), (16, 16, 3, 1, 1), (3, 64, 7, 1, 2), (32, 32, 3, 32, 1), (48, 64, 5, 1, 1)],
)
def test_a_layer_that_has_seen_other_sizes_gives_the_bits_of_a_new_one(
    order, channels, filters, kernel, groups, stride
):
    """Weights are packed for the kernel that a size gets: on 7 x 7 pixels it may be another one."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((filters, channels // groups, kernel, kernel), dtype=np.float32)
    settings = {"padding": kernel // 2, "stride": stride, "groups": groups, "order": order, "threads": 1}
    layer = Conv2d(weights, **settings)
    for height, width in ((40, 450), (7, 7), (20, 30), (14, 14), (3, 300), (56, 56)):
        size = (channels, height, width) if order == "nchw" else (height, width, channels)
        x = random.standard_normal((1, *size), dtype=np.float32)
        np.testing.assert_array_equal(layer(x), Conv2d(weights, **settings)(x))
