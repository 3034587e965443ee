"""Images times matrices: on the CPU and in the emulator, every type and precision, and what is refused."""

import numpy as np
import pytest

import regweave
from regweave import InputError
from regweave.images import filter_bank, image_gemm, operation
from regweave.images.precision import quantise
from regweave.images.product import MACHINES

GPUS = MACHINES[1:]


def photo(height=37, width=53, channels=3, dtype=np.uint8):
    y, x, c = np.mgrid[:height, :width, :channels]
    waves = np.sin(x / 5 + c) * np.cos(y / 7 - c) * 0.5 + 0.5
    noise = np.random.default_rng(3).random(waves.shape)
    return ((0.8 * waves + 0.2 * noise) * (255 if dtype == np.uint8 else 65535)).astype(dtype)


def exact(image, matrix):
    matrix = np.asarray(matrix, np.float64)
    channels = image.shape[-1]
    constants = matrix[:, channels] if matrix.shape[1] > channels else 0
    return image.astype(np.float64) @ matrix[:, :channels].T + constants


@pytest.mark.parametrize("machine", MACHINES)
def test_sepia_is_the_same_everywhere(machine):
    image, matrix = photo(), operation("sepia").matrix
    product = regweave.image_gemm(image, matrix, machine=machine, result="image")
    wanted = np.clip(np.rint(exact(image, matrix)), 0, 255)
    assert product.pixels.dtype == np.uint8
    assert np.abs(product.pixels - wanted).max() <= 1
    assert (product.pixels != wanted).mean() < 0.001  # halves that f32 rounds to the other side
    assert product.machine == machine
    assert machine in product.device


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize(("channels", "results", "constant"), [(3, 3, True), (1, 2, False), (7, 5, True)])
def test_types_and_sizes(dtype, channels, results, constant):
    image = photo(channels=channels, dtype=dtype)
    matrix = np.random.default_rng(4).normal(size=(results, channels + constant))
    got = image_gemm(image, matrix, threads=2)
    np.testing.assert_allclose(got, exact(image, matrix), rtol=1e-4, atol=1e-2)
    assert np.asarray(got, np.float64).dtype == np.float64


def test_many_pixels_on_several_threads_and_a_rest():
    image = photo(500, 601)
    matrix = operation("ycbcr").for_range(255)
    one = image_gemm(image, matrix, threads=1, result=np.uint8).pixels
    np.testing.assert_array_equal(one, image_gemm(image, matrix, threads=3, result="image").pixels)
    assert np.abs(one - np.clip(np.rint(exact(image, matrix)), 0, 255)).max() <= 1


@pytest.mark.parametrize("machine", MACHINES)
def test_int8_is_exact_where_the_matrix_is_whole(machine):
    image, matrix = photo(9, 11), [[1, 2, 3], [-7, 0, 127], [0, 0, 0]]
    got = image_gemm(image, matrix, machine=machine, precision="i8")
    np.testing.assert_array_equal(got, exact(image, matrix))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("precision", ["f16", "i8"])
def test_fewer_bits_lose_no_more_than_they_must(machine, precision):
    image = photo(16, 20)
    matrix = np.random.default_rng(5).normal(size=(6, 3))
    error = np.abs(image_gemm(image, matrix, machine=machine, precision=precision) - exact(image, matrix))
    if precision == "i8":
        step = quantise(np.asarray(matrix, np.float32)).scale
        assert (error <= step / 2 * image.sum(axis=-1, keepdims=True) + 1e-3).all()
    else:
        assert (error <= 2.0**-11 * (image @ np.abs(matrix).T) + 1e-3).all()


def test_int8_on_the_cpu_is_exact_beyond_what_f32_holds():
    image = np.full((1, 3, 2000), 255, np.uint8)
    np.testing.assert_array_equal(
        image_gemm(image, np.full((1, 2000), 127), precision="i8"), 255.0 * 127 * 2000
    )


@pytest.mark.parametrize("shift", [0, 4, 36, 2])
@pytest.mark.parametrize("results", [1, 3, 4])
def test_results_that_pass_the_caches(monkeypatch, shift, results):
    monkeypatch.setattr("regweave.images.native.STREAM_BYTES", 1)
    image, matrix = photo(7, 31), np.random.default_rng(8).normal(size=(results, 3))
    memory = np.zeros(4 * 7 * 31 * results + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    out = memory[start : start + 4 * 7 * 31 * results].view(np.float32).reshape(7, 31, results)
    image_gemm(image, matrix, out=out)
    np.testing.assert_allclose(out, exact(image, matrix), rtol=1e-4, atol=1e-2)


def test_grey_images_have_one_channel_without_an_axis():
    image = photo()[..., 0]
    got = image_gemm(image, [[-1, 255]], result="image")
    np.testing.assert_array_equal(got.pixels[..., 0], 255 - image)


def test_odd_memory_and_empty_images():
    image = photo()[::-2, ::3, ::-1]
    np.testing.assert_allclose(image_gemm(image, np.eye(3)), image)
    for machine in MACHINES:
        assert image_gemm(image[:0], np.eye(3), machine=machine).pixels.shape == (0, image.shape[1], 3)


@pytest.mark.parametrize("machine", ["cpu", "gfx942"])
def test_a_nan_stays_with_its_pixel(machine):
    image = np.ones((1, 300, 3), np.float32)
    image[0, 17] = np.nan
    got = image_gemm(image, np.eye(3), machine=machine).pixels
    assert np.isnan(got[0, 17]).all()
    assert (np.delete(got[0], 17, axis=0) == 1).all()
    assert image_gemm(image, np.eye(3), machine=machine, result=np.uint8).pixels[0, 17].tolist() == [0, 0, 0]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_result_in_memory_of_ones_own(machine):
    image = photo()
    out = np.zeros_like(image)
    assert image_gemm(image, np.eye(3), machine=machine, result="image", out=out).pixels is out
    np.testing.assert_array_equal(out, image)
    with pytest.raises(InputError, match="out lies in the image's memory"):
        image_gemm(image, np.eye(3), machine=machine, result="image", out=image)


@pytest.mark.parametrize("machine", MACHINES)
def test_progress_reaches_the_end(machine):
    seen = []
    image_gemm(photo(90, 100), np.eye(3), machine=machine, progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (9000, 9000)


@pytest.mark.parametrize("machine", ["cpu", "gfx90a"])
def test_a_bank_of_filters(machine):
    image, bank = photo(20, 23), np.random.default_rng(6).normal(size=(4, 3, 5))
    got = filter_bank(image, bank, machine=machine).pixels
    padded = np.pad(image.mean(axis=2), ((1, 1), (2, 2)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 5))
    np.testing.assert_allclose(got, np.einsum("yxhw,nhw->yxn", windows, bank), rtol=1e-3, atol=1e-2)
    coarse = filter_bank(image, np.repeat(bank[..., None], 3, axis=3) / 3, stride=2, machine=machine).pixels
    np.testing.assert_allclose(coarse, got[::2, ::2], rtol=1e-3, atol=1e-2)


def test_banks_in_bands(monkeypatch):
    image, bank = photo(40, 30), np.random.default_rng(7).normal(size=(3, 4, 4))
    whole = filter_bank(image, bank, stride=3).pixels
    seen = []
    monkeypatch.setattr("regweave.images.windows._BAND", 1)
    banded = filter_bank(image, bank, stride=3, progress=lambda done, rows: seen.append(done / rows)).pixels
    np.testing.assert_allclose(banded, whole, rtol=1e-5, atol=1e-3)
    assert len(seen) == 14
    assert seen[-1] == 1


def test_a_gpu_that_is_here_is_taken(monkeypatch):
    ran = []

    def run(kernel, *, grid, arguments):
        ran.append((kernel.name, grid))
        arguments["c"][...] = arguments["a"] @ arguments["b"].T

    monkeypatch.setattr("regweave.devices.hip.device_reason", lambda machine: None)
    monkeypatch.setattr("regweave.devices.hip.run", run)
    product = image_gemm(photo(), np.eye(3), machine="gfx90a")
    assert product.device == "hip (gfx90a)"
    assert ran == [("product_f32_128x32", (16, 1, 1))]
    np.testing.assert_array_equal(product, photo())


def test_patches():
    image = photo(9, 8)
    rows = regweave.patches(image, (3, 2), stride=2)
    assert rows.shape == (4, 4, 18)
    np.testing.assert_array_equal(rows[1, 3], image[2:5, 6:8].ravel())
    with pytest.raises(InputError, match=r"the image is 9 x 8 .*at least a patch, 9 x 9"):
        regweave.patches(image, 9)
    with pytest.raises(InputError, match="a size of 0"):
        regweave.patches(image, (0, 1))
    with pytest.raises(InputError, match="a stride of 0"):
        regweave.patches(image, 2, stride=0)


@pytest.mark.parametrize(
    ("image", "matrix", "options", "said"),
    [
        (photo(), np.eye(5), {}, "5 columns and the image 3 channels"),
        (photo(), np.zeros((0, 3)), {}, "the shape is"),
        (photo().astype(np.int32), np.eye(3), {}, "pixels of type int32"),
        (photo().astype(np.uint32), np.eye(3), {}, "8 or 16 bits"),
        (photo() > 1, np.eye(3), {}, "pixels of type bool"),
        (photo(), np.eye(3), {"machine": "gfx90"}, "unknown machine 'gfx90'.*nearest: gfx90a"),
        (photo(), np.eye(3), {"precision": "f8"}, "unknown precision 'f8'"),
        (photo(dtype=np.uint16), np.eye(3), {"precision": "i8"}, "products of i8 on pixels of uint16"),
        (photo(), np.eye(3), {"result": "int"}, "result 'int'"),
        (photo(), np.eye(3), {"result": np.int8}, "result <class"),
        (photo(), np.eye(3), {"threads": 0}, "0 threads"),
        (photo(), np.eye(3), {"out": photo()}, "out has the shape .* float32"),
        (photo(), np.eye(3), {"out": photo()[:, ::-1], "result": "image"}, "a contiguous array"),
    ],
)
def test_what_is_refused(image, matrix, options, said):
    with pytest.raises(InputError, match=said):
        image_gemm(image, matrix, **options)


@pytest.mark.parametrize(
    ("bank", "options", "said"),
    [
        (np.ones((3, 3)), {}, "the shape is"),
        (np.ones((1, 3, 3, 2)), {}, "2 channels and the image 3"),
        (np.ones((1, 3, 3)), {"stride": 0}, "a stride of 0"),
    ],
)
def test_banks_that_are_refused(bank, options, said):
    with pytest.raises(InputError, match=said):
        filter_bank(photo(), bank, **options)
    with pytest.raises(InputError, match="the shape is"):
        filter_bank(np.zeros(3), np.ones((1, 3, 3)))
