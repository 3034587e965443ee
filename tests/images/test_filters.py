"""Filters by name and from files, against windows in float64; bands, mapped files, what is refused."""

import os

import numpy as np
import pytest

from regweave import InputError
from regweave.images import ImageFilter, filter_image, filter_names, image_filter
from regweave.images.filters import BORDERS
from regweave.images.mapped import map_image, mapped_output

NAMES = ("gaussian5", "box9", "gaussian1", "sobel", "laplacian", "unsharp")
PADDED = {"edge": "edge", "mirror": "reflect", "zero": "constant"}


def exact(image, chosen, stride, border):
    high, wide = chosen.kernels.shape[1:]
    around = ((high // 2, high - 1 - high // 2), (wide // 2, wide - 1 - wide // 2), (0, 0))
    padded = np.pad(image.astype(np.float64), around, mode=PADDED[border])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (high, wide), axis=(0, 1))[::stride, ::stride]
    found = np.einsum("yxchw,nhw->nyxc", windows, chosen.kernels.astype(np.float64))
    if len(found) > 1:
        return np.sqrt((found**2).sum(axis=0))
    return np.abs(found[0]) if chosen.magnitude else found[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("border", BORDERS)
def test_filters_by_name(name, border):
    chosen = image_filter(name)
    rng = np.random.default_rng(len(name))
    for dtype, stride, shape in (
        (np.uint8, 1, (31, 40, 3)),
        (np.uint16, 3, (20, 17, 1)),
        (np.float32, 2, (2, 3, 3)),
        (np.uint8, 1, (45, 33, 1)),  # narrow and tall: bands of planes, from top to bottom
        (np.float32, 1, (70, 50, 2)),
    ):
        image = (rng.random(shape) * 255).astype(dtype)
        wanted = exact(image, chosen, stride, border)
        got = filter_image(image, chosen, stride=stride, border=border, threads=1)
        assert got.dtype == dtype
        assert got.shape == wanted.shape
        if dtype == np.float32:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-2)
        else:
            assert np.abs(got - np.clip(np.rint(wanted), 0, np.iinfo(dtype).max)).max() <= 1


def test_images_of_one_pixel_and_even_kernels(tmp_path):
    one = np.full((1, 1, 3), 77, np.uint8)
    for border in ("edge", "mirror"):
        np.testing.assert_array_equal(filter_image(one, image_filter("box9"), border=border), one)
    (tmp_path / "even.txt").write_text("0.25 0.25 0\n0.25 0.25 0\n")
    chosen = image_filter(tmp_path / "even.txt")
    image = np.random.default_rng(1).random((9, 7, 1)).astype(np.float32)
    np.testing.assert_allclose(filter_image(image, chosen), exact(image, chosen, 1, "edge"), rtol=1e-5)


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("size", [(15, 15), (31, 2), (4, 21)])
def test_long_columns_times_long_rows(size, stride):
    rng = np.random.default_rng(3)
    factors = [(rng.standard_normal(size[0]), rng.standard_normal(size[1])) for _ in range(2)]
    kernels = np.array([np.outer(*pair) for pair in factors], np.float32)
    image = rng.random((40, 50, 3)).astype(np.float32)
    for chosen in (ImageFilter("pair", kernels), ImageFilter("one", kernels[1:], magnitude=True)):
        got = filter_image(image, chosen, stride=stride, border="mirror")
        wanted = exact(image, chosen, stride, "mirror")
        assert np.abs(got - wanted).max() < 1e-6 * np.abs(kernels).sum()


def test_a_blurred_wall_keeps_its_grey():
    wall = np.full((70, 70, 1), 50001, np.uint16)  # one less with all 3969 products in one sum
    np.testing.assert_array_equal(filter_image(wall, "box63"), wall)


def test_what_the_names_mean():
    assert list(filter_names()) == ["gaussianN", "boxN", "sobel", "laplacian", "unsharp"]
    for name in ("gaussian7", "box63", "unsharp"):
        np.testing.assert_allclose(image_filter(name).kernels.sum(), 1, rtol=1e-5)
    step = np.zeros((8, 8, 1), np.uint8)
    step[:, 4:] = 200
    assert filter_image(step, image_filter("sobel")).max() == 200
    assert image_filter("gaussian3").combine(np.full((1, 1, 2, 2), -3)).min() == -3


def test_bands_do_not_show(monkeypatch):
    image = np.random.default_rng(2).integers(0, 256, (50, 21, 3), dtype=np.uint8)
    chosen, seen = image_filter("gaussian9"), []
    whole = filter_image(image, chosen, stride=2, border="mirror")
    monkeypatch.setattr("regweave.images.filters._BAND", 1)
    seen = []
    banded = filter_image(
        image,
        image_filter("gaussian9"),
        stride=2,
        border="mirror",
        progress=lambda *counts: seen.append(counts),
    )
    np.testing.assert_array_equal(banded, whole)
    assert seen == [(row + 1, 25) for row in range(25)]


@pytest.mark.parametrize("ending", [".npy", ".tif"])
@pytest.mark.parametrize("channels", [1, 3])
def test_from_file_to_file(tmp_path, ending, channels):
    if ending == ".tif":
        pytest.importorskip("tifffile")
    image = np.random.default_rng(3).integers(0, 65536, (30, 20, channels), dtype=np.uint16)
    source, target = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    with mapped_output(source, image.shape, image.dtype) as out:
        out[...] = image
    mapped = map_image(source).pixels
    np.testing.assert_array_equal(mapped, image)
    with mapped_output(target, image.shape, image.dtype) as out:
        filter_image(mapped, image_filter("box3"), out=out)
    back = map_image(target).pixels
    np.testing.assert_array_equal(back, filter_image(image, image_filter("box3")))
    with pytest.raises(ZeroDivisionError), mapped_output(target, image.shape, image.dtype):
        raise ZeroDivisionError
    assert sorted(os.listdir(tmp_path)) == [f"a{ending}", f"b{ending}"]
    np.testing.assert_array_equal(map_image(target).pixels, back)


def test_files_that_are_not_mapped(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "packed.tif", np.zeros((40, 40), np.uint8), compression="zlib")
    assert map_image(tmp_path / "packed.tif") is None
    (tmp_path / "damaged.tif").write_bytes(b"II*\0 nothing")
    assert map_image(tmp_path / "damaged.tif") is None
    assert map_image(tmp_path / "photo.png") is None
    np.save(tmp_path / "vector.npy", np.zeros(4, np.float32))
    with pytest.raises(InputError, match=r"no image: float32, shape \[4\]"):
        map_image(tmp_path / "vector.npy")
    (tmp_path / "text.npy").write_text("text")
    with pytest.raises(InputError, match="no image"):
        map_image(tmp_path / "text.npy")


def test_what_is_refused(tmp_path):
    for name, said in {
        "gausian5": "unknown filter 'gausian5'.*nearest: gaussian5",
        "gaussianN": "unknown filter",
        "box4": "a filter of 4 x 4.*odd side",
        "gaussian99": "a filter of 99 x 99",
        "box" + "9" * 5000: "a file's name is too long",
        "box9999999999": "unknown filter 'box9999999999'",
    }.items():
        with pytest.raises(InputError, match=said):
            image_filter(name)
    np.save(tmp_path / "bank.npy", np.zeros((2, 3, 3)))
    with pytest.raises(InputError, match="a kernel of shape"):
        image_filter(tmp_path / "bank.npy")
    image, box = np.zeros((4, 5, 3), np.uint8), image_filter("box3")
    with pytest.raises(InputError, match=r"unknown border 'miror'.*nearest: mirror"):
        filter_image(image, box, border="miror")
    with pytest.raises(InputError, match="a stride of 0"):
        filter_image(image, box, stride=0)
    with pytest.raises(InputError, match="an image of shape"):
        filter_image(image[0], box)
    with pytest.raises(InputError, match="out has the shape"):
        filter_image(image, box, out=image[1:])
    assert isinstance(box, ImageFilter)
