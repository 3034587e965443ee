"""Small maps: one channel to one filter straight from the image, at stride 2 too, with rows that are missing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import InputError
from regweave.convolution import Conv2d
from regweave.convolution.choice import choose, scratch_bytes
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


def test_form_none_at_stride_two_is_for_one_channel_of_a_group():
    x, w = np.zeros((1, 2, 9, 9), np.float32), np.zeros((2, 1, 3, 3), np.float32)
    assert Conv2d(w, stride=2, groups=2, form="none")(x).shape == (1, 2, 4, 4)
    for weights, groups, extra in (
        (w.reshape(1, 2, 3, 3), 1, {}),
        (w, 2, {"order": "nhwc"}),
        (w, 2, {"stride": 3}),
    ):
        settings_ = {"stride": 2, "groups": groups, "form": "none", **extra}
        image = x.transpose(0, 2, 3, 1).copy() if "order" in extra else x
        with pytest.raises(InputError, match=r"form none at stride"):
            Conv2d(weights, **settings_)(image)


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
