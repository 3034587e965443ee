"""Transformed rows: the algebra, results as near to float64 as a sum, and values that must not spread."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import InputError
from regweave.convolution import Conv2d
from regweave.convolution.planes.choice import choose
from regweave.convolution.planes.strips import strip_bytes
from regweave.kernels.convolution import Transform, transform
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]
SMALL = st.integers(-9, 9)


@given(st.integers(1, 3), st.integers(2, 3), st.integers(1, 2), st.data())
def test_products_of_transformed_rows_are_the_filter_exactly(outputs, taps, stride, data):
    t = Transform(outputs, taps + 2 * stride - 2 if data.draw(st.booleans()) else taps, stride)
    taps = t.taps
    rows = data.draw(st.lists(SMALL, min_size=t.image_rows, max_size=t.image_rows))
    filters = data.draw(st.lists(SMALL, min_size=taps, max_size=taps))
    forward = [sum((c * r for c, r in zip(row, rows, strict=True)), Fraction(0)) for row in t.forward_rows]
    weights = [sum((c * f for c, f in zip(row, filters, strict=True)), Fraction(0)) for row in t.filter_rows]
    products = [w * v for w, v in zip(weights, forward, strict=True)]
    results = [
        sum((c * p for c, p in zip(row, products, strict=True)), Fraction(0)) for row in t.inverse_rows
    ]
    assert results == [sum(filters[k] * rows[i * stride + k] for k in range(taps)) for i in range(outputs)]


def test_four_results_of_three_taps_take_six_products():
    t = transform(4, 3)
    assert t.products == 6
    assert t.forward.shape == t.filter.shape[:1] * 2
    assert t.inverse.shape == (4, 6)


def test_rows_two_apart_are_transformed_by_phases():
    for outputs, taps, products in ((3, 3, 4 + 3), (2, 5, 4 + 3), (2, 7, 5 + 4)):
        t = transform(outputs, taps, 2)
        assert (t.products, [phase.products for phase in t.phases]) == (
            products,
            [products - products // 2, products // 2],
        )
        assert t.forward.shape == (products, t.image_rows)
        assert t.filter.shape == (products, taps)
    single = transform(3, 3, 2).phases[1]
    assert (single.forward == np.eye(3)).all()
    assert (single.filter == 1).all()


@pytest.mark.parametrize("channels", [16, 32])
def test_a_large_image_s_strips_leave_most_of_the_core_s_cache_to_others(channels):
    """Where that is room for 512 columns; of 32 channels narrower ones would fetch weights too often."""
    c = convolution_of((1, channels, 8192, 8192), (channels, channels, 3, 3), padding=1)
    choice = choose(c, AVX512)
    assert choice.form == "transformed"
    size = strip_bytes(c, AVX512, choice.form, choice.strip_columns, 4)
    assert choice.strip_columns >= 512
    assert (size <= 256 * 1024) == (channels == 16)


@pytest.mark.parametrize(
    ("channels", "size", "narrow"), [(8, 1920, True), (16, 320, True), (32, 512, True), (128, 56, False)]
)
def test_of_16_registers_strips_are_a_quarter_of_the_core_s_cache(channels, size, narrow):
    """Where that is room for 40 columns: narrower ones of many channels would fetch weights too often."""
    c = convolution_of((1, channels, size, size), (channels, channels, 3, 3), padding=1)
    choice = choose(c, AVX2)
    assert choice.form == "transformed"
    taken = strip_bytes(c, AVX2, choice.form, choice.strip_columns, choice.band_rows)
    assert (taken <= 128 * 1024) == narrow
    assert choice.strip_columns >= 40


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("stride", "kernel"), [(1, 4), (1, 5), (2, 3), (2, 5), (2, 7)])
def test_transformed_rows_are_as_near_to_float64_as_the_sum(isa, stride, kernel):
    random = np.random.default_rng(kernel)
    x = random.standard_normal((1, 24, 30, 44)).astype(np.float32)
    w = random.standard_normal((8, 24, kernel, kernel)).astype(np.float32)
    c = convolution_of(x.shape, w.shape, strides=stride, padding=kernel // 2)
    exact, errors = c.reference(x, w), []
    for form in ("transformed", "none" if stride == 1 else "polyphase"):
        y = Conv2d(w, stride=stride, padding=kernel // 2, form=form, isa=isa)(x)
        errors.append(np.sqrt(np.mean((y - exact) ** 2)))
    assert errors[0] < 1.25 * errors[1]


@pytest.mark.parametrize("isa", ISAS)
def test_long_sums_of_transformed_rows_are_made_in_pieces(isa):
    """Of 64 channels of images that are not negative: in one chain the error would be twice as large."""
    random = np.random.default_rng(1)
    x = np.abs(random.standard_normal((1, 64, 20, 40), np.float32)) + np.float32(0.5)
    w = random.standard_normal((16, 64, 3, 3), np.float32)
    exact, errors = convolution_of(x.shape, w.shape, padding=1).reference(x, w), []
    for form in ("transformed", "none"):
        errors.append(np.sqrt(np.mean((Conv2d(w, padding=1, form=form, isa=isa)(x) - exact) ** 2)))
    assert errors[0] < 0.6 * errors[1]


def test_six_products_round_little_more_than_the_plain_sum():
    random, t, count = np.random.default_rng(0), transform(4, 3), 288
    rows = random.standard_normal((count, t.products, 4096), dtype=np.float32)
    taps = random.standard_normal((count, 3), dtype=np.float32)
    exact = sum(np.stack([taps[:, k].astype(float) @ rows[:, i + k] for i in range(4)]) for k in range(3))
    made = np.einsum("pr,krx->kpx", t.forward.astype(np.float32), rows, dtype=np.float32)
    weights = (taps.astype(np.float64) @ t.filter.T).astype(np.float32)
    products, plain = np.zeros((t.products, 4096), np.float32), np.zeros((4, 4096), np.float32)
    for k in range(count):
        products += weights[k][:, None] * made[k]
        for i in range(4):
            for tap in range(3):
                plain[i] += taps[k, tap] * rows[k, i + tap]
    ours = np.sqrt(np.mean((t.inverse.astype(np.float32) @ products - exact) ** 2))
    assert ours < 1.6 * np.sqrt(np.mean((plain - exact) ** 2))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_size_is_near_float64(isa, data):
    groups = data.draw(st.sampled_from([1, 1, 2]))
    channels, filters = groups * data.draw(st.integers(1, 9)), groups * data.draw(st.integers(1, 9))
    down = data.draw(st.integers(1, 2))
    rows = data.draw(st.sampled_from([2, 3, 4, 5] if down == 1 else [3, 5, 7]))
    kernel = rows, data.draw(st.integers(1, 5))
    height, width = data.draw(st.integers(kernel[0] + down, 25)), data.draw(st.integers(kernel[1], 70))
    padding = tuple(data.draw(st.integers(0, 2)) for _ in range(4))
    stride = (down, data.draw(st.integers(1, 3)))
    x = np.random.default_rng(height).standard_normal((2, channels, height, width)).astype(np.float32)
    w = (
        np.random.default_rng(width)
        .standard_normal((filters, channels // groups, *kernel))
        .astype(np.float32)
    )
    bias = np.arange(filters, dtype=np.float32)
    c = convolution_of(x.shape, w.shape, strides=stride, padding=padding, groups=groups)
    layer = Conv2d(w, bias, stride=stride, padding=padding, groups=groups, form="transformed", isa=isa)
    # a result rounds as the largest of its group does
    bound = c.reference(np.abs(x), np.abs(w), bias).max() * 3e-6
    assert np.abs(layer(x) - c.reference(x, w, bias)).max() <= bound


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_not_finite_stays_in_the_rows_that_read_it(isa, value):
    random = np.random.default_rng(3)
    x = random.standard_normal((1, 3, 40, 40)).astype(np.float32)
    x[0, 1, 7, 9] = value
    w = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    with np.errstate(all="ignore"):
        results = [Conv2d(w, padding=1, form=form, isa=isa)(x) for form in ("transformed", "none")]
    assert np.array_equal(*results, equal_nan=True)
    assert np.isfinite(results[0][:, :, [*range(6), *range(9, 40)]]).all()


@pytest.mark.parametrize("isa", ISAS)
def test_finite_results_never_take_the_other_kernel(isa, monkeypatch):
    """Whatever lay before in the memory that parts leave word in."""
    full = lambda size: np.full(size // 4, np.nan, np.float32).view(np.uint8)  # noqa: E731
    monkeypatch.setattr("regweave.convolution.pool.aligned_bytes", full)
    x = np.ones((1, 3, 40, 40), np.float32)
    layer = Conv2d(np.ones((4, 3, 3, 3), np.float32), isa=isa, form="transformed", threads=2)
    dense = layer.dense(x.shape)
    y = np.empty(dense.out_shape, np.float32)
    assert dense.native.run(x.ctypes.data, y.ctypes.data, dense.packed)
    assert np.abs(y - 27).max() < 1e-5


@pytest.mark.parametrize("isa", ISAS)
def test_what_cannot_be_transformed_is_refused_by_name(isa):
    x = np.zeros((1, 1, 20, 20), np.float32)
    for kernel, settings_ in ((6, {}), (2, {"stride": 2}), (3, {"stride": 3}), (3, {"dilation": 2})):
        weights = np.zeros((1, 1, kernel, kernel), np.float32)
        layer = Conv2d(weights, form="transformed", isa=isa, **settings_)
        with pytest.raises(InputError, match=r"form transformed for a kernel of .* rows"):
            layer(x)
    with pytest.raises(InputError, match="1 results in a column"):
        Conv2d(np.zeros((1, 1, 3, 3), np.float32), form="transformed", isa=isa)(x[:, :, :3])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("order", ["nchw", "nhwc"])
@pytest.mark.parametrize(("channels", "kernel", "stride"), [(1, 5, 1), (16, 3, 1), (3, 7, 2)])
def test_weights_near_the_largest_float_are_summed_one_by_one(isa, order, channels, kernel, stride):
    """Sums of them would overflow, where results do not."""
    random = np.random.default_rng(kernel)
    filters = 1 if channels == 1 else 8
    weights = np.full((filters, channels, kernel, kernel), 3e38, np.float32)
    x = random.uniform(-1, 1, (1, channels, 24, 400)).astype(np.float32) / weights[0].size
    layer = Conv2d(weights, stride=stride, padding=kernel // 2, order=order, threads=1, isa=isa)
    y = layer(x if order == "nchw" else np.ascontiguousarray(np.moveaxis(x, 1, -1)))
    y = y if order == "nchw" else np.moveaxis(y, -1, 1)
    small = Conv2d(weights / np.float32(2.0**100), stride=stride, padding=kernel // 2, threads=1, isa=isa)
    assert np.abs(y / 2.0**100 - small(x)).max() <= 1e-5 * np.abs(small(x)).max()
