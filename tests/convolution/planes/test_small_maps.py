"""Small maps: one channel to one filter straight from the image, at stride 2, rows missing; folded maps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import InputError
from regweave.convolution import Conv2d
from regweave.convolution.planes.choice import choose
from regweave.convolution.planes.chosen import filter_shares, scratch_bytes
from regweave.convolution.planes.folds import Fold, fold, unfolded
from regweave.convolution.planes.strips import STRIP_BYTES
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

ISAS = [machine.name for machine in (AVX512, AVX2) if supports(machine)]


def inside(shape, random):
    """An image of that shape in a larger one that is NaN elsewhere."""
    *outer, height, width = shape
    around = np.full((*outer, height + 4, width + 6), np.nan, np.float32)
    x = around[..., 2 : 2 + height, 3 : 3 + width]
    x[...] = random.standard_normal(shape)
    return x


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_one_channel_to_one_filter_is_near_float64(isa, data):
    number = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    channels, filters = number(1, 9), number(1, 2)
    kernel = (number(1, 7), number(1, 7)) if data.draw(st.booleans()) else 2 * (2 * number(0, 3) + 1,)
    stride, dilation = (number(1, 3), number(1, 2)), (number(1, 2), number(1, 2))
    padding = tuple(number(0, 7) for _ in range(4))
    size = (kernel[0] * dilation[0] + number(0, 20), kernel[1] * dilation[1] + number(0, 60))
    random = np.random.default_rng(number(0, 99))
    x = inside((2, channels, *size), random)
    w = random.standard_normal((channels * filters, 1, *kernel)).astype(np.float32)
    bias = random.standard_normal(len(w)).astype(np.float32)
    c = convolution_of(x.shape, w.shape, strides=stride, dilations=dilation, padding=padding, groups=channels)
    layer = Conv2d(
        w, bias, stride=stride, dilation=dilation, padding=padding, groups=channels, isa=isa, threads=2
    )
    around = np.full((*c.out_shape[:2], c.out_shape[2] + 1, c.out_shape[3] + 2), 7, np.float32)
    y = around[..., : c.out_shape[2], : c.out_shape[3]]
    layer(x, out=y)
    bound = c.reference(np.abs(x), np.abs(w), np.abs(bias)) * 1e-6 + 1e-7
    assert (np.abs(y - c.reference(x, w, bias)) <= bound).all()
    assert (around[..., c.out_shape[2] :, :] == 7).all()
    assert (around[..., c.out_shape[3] :] == 7).all()


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
@pytest.mark.parametrize(("size", "stride"), [(7, 1), (14, 1), (14, 2), (56, 2), (112, 2)])
def test_nothing_is_copied_for_one_channel_of_a_group(machine, size, stride):
    c = convolution_of((1, 64, size, size), (64, 1, 3, 3), strides=stride, padding=1, groups=64)
    choice = choose(c, machine)
    assert choice.form == "none"
    assert choice.tile.direct
    assert not choice.tile.filled
    assert scratch_bytes(c, machine, choice) == 0
    assert choose(c, machine, form="none") == choice
    assert choose(c, machine, form="unrolled").tile.direct is False
    # every other element of rows whose elements are apart: by way of a strip
    assert choose(c, machine, neighbours=False).tile.direct is False


def test_weights_that_find_no_register_stay_in_memory():
    c = convolution_of((1, 64, 14, 14), (64, 1, 5, 5), strides=2, padding=2, groups=64)
    tile = choose(c, AVX512).tile
    assert tile.held_weights + tile.far_weights == 25
    assert 1 <= tile.far_weights <= 6
    assert tile.rows == 7


@pytest.mark.parametrize("isa", ISAS)
def test_form_none_at_stride_two_is_for_one_channel_of_a_group(isa):
    x, w = np.zeros((1, 2, 9, 9), np.float32), np.zeros((2, 1, 3, 3), np.float32)
    assert Conv2d(w, stride=2, groups=2, form="none", isa=isa)(x).shape == (1, 2, 4, 4)
    for weights, groups, extra in (
        (w.reshape(1, 2, 3, 3), 1, {}),
        (w, 2, {"order": "nhwc"}),
        (w, 2, {"stride": 3}),
    ):
        settings_ = {"stride": 2, "groups": groups, "form": "none", "isa": isa, **extra}
        image = x.transpose(0, 2, 3, 1).copy() if "order" in extra else x
        with pytest.raises(InputError, match=r"form none at stride"):
            Conv2d(weights, **settings_)(image)
    apart = np.zeros((1, 2, 9, 18), np.float32)[..., ::2]
    with pytest.raises(InputError, match=r"elements side by side"):
        Conv2d(w, stride=2, groups=2, form="none", isa=isa)(apart)
    assert Conv2d(w, stride=2, groups=2, isa=isa)(apart).shape == (1, 2, 4, 4)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stride", [1, 2])
def test_many_groups_in_many_threads_have_the_same_bits(isa, stride):
    random = np.random.default_rng(5)
    x = random.standard_normal((3, 66, 14, 14)).astype(np.float32)
    w = random.standard_normal((132, 1, 3, 3)).astype(np.float32)
    layers = [Conv2d(w, stride=stride, padding=1, groups=66, isa=isa, threads=n) for n in (1, 2, 3)]
    one, two, three = (layer(x) for layer in layers)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)
    c = convolution_of(x.shape, w.shape, strides=stride, padding=1, groups=66)
    assert np.abs(one - c.reference(x, w)).max() < 1e-5


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_not_finite_reaches_no_result_that_does_not_read_it(isa):
    x = np.zeros((1, 1, 14, 30), np.float32)
    x[0, 0, 0, 0], x[0, 0, 13, 29] = np.nan, np.inf
    y = Conv2d(np.ones((1, 1, 3, 3), np.float32), stride=2, padding=1, isa=isa)(x)[0, 0]
    assert np.isnan(y[0, 0])
    assert np.isinf(y[-1, -1])
    assert (y.ravel()[1:-1] == 0).all()


def test_lower_rows_stand_beside_upper_ones():
    seven = convolution_of((1, 1, 7, 7), (8, 1, 3, 3), padding=1)
    by = fold(seven, 4)
    assert (by.pitch, by.starts) == (8, (0, 3))
    assert [list(by.new_rows(number)) for number in range(2)] == [[0, 1, 2, 3], [1, 2, 3]]
    assert (unfolded(seven, by).vertical.outputs, unfolded(seven, by).horizontal.outputs) == (4, 15)
    halved = convolution_of((1, 1, 14, 14), (8, 1, 3, 3), strides=2, padding=1)
    assert fold(halved, 1) == Fold(1, 8, tuple(range(7)))
    assert unfolded(halved, None) is halved
    for rows in (0, 8):
        with pytest.raises(InputError, match="folds of"):
            fold(seven, rows)


def folded(data, isa):
    """A convolution of many channels on a small map: (image, weights, convolution, layer's settings)."""
    number = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    groups = number(1, 2)
    channels, filters = groups * number(9, 20), groups * number(4, 40)
    kernel, stride = (number(1, 5), number(1, 5)), (number(1, 2), number(1, 2))
    dilation, padding = (number(1, 2), number(1, 2)), tuple(number(0, 3) for _ in range(4))
    size = (kernel[0] * dilation[0] + number(0, 12), kernel[1] * dilation[1] + number(0, 12))
    random = np.random.default_rng(number(0, 99))
    x = inside((2, channels, *size), random)
    w = random.standard_normal((filters, channels // groups, *kernel)).astype(np.float32)
    settings_ = {"padding": padding, "groups": groups}
    c = convolution_of(x.shape, w.shape, strides=stride, dilations=dilation, **settings_)
    return x, w, c, {"stride": stride, "dilation": dilation, "isa": isa, **settings_}


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_folded_maps_are_near_float64(isa, data):
    x, w, c, settings_ = folded(data, isa)
    bias = np.arange(len(w), dtype=np.float32)
    around = np.full((*c.out_shape[:2], c.out_shape[2] + 1, c.out_shape[3] + 2), 7, np.float32)
    y = around[..., : c.out_shape[2], : c.out_shape[3]]
    layer = Conv2d(w, bias, activation=data.draw(st.sampled_from([None, "relu", "gelu"])), **settings_)
    layer(x, out=y)
    expected = c.reference(x, w, bias)
    for op in layer.epilogue:
        expected = op.reference(expected)
    bound = c.reference(np.abs(x), np.abs(w), np.abs(bias)).max() * 3e-6
    assert np.abs(y - expected).max() <= bound
    assert (around[..., c.out_shape[2] :, :] == 7).all()
    assert (around[..., c.out_shape[3] :] == 7).all()


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_threads_do_not_change_the_bits_of_folded_maps(isa, data):
    x, w, _, settings_ = folded(data, isa)
    one, two, three = (Conv2d(w, threads=n, **settings_)(x) for n in (1, 2, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize(
    ("size", "channels", "kernel", "stride", "form", "folds"),
    [
        (7, 512, 3, 1, "transformed", (0, 3)),
        (14, 256, 3, 2, "polyphase", tuple(range(7))),
        (14, 1024, 1, 2, "polyphase", tuple(range(7))),
    ],
)
def test_maps_of_seven_rows_fill_vectors(size, channels, kernel, stride, form, folds):
    c = convolution_of(
        (1, channels, size, size), (512, channels, kernel, kernel), strides=stride, padding=kernel // 2
    )
    choice = choose(c, AVX512)
    assert (choice.form, choice.fold.starts) == (form, folds)
    assert choice.tile.result_pieces > 1
    assert choose(c, AVX512, stream=True).fold is None  # results that pass the caches are whole lines
    assert choose(c, AVX512, dense=False).fold is None
    large = convolution_of((1, 16, 200, 200), (16, 16, 3, 3), padding=1)
    assert choose(large, AVX512).fold is None


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_fold(isa, value):
    x = np.ones((1, 16, 7, 7), np.float32)
    x[0, 3, 0, 6] = value
    y = Conv2d(np.ones((16, 16, 3, 3), np.float32), padding=1, isa=isa)(x)
    reached = np.zeros((7, 7), bool)
    reached[:2, 5:] = True
    assert (np.isfinite(y) == ~reached).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("groups", "kernel", "stride"), [(1, 1, 1), (1, 3, 1), (2, 3, 2), (1, 2, 2)])
def test_threads_share_the_filters_of_many_weights(isa, groups, kernel, stride):
    random = np.random.default_rng(7)
    x = random.standard_normal((2, 600, 6, 9)).astype(np.float32)
    w = random.standard_normal((200, 600 // groups, kernel, kernel)).astype(np.float32)
    settings_ = {"stride": stride, "padding": kernel // 2, "groups": groups, "isa": isa}
    alone, shared = (Conv2d(w, threads=n, **settings_) for n in (1, 3))
    y = alone(x)
    np.testing.assert_array_equal(y, shared(x))
    c = convolution_of(x.shape, w.shape, strides=stride, padding=kernel // 2, groups=groups)
    assert np.abs(y - c.reference(x, w)).max() < 1e-3
    many = filter_shares(c, choose(c, AVX512, threads=3), 3, units=99)
    assert many == (3 if w.nbytes // groups > STRIP_BYTES and 200 // groups >= 96 else 1)
