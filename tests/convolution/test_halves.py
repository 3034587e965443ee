"""float16 images: summed in float32, whatever bands the rows are cut into, and narrowed once."""

import numpy as np
import pytest

import regweave
from regweave import InputError
from regweave.convolution import halves
from regweave.operators import convolution_of

random = np.random.default_rng(5)


def data(x_shape, w_shape):
    x = random.standard_normal(x_shape).astype(np.float16)
    return x, random.standard_normal(w_shape).astype(np.float16) / np.float16(4)


def check(y, c, x, w, bias=None):
    expected = c.reference(x, w, bias)
    assert y.dtype == np.float16
    assert y.shape == expected.shape
    # the sums are float32 ones, so all that is lost is lost by narrowing once: half a unit in the last place
    spacing = np.spacing(np.abs(expected).astype(np.float16)).astype(np.float64)
    assert (np.abs(y.astype(np.float64) - expected) <= 0.51 * spacing + 1e-5).all()


@pytest.mark.parametrize("band", [1, 1 << 12, 1 << 20])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "settings"),
    [
        ((2, 3, 40, 33), (5, 3, 3, 3), {"padding": 1}),
        ((1, 4, 31, 20), (4, 1, 5, 2), {"padding": (4, 1, 2, 0), "strides": (2, 3), "groups": 4}),
        ((1, 2, 9, 17), (3, 2, 2, 2), {"padding": (7, 3, 8, 5), "dilations": (3, 2)}),
        ((1, 2, 50), (4, 2, 7), {"padding": 3}),
    ],
)
def test_sums_are_those_of_float32_in_any_bands(band, x_shape, w_shape, settings, monkeypatch):
    monkeypatch.setattr(halves, "_BAND_BYTES", band)
    c = convolution_of(x_shape, w_shape, **settings)
    x, w = data(x_shape, w_shape)
    bias = random.standard_normal(w_shape[0]).astype(np.float16)
    names = {"strides": "stride", "dilations": "dilation"}
    y = regweave.conv2d(x, w, bias, **{names.get(key, key): value for key, value in settings.items()})
    check(y, c, x, w, bias)


def test_long_sums_keep_what_float16_would_lose():
    x, w = np.full((1, 64, 8, 8), 8, np.float16), np.full((1, 64, 3, 3), 0.125, np.float16)
    x[0, 0, 4, 4] = 0.25
    assert regweave.conv2d(x, w, padding=1)[0, 0, 4, 4] == np.float16(575 + 0.03125)


def test_memory_of_any_layout_and_results_of_ones_own():
    x, w = data((1, 20, 21, 6), (8, 6, 3, 3))
    layer = regweave.Conv2d(w, order="nhwc", padding=1, activation="relu")
    out = np.empty((1, 20, 42, 8), np.float16)[:, ::-1, ::2]
    assert layer(x, out=out) is out
    planes = np.moveaxis(x, -1, 1)
    expected = np.maximum(convolution_of(planes.shape, w.shape, padding=1).reference(planes, w), 0)
    np.testing.assert_allclose(np.moveaxis(out, -1, 1), expected, rtol=6e-4, atol=1e-5)
    same = np.random.default_rng(1).standard_normal((1, 1, 30, 30)).astype(np.float16)
    kernel, before = np.ones((1, 1, 3, 3), np.float16), same.copy()
    assert regweave.conv2d(same, kernel, padding=1, out=same) is same
    check(same, convolution_of(same.shape, kernel.shape, padding=1), before, kernel)


def test_what_is_too_large_for_float16_is_infinite_and_spreads_no_further():
    x, w = np.ones((1, 1, 9, 9), np.float16), np.full((4, 1, 3, 3), 3, np.float16)
    x[0, 0, 4, 4] = 60000
    y = regweave.conv2d(x, w, padding=1)
    assert np.isinf(y[0, :, 3:6, 3:6]).all()
    assert np.isfinite(y).sum() == 4 * (81 - 9)


def test_kinds_of_numbers_are_not_mixed():
    x, w = data((1, 1, 9, 9), (1, 1, 3, 3))
    with pytest.raises(InputError, match="float16, as those of x"):
        regweave.conv2d(x, w, out=np.empty((1, 1, 7, 7), np.float32))
    with pytest.raises(InputError, match="float32"):
        regweave.conv2d(x.astype(np.float32), w, out=np.empty((1, 1, 7, 7), np.float16))
    with pytest.raises(InputError, match="float32 or float16"):
        regweave.conv2d(x.astype(np.float64), w)


def test_halves_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w = data((1, 2, 12, 13), (3, 2, 3, 3))
    y = regweave.conv2d(torch.from_numpy(x), torch.from_numpy(w))
    assert y.dtype == torch.float16
    check(y.numpy(), convolution_of(x.shape, w.shape), x, w)
