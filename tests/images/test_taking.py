"""What callers give that is none: sizes, strides, matrices, arrays to write to, kernels, pictures."""

import numpy as np
import pytest

from regweave import InputError, image_gemm, patches
from regweave.images import (
    ImageFilter,
    Picture,
    contact_sheet,
    filter_bank,
    filter_image,
    image_filter,
    principal_matrix,
    show_planes,
)
from regweave.images.taking import check_out, real_matrix, whole_number

IMAGE = np.random.default_rng(3).integers(0, 256, (20, 30, 3), dtype=np.uint8)
BOX = np.ones((1, 3, 3), np.float32)


@pytest.mark.parametrize("stride", [0, -1, 1.5, "2", None])
def test_strides(stride):
    for call in (
        lambda: patches(IMAGE, 3, stride),
        lambda: filter_bank(IMAGE, BOX, stride=stride),
        lambda: filter_image(IMAGE, image_filter("box3"), stride=stride),
    ):
        with pytest.raises(InputError, match=r"a stride of .*a whole number of 1 or more"):
            call()


@pytest.mark.parametrize("kernel", [BOX, None, 5, ["box3"]])
def test_filters_that_are_none(kernel):
    with pytest.raises(InputError, match=f"^{type(kernel).__name__} is no filter.*'gaussian5'.*conv2d"):
        filter_image(IMAGE, kernel)


def test_numbers_of_any_integer_type():
    assert whole_number(np.uint8(7), "size") == 7
    assert patches(IMAGE, np.int64(3), np.int32(2)).shape == (9, 14, 27)
    np.testing.assert_array_equal(patches(IMAGE, [2, np.int8(3)]), patches(IMAGE, (2, 3)))
    for size, said in {2.5: "a size of 2.5", "3": "a size of '3'", None: "a size of None"}.items():
        with pytest.raises(InputError, match=said):
            patches(IMAGE, size)
    with pytest.raises(InputError, match="a size of 3 numbers"):
        patches(IMAGE, (2, 3, 4))


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ("x", "elements of type <U1"),
        ([[1], [2, 3]], "no matrix"),
        (np.eye(3) * 1j, "elements of type complex128"),
        (np.array([[{}]], object), "elements of type object"),
        (np.eye(3) * 1e300, "elements that f32 does not hold"),
    ],
)
def test_matrices(matrix, said):
    with pytest.raises(InputError, match=said):
        image_gemm(IMAGE, matrix)
    with pytest.raises(InputError, match=said):
        filter_bank(IMAGE, matrix)


def test_images_without_channels():
    for matrix in ([[1]], [[1, 2, 3]]):
        with pytest.raises(InputError, match="without channels"):
            image_gemm(np.zeros((8, 5, 0), np.uint8), matrix)


def test_what_is_no_number_has_no_steps():
    matrix = np.full((3, 3), np.nan)
    assert np.isnan(real_matrix(matrix, "matrix")).all()
    assert np.isnan(image_gemm(IMAGE, matrix).pixels).all()
    with pytest.raises(InputError, match="not all elements are finite"):
        image_gemm(IMAGE, matrix, precision="i8")


def test_arrays_to_write_to():
    fixed = np.frombuffer(IMAGE.tobytes(), np.uint8).reshape(IMAGE.shape)
    for call in (
        lambda out: image_gemm(IMAGE, np.eye(3), result="image", out=out),
        lambda out: filter_image(IMAGE, image_filter("box3"), out=out),
    ):
        with pytest.raises(InputError, match="cannot be written to"):
            call(fixed)
        with pytest.raises(InputError, match="out lies in the image's memory"):
            call(IMAGE)
        with pytest.raises(InputError, match=r"out has the shape \[1\] and type list"):
            call([1])
    np.testing.assert_array_equal(fixed, IMAGE)
    check_out(np.zeros((2, 3), np.uint16), (2, 3), np.dtype(np.uint16), IMAGE)


@pytest.mark.parametrize(
    "kernels", [BOX[0], BOX.astype(float), BOX[:0], np.ones((1, 64, 3), np.float32), [[[1]]]]
)
def test_kernels(kernels):
    with pytest.raises(InputError, match="kernels of shape"):
        ImageFilter("mine", kernels)


@pytest.mark.parametrize("pixels", [[[[1]]], IMAGE > 3, IMAGE.astype(float), IMAGE[:0], IMAGE[..., :2]])
def test_pictures(pixels):
    with pytest.raises(InputError, match=r"pixels of shape .*uint8, uint16 or float32"):
        Picture(pixels)


def test_planes_and_components_of_nothing():
    assert show_planes([[[1.0]]]).tolist() == [[[255]]]
    for call in (lambda: show_planes([[1]]), lambda: contact_sheet(np.zeros((0, 3, 3), np.uint8))):
        with pytest.raises(InputError, match="the shape is"):
            call()
    for rows in (IMAGE[:0], IMAGE[0, 0, 0]):
        with pytest.raises(InputError, match="the shape is"):
            principal_matrix(rows)
    for count in (0, -1, 1.5):
        with pytest.raises(InputError, match="a count of"):
            principal_matrix(IMAGE, count)


def test_images_of_other_forms():
    wanted = filter_image(IMAGE, image_filter("gaussian5"))
    for image in (IMAGE[::-1, ::-1].copy()[::-1, ::-1], np.asfortranarray(IMAGE)):
        np.testing.assert_array_equal(filter_image(image, image_filter("gaussian5")), wanted)
    with pytest.raises(InputError, match="int64"):
        filter_image(IMAGE.tolist(), image_filter("box3"))
