"""Filters of any weights on images as they lie in memory, beside float64."""

import mmap

import numpy as np
import pytest
from image_checks import fenced, responses

from regweave.images import ImageFilter, filter_image
from regweave.images.bands import is_dense
from regweave.images.beyond import BORDERS
from regweave.images.weighted import filter_weighted
from regweave.kernels.photographs import (
    ROWS,
    SEGMENT,
    WeightedArguments,
    WeightedFilter,
    weighted_kernel,
)
from regweave.machines.x86 import AVX2, AVX512, supports

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
KINDS = (np.uint8, np.uint16, np.float32)
#: Of sums in f32 of numbers up to 1, and of these in units of 16 bits.
ERROR = 2e-6
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor has no native kernels")


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def machine(request, monkeypatch):
    monkeypatch.setenv("REGWEAVE_ISA", request.param.name)
    return request.param


def weights(seed, count, high, wide, *, separable):
    rng = np.random.default_rng(seed)
    kernels = rng.normal(size=(count, high, wide))
    if separable:
        kernels = np.stack([np.outer(kernel[:, 0], kernel[0]) for kernel in kernels])
    kernels /= np.abs(kernels).sum(axis=(1, 2), keepdims=True)
    return ImageFilter("mine", kernels.astype(np.float32), magnitude=count > 1 or seed % 2 > 0)


def noise(seed, shape, kind):
    rng = np.random.default_rng(seed)
    if kind == np.float32:
        return rng.normal(size=shape).astype(kind)
    return rng.integers(0, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)


def reference(image, chosen, border):
    """In f64, clamped but not rounded."""
    found = responses(image, chosen.kernels, border)
    values = np.sqrt((found**2).sum(axis=0)) if len(found) > 1 else found[0]
    values = np.abs(values) if chosen.magnitude else values
    return values if image.dtype == np.float32 else np.clip(values, 0, np.iinfo(image.dtype).max)


def check(got, wanted, kind):
    most = 1 if kind == np.float32 else np.iinfo(kind).max
    rounding = 0 if kind == np.float32 else 0.5
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=0, atol=rounding + ERROR * most)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize(
    ("count", "high", "wide"),
    [(1, 3, 3), (1, 5, 4), (2, 3, 3), (1, 1, 9), (1, 7, 7), (1, 11, 1), (1, 15, 15)],
)
def test_any_weights(machine, kind, separable, count, high, wide):
    shapes = ((70, 400, 1), (5, 200, 3), (ROWS * 2 + 2, 65, 4), (1, 257, 2), (66, 33, 8))
    for seed, (shape, border) in enumerate(zip(shapes, BORDERS * 2, strict=False)):
        chosen = weights(seed, count, high, wide, separable=separable)
        image = noise(seed, shape, kind)
        out = np.full(shape, 77, kind)
        assert filter_weighted(image, chosen, border, 1 + seed % 2, out, None)
        check(out, reference(image, chosen, border), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_strides_rows_anywhere_and_narrow_images(machine, kind):
    chosen = weights(1, 1, 5, 5, separable=True)
    whole = noise(3, (150, 130, 3), kind)
    for image in (whole[::-1], whole[::3], whole[5:40, 30:], whole[:, ::-1], whole[:, :, :2], whole[:, :20]):
        for stride in (1, 2, 5):
            wanted = reference(image, chosen, "mirror")[::stride, ::stride]
            check(filter_image(image, chosen, stride=stride, border="mirror"), wanted, kind)
    assert not is_dense(whole[:, ::-1])


def test_numbers_that_are_none():
    image = np.ones((8, SEGMENT, 1), np.float32)
    image[4, 100] = np.nan
    chosen = ImageFilter("mine", np.full((1, 3, 3), 0.3, np.float32))
    got = filter_image(image, chosen)
    assert np.isnan(got[3:6, 99:102]).all()
    assert np.isfinite(np.delete(got, [3, 4, 5], axis=0)).all()
    bytes_ = np.full((8, SEGMENT, 1), 255, np.uint8)
    for weight, wanted in ((1e20, 255), (-1e20, 0), (np.inf, 255)):
        kernel = np.zeros((1, 3, 3), np.float32)
        kernel[0, 1, 1], kernel[0, 0, 0] = weight, 0.3
        assert (filter_image(bytes_, ImageFilter("mine", kernel)) == wanted).all()


def test_memory_beyond_the_rows_is_not_touched(machine):
    page = mmap.PAGESIZE
    images = []
    for kind in KINDS:
        region = fenced(4 * page)[page:-page].view(kind)
        images.append(region.reshape(2, -1, 1))
    for image in images:
        image[...] = noise(1, image.shape, image.dtype)
        chosen = weights(2, 1, 3, 5, separable=False)
        out = filter_image(image, chosen, out=np.empty_like(image))
        check(out, reference(image, chosen, "edge"), image.dtype)


def test_which_filters_have_a_kernel():
    assert WeightedFilter("u8", 3, 31, 31, separable=True).fits()
    assert not WeightedFilter("u8", 3, 63, 63).fits()
    assert not WeightedFilter("u8", 1, 1, 1, responses=3).fits()
    assert not WeightedFilter("u8", SEGMENT, 3, 5).fits()
    narrow = np.zeros((4, SEGMENT // 4 - 1, 4), np.uint8)
    assert not filter_weighted(narrow, weights(0, 1, 3, 3, separable=True), "edge", 1, narrow.copy(), None)
    for each in (AVX512, AVX2):
        for kind in ("u8", "u16", "f32"):
            form = WeightedFilter(kind, 3, 5, 5, responses=2, separable=kind == "u16")
            assert weighted_kernel(form, each).name == "rw_weighted"
    assert [name for name, *_ in WeightedArguments._fields_][-1] == "weights"
