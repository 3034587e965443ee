"""8-bit and 16-bit images in whole numbers: every pixel as exact arithmetic has it, on every machine."""

import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_checks import fenced, responses

from regweave.images import ImageFilter, filter_image, image_filter
from regweave.images.beyond import BORDERS
from regweave.images.bytewise import filter_bytes
from regweave.images.means import filter_means
from regweave.images.whole import whole_numbers
from regweave.kernels.photographs import (
    BAND,
    ByteFilter,
    MeanArguments,
    MeanFilter,
    PhotographArguments,
    band_rows,
    in_memory,
    least_length,
    mean_filter_kernel,
    photograph_kernel,
)
from regweave.machines.x86 import AVX2, AVX512, supports

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
NAMES = (
    "gaussian3",
    "gaussian5",
    "gaussian7",
    "gaussian9",
    "laplacian",
    "sobel",
    "unsharp",
    "box3",
    "box9",
    "box11",
    "box31",
)
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor has no native kernels")


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def machine(request, monkeypatch):
    monkeypatch.setenv("REGWEAVE_ISA", request.param.name)
    return request.param


def exact(image, chosen, border):
    """In f64, where all of these numbers are exact but means, which are far from ties."""
    kernels = chosen.kernels.astype(np.float64)
    mean = 1 / kernels[0].size
    kernels[kernels == np.float32(mean)] = mean
    found = responses(image, kernels, border)
    values = np.sqrt((found**2).sum(axis=0)) if len(found) > 1 else found[0]
    most = np.iinfo(image.dtype).max
    return np.clip(np.rint(np.abs(values) if chosen.magnitude else values), 0, most).astype(image.dtype)


def filtered(image, chosen, border="edge", threads=1):
    """By the kernel of bytes, and by no other."""
    form = whole_numbers(chosen, image.shape[2], deep=image.dtype == np.uint16)
    assert form is not None
    out = np.full(image.shape, 77, image.dtype)
    assert filter_bytes(image, form, border, threads, out, None)
    return out


def images(seed, shape, kind=np.uint8):
    """Noise, and black and white, where responses are largest and ties many."""
    rng = np.random.default_rng(seed)
    most = np.iinfo(kind).max
    yield rng.integers(0, most, shape, dtype=kind, endpoint=True)
    yield rng.integers(0, 2, shape, dtype=kind) * kind(most)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_filters_by_name_are_exact(machine, name, channels, kind):
    chosen = image_filter(name)
    for border, height, width in zip(
        BORDERS * 2, (1, 5, BAND, 40, 33, 16), (257, 300, 201, 193, 199, 320), strict=True
    ):
        for image in images(height, (height, width, channels), kind):
            got = filtered(image, chosen, border, threads=1 + height % 2)
            np.testing.assert_array_equal(got, exact(image, chosen, border))


@pytest.mark.parametrize("name", NAMES[:-1])
def test_narrow_images_and_f32_agree(machine, name):
    chosen = image_filter(name)
    for width in (1, 2, 3, 17, 64, 70):
        for image in images(width, (9, width, 3)):
            for border in BORDERS:
                np.testing.assert_array_equal(
                    filter_image(image, name, border=border), exact(image, chosen, border)
                )


@pytest.mark.parametrize("size", [(13, 13), (31, 31), (63, 63), (1, 15), (17, 1), (9, 35)])
@pytest.mark.parametrize("channels", [1, 3, 5, 8])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_means_of_many_pixels_are_exact(machine, size, channels, kind, monkeypatch):
    monkeypatch.setattr("regweave.images.means._LEAST_WIDTHS", {False: 1, True: 1})
    weights = np.full((1, *size), 1 / (size[0] * size[1]))
    chosen = ImageFilter("mean", weights.astype(np.float32))
    for border, height, width in zip(BORDERS, (1, 70, 33), (32, 47, 100), strict=True):
        for image in images(width, (height, width, channels), kind):
            out, wanted = np.zeros_like(image), exact(image, ImageFilter("mean", chosen.kernels), border)
            assert filter_means(image[::-1], chosen.kernels, border, 1 + width % 2, out[::-1], None)
            np.testing.assert_array_equal(out, wanted)


def test_what_is_no_mean_of_many_pixels():
    image = np.zeros((20, 30, 3), np.uint8)
    for kernels in (np.full((1, 2, 3), 1 / 6), np.ones((1, 3, 3)), np.full((2, 3, 3), 1 / 9)):
        assert not filter_means(image, kernels.astype(np.float32), "edge", 1, image.copy(), None)
    form = MeanFilter(3, 5, 7)
    assert (form.left, form.right) == (9, 9)
    assert form.scratch_bytes(100) == 3 * form.sums(100) + 64
    assert mean_filter_kernel(form, AVX512).name == "rw_mean_filter"
    assert [name for name, *_ in MeanArguments._fields_][3] == "length"
    assert not filter_means(image[:, :10], np.full((1, 3, 31), 1 / 93, np.float32), "edge", 1, image, None)


def test_progress_is_told_of_whole_rows(monkeypatch):
    image = np.random.default_rng(2).integers(0, 256, (100, 200, 3), dtype=np.uint8)
    monkeypatch.setattr("regweave.images.bands._BYTES", 1)
    monkeypatch.setattr("regweave.images.means._BYTES", 1)
    for name in ("gaussian3", "box3", "box13"):
        seen = []
        got = filter_image(image, name, threads=1, progress=lambda *counts, to=seen: to.append(counts))
        np.testing.assert_array_equal(got, exact(image, image_filter(name), "edge"))
        assert seen[-1] == (100, 100)
        assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_rows_anywhere(machine):
    chosen = image_filter("unsharp")
    rng = np.random.default_rng(4)
    whole = rng.integers(0, 256, (60, 300, 3), dtype=np.uint8)
    for view in (whole[::-1], whole[::3], whole[5:40, 30:250], whole[::-2, 7:]):
        np.testing.assert_array_equal(filtered(view, chosen), exact(view, chosen, "edge"))
    for view in (whole[:, ::-1], whole[:, :, ::-1], whole[:, :, :2], whole.transpose(1, 0, 2)):
        np.testing.assert_array_equal(filter_image(view, chosen), exact(view, chosen, "edge"))
    out = np.zeros((120, 320, 3), np.uint8)
    assert filter_image(whole, chosen, out=out[::-2, 10:310]).base is not None
    np.testing.assert_array_equal(out[::-2, 10:310], exact(whole, chosen, "edge"))
    out[::-2, 10:310] = 0
    assert not out.any()


@pytest.mark.parametrize("name", ["gaussian3", "gaussian7", "box31"])
def test_strides(machine, name, monkeypatch):
    monkeypatch.setattr("regweave.images.bands._WHOLE", 1)  # a few bands at a time
    chosen = image_filter(name)
    for kind, channels, height, width, stride in (
        (np.uint8, 3, 203, 150, 2),
        (np.uint16, 1, 130, 300, 3),
        (np.uint8, 1, 5, 260, 4),
        (np.uint8, 4, 65, 90, 70),
    ):
        for image in images(height, (height, width, channels), kind):
            form = whole_numbers(chosen, channels, deep=kind == np.uint16)
            for border in BORDERS:
                wanted, seen = exact(image, chosen, border)[::stride, ::stride], []
                out = np.full(wanted.shape, 77, kind)
                assert filter_bytes(
                    image, form, border, 1, out, lambda *n, to=seen: to.append(n), stride=stride
                )
                np.testing.assert_array_equal(out, wanted)
                np.testing.assert_array_equal(
                    filter_image(image, chosen, stride=stride, border=border), wanted
                )
                assert seen[-1] == (len(out), len(out))


@given(
    st.integers(1, 5),
    st.integers(1, 7),
    st.integers(1, 2),
    st.integers(0, 8),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from(BORDERS),
    st.sampled_from((np.uint8, np.uint16)),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_kernels_from_files_are_exact(high, wide, count, shift, most, channels, border, kind, seed):
    rng = np.random.default_rng(seed)
    kernels = rng.integers(-most, most + 1, (count, high, wide))
    if seed % 3 == 0:
        kernels = np.abs(kernels)
    chosen = ImageFilter(
        "mine", (kernels / 2.0**shift).astype(np.float32), magnitude=count > 1 or seed % 2 > 0
    )
    shape = (int(rng.integers(1, 40)), int(rng.integers(1, 260)), channels)
    whole = whole_numbers(chosen, channels, deep=kind == np.uint16)
    for image in images(seed, shape, kind):
        got, wanted = filter_image(image, chosen, border=border), exact(image, chosen, border)
        # f32 holds all of the numbers that bytes make
        exactly = whole is not None and kind == np.uint8
        if not exactly and (whole is None or not filter_bytes(image, whole, border, 1, image.copy(), None)):
            np.testing.assert_allclose(got.astype(int), wanted, atol=1)
        else:
            np.testing.assert_array_equal(got, wanted)


def test_every_filter_in_whole_numbers_has_a_kernel():
    rng = np.random.default_rng(8)
    made = 0
    for n in range(40):
        high, wide, count = rng.integers(1, 10), rng.integers(1, 16), rng.integers(1, 3)
        weights = rng.integers(-1, 2, (count, high, wide)) / 2 ** int(rng.integers(0, 6))
        form = whole_numbers(ImageFilter("mine", weights.astype(np.float32), count > 1), 3, deep=n % 2 > 0)
        for machine in (AVX512, AVX2):
            if form is not None and band_rows(form, machine):
                made += 1
                assert photograph_kernel(form, machine).name == "rw_photograph"
    assert made > 20


def test_where_sums_are_kept():
    for name, wanted in (("gaussian3", (False, False)), ("sobel", (False, True)), ("box31", (True, True))):
        form = whole_numbers(image_filter(name), 3)
        assert tuple(in_memory(form, machine) for machine in (AVX512, AVX2)) == wanted
        assert in_memory(whole_numbers(image_filter(name), 3, deep=True), AVX512)
    assert band_rows(whole_numbers(image_filter("gaussian3"), 3), AVX2) == BAND
    # of a long row only short bands find room on the stack
    wide = ImageFilter("mine", np.full((1, 1, 63), 1 / 64, np.float32))
    bands = [band_rows(whole_numbers(wide, channels, deep=True), AVX2) for channels in (1, 200, 2000)]
    assert bands == sorted(bands, reverse=True)
    assert bands[0] == 8
    assert bands[-1] == 0


def test_filters_in_whole_numbers():
    assert whole_numbers(image_filter("gaussian3"), 3) == ByteFilter(
        3, ((1, 2, 1),), (((0, 1), (0, 2), (0, 1)),), 4
    )
    soft = whole_numbers(image_filter("unsharp"), 1)
    assert soft.finish == "sharpen"
    assert (soft.largest, soft.shift) == (255 * 256, 8)
    assert whole_numbers(image_filter("box9"), 1).divisor == 81
    edges = whole_numbers(image_filter("sobel"), 1)
    assert len(edges.rows) == 2
    assert edges.uses[0] == ((0, 1), (0, 2), (0, 1))
    for weights in ([[0.3]], [[0.0]], [[70000.0]], [[np.nan]], [[2.0**-20]], [[0.25, 0.3]]):
        assert whole_numbers(ImageFilter("mine", np.array([weights], np.float32)), 1) is None
    assert whole_numbers(image_filter("gaussian9"), 1).wide
    assert whole_numbers(image_filter("gaussian11"), 1) is None


def test_memory_beyond_the_rows_is_not_touched(machine):
    page = mmap.PAGESIZE
    form = whole_numbers(image_filter("gaussian5"), 3)
    length = least_length(form, machine)
    assert length == (192 if machine is AVX512 else 96)
    width = page // 3
    fences = [fenced(12 * page), fenced(12 * page)]
    for start in (0, page - 3 * width):
        image, out = (
            raw[page:-page].reshape(-1, page)[:, start : start + 3 * width].reshape(-1, width, 3)
            for raw in fences
        )
        image[...] = np.random.default_rng(1).integers(0, 256, image.shape, dtype=np.uint8)
        for name in ("gaussian5", "box13"):
            filter_image(image, name, out=out)
            np.testing.assert_array_equal(out, exact(image, image_filter(name), "edge"))
    assert [name for name, *_ in PhotographArguments._fields_][:3] == ["rows", "outs", "length"]
