"""A convolution against a sum written out, its axes against every place, and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import InputError
from regweave.operators import Axis, Convolution, convolution_of

small = st.integers(1, 4)
axes = st.builds(
    Axis, st.integers(1, 9), st.integers(1, 5), st.integers(1, 6), small, st.integers(0, 6), st.integers(0, 6)
)


@given(axes)
@settings(max_examples=400, deadline=None)
def test_an_axis_agrees_with_its_places(axis):
    outputs = range(max(0, axis.outputs))
    held = {(o, k): 0 <= axis.place(o, k) < axis.size for o in outputs for k in range(axis.kernel)}
    for tap in range(axis.kernel):
        assert [*axis.inside(tap)] == [o for o in outputs if held[o, tap]]
    assert axis.products == sum(held.values())
    for o in outputs:
        assert [*axis.taps(o)] == [k for k in range(axis.kernel) if held[o, k]]
    assert [*axis.interior] == [o for o in outputs if all(held[o, k] for k in range(axis.kernel))]
    if outputs:
        last = axis.place(outputs[-1], axis.kernel - 1)
        assert last < axis.size + axis.after <= last + axis.stride
    neighbours = [{axis.place(o, 0) + at for at in range(axis.span)} for o in (0, 1)]
    assert axis.overlap == len(neighbours[0] & neighbours[1])


@given(axes, st.data())
@settings(max_examples=300, deadline=None)
def test_a_band_of_an_axis_reads_the_same_places(axis, data):
    if axis.outputs < 1:
        return
    first = data.draw(st.integers(0, axis.outputs - 1))
    stop = data.draw(st.integers(first + 1, axis.outputs))
    band, places = axis.band(first, stop)
    assert band.outputs == stop - first
    assert len(places) in (0, band.size)
    for output in range(first, stop):
        for tap in range(axis.kernel):
            there, here = axis.place(output, tap), band.place(output - first, tap)
            if 0 <= there < axis.size:
                assert here == there - places.start
            else:  # padding, or the one place that holds zeros
                assert not 0 <= here < len(places)


def written_out(c, image, weights, bias):
    """One sum after another, with zeros around the image."""
    top, left, bottom, right = c.pads
    padded = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
    result = np.empty(c.out_shape)
    deep = c.group_channels
    down, along = c.axes
    for b, f, y, x in np.ndindex(*c.out_shape):
        first = f // c.group_filters * deep
        part = padded[
            b, first : first + deep, y * down.stride :: down.dilation, x * along.stride :: along.dilation
        ][:, : down.kernel, : along.kernel]
        result[b, f, y, x] = (part * weights[f]).sum() + bias[f]
    return result


@given(
    groups=st.integers(1, 3),
    shares=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    down=axes,
    along=axes,
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_the_reference_is_the_sum(groups, shares, down, along, seed):
    if min(down.outputs, along.outputs) < 1:
        with pytest.raises(InputError, match="has no output"):
            Convolution(1, groups, groups, down, along, groups)
        return
    c = Convolution(2, groups * shares[0], groups * shares[1], down, along, groups)
    rng = np.random.default_rng(seed)
    image, weights = rng.standard_normal(c.image_shape), rng.standard_normal(c.weights_shape)
    bias = rng.standard_normal(c.filters)
    found = c.reference(image, weights, bias)
    np.testing.assert_allclose(found, written_out(c, image, weights, bias), rtol=1e-12, atol=1e-12)
    ones = c.reference(np.ones(c.image_shape), np.ones(c.weights_shape))
    assert ones.sum() == c.products


def test_padding_adds_nothing_beside_nan_and_inf():
    c = convolution_of((1, 1, 3, 3), (1, 1, 3, 3), padding=1)
    image = np.ones((1, 1, 3, 3))
    image[0, 0, 0, 0], image[0, 0, 2, 2] = np.nan, np.inf
    found = c.reference(image, np.ones((1, 1, 3, 3)))[0, 0]
    assert np.isnan(found[:2, :2]).all()
    assert (found[[1, 2, 2], [2, 1, 2]] == np.inf).all()
    assert found[0, 2] == found[2, 0] == 4


@pytest.mark.parametrize(
    ("image", "weights", "options", "pads", "out"),
    [
        ((1, 3, 224, 224), (64, 3, 7, 7), {"strides": 2, "padding": 3}, (3, 3, 3, 3), (112, 112)),
        ((1, 1, 5, 5), (1, 1, 1, 7), {"padding": (0, 3)}, (0, 3, 0, 3), (5, 5)),
        ((1, 1, 4, 4), (1, 1, 2, 2), {"padding": "same_upper"}, (0, 0, 1, 1), (4, 4)),
        ((1, 1, 4, 4), (1, 1, 2, 2), {"padding": "SAME_LOWER"}, (1, 1, 0, 0), (4, 4)),
        ((1, 1, 22, 27), (1, 1, 3, 3), {"padding": "same_upper", "dilations": 2}, (2, 2, 2, 2), (22, 27)),
        ((1, 1, 22, 27), (1, 1, 2, 2), {"padding": "same_lower", "dilations": 3}, (2, 2, 1, 1), (22, 27)),
        ((1, 1, 22, 27), (1, 1, 2, 3), {"padding": "valid", "dilations": (2, 1)}, (0, 0, 0, 0), (20, 25)),
        ((1, 1, 7, 7), (1, 1, 3, 3), {"padding": "same_upper", "strides": 2}, (1, 1, 1, 1), (4, 4)),
        ((1, 1, 2, 9), (1, 1, 2, 2), {"padding": 2, "strides": 5}, (2, 2, 2, 2), (1, 3)),
        ((1, 1, 3, 3), (1, 1, 2, 2), {"padding": (4, 0, 2, 1)}, (4, 0, 2, 1), (8, 3)),
        ((2, 3, 17), (4, 3, 5), {"padding": (1, 3)}, (0, 1, 0, 3), (17,)),
        ((2, 3, 17), (4, 3, 5), {"padding": "same_lower", "strides": 2}, (0, 2, 0, 2), (9,)),
        ((0, 3, 17), (4, 3, 5), {}, (0, 0, 0, 0), (13,)),
    ],
)
def test_sizes(image, weights, options, pads, out):
    c = convolution_of(image, weights, **options)
    assert c.pads == pads
    assert c.out_shape == (image[0], weights[0], *out)
    assert c.image_shape == image
    assert c.weights_shape == weights
    assert c.reference(np.ones(image), np.ones(weights)).shape == c.out_shape


def test_a_signal_is_an_image_of_height_one():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 4, 11)), rng.standard_normal((6, 2, 3))
    flat = convolution_of(x.shape, w.shape, groups=2, padding=(0, 2), dilations=2)
    tall = convolution_of((2, 4, 1, 11), (6, 2, 1, 3), groups=2, padding=(0, 0, 0, 2), dilations=2)
    np.testing.assert_array_equal(flat.reference(x, w), tall.reference(x[:, :, None], w[:, :, None])[:, :, 0])


def test_groups():
    c = convolution_of((1, 8, 9, 9), (16, 1, 3, 3), groups=8)
    assert c.depthwise
    assert (c.group_channels, c.group_filters) == (1, 2)
    assert not convolution_of((1, 1, 9, 9), (4, 1, 3, 3)).depthwise


def test_equal_convolutions_are_one_key():
    made = [convolution_of([1, 3, 8, 8], (4, 3, 3, 3), padding=p) for p in (1, (1, 1), "same_upper")]
    assert len({*made}) == 1
    assert str(made[0]) == "1x3x8x8 by 4x3x3x3, padding 1 1 1 1"
    turned = convolution_of((1, 4, 8, 8), (4, 2, 3, 3), strides=(1, 2), dilations=2, groups=2)
    assert str(turned) == "1x4x8x8 by 4x2x3x3, stride 1x2, dilation 2, 2 groups"


@pytest.mark.parametrize(
    ("image", "weights", "options", "words"),
    [
        ((1, 3, 8), (4, 3, 3, 3), {}, "expected .filters, channels / groups, kernel width"),
        ((3, 8), (4, 3), {}, "an image of shape .3, 8."),
        ((1, 0, 8, 8), (4, 1, 3, 3), {}, "each at least 1"),
        ((1, 6, 8, 8), (4, 3, 3, 3), {}, "expected 6 channels; give groups=2"),
        ((1, 6, 8, 8), (4, 4, 3, 3), {}, "expected 6 channels$"),
        ((1, 6, 8, 8), (4, 3, 3, 3), {"groups": 4}, "6 channels in 4 groups.*nearest: 2, 1"),
        ((1, 6, 8, 8), (4, 2, 3, 3), {"groups": 3}, "4 filters in 3 groups"),
        ((1, 3, 8, 8), (4, 3, 9, 3), {}, "height.*has no output|has no output.*height"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"dilations": (1, 5)}, "spans 11 places of 8.*width"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": "sane_upper"}, "nearest: same_upper"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": (1, 2, 3)}, "3 numbers of padding"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": -1}, "-1 in padding"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": 0}, "0 in strides"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": (1, 2, 3)}, "3 strides"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"dilations": 1.5}, r"^1\.5 is not whole numbers"),
        ((1, 3, 8, 8), (4, 3, 0, 3), {}, "0 in the weights' shape"),
        ((1, 3, 8), (4, 3, 3), {"padding": (1, 2, 3, 4)}, "one or .left, right."),
    ],
)
def test_what_is_refused(image, weights, options, words):
    with pytest.raises(InputError, match=words):
        convolution_of(image, weights, **options)


def test_every_kernel_and_pad_up_to_the_kernel():
    """Pads as large as the kernel, or larger, and strides larger than it, are ordinary."""
    for kernel, pad, stride in itertools.product((1, 2, 3), (0, 2, 4), (1, 4)):
        c = convolution_of((1, 1, 5, 5), (1, 1, kernel, kernel), padding=pad, strides=stride)
        assert c.out_shape[2] == (5 + 2 * pad - kernel) // stride + 1


HUGE = 10**20


@pytest.mark.parametrize(
    ("image", "weights", "given_", "words"),
    [
        ((1, 3, 9, HUGE), (4, 3, 3, 3), {}, "in the image's shape.*at most 2147483647"),
        ((1, 3, 9, 9), (HUGE, 3, 3, 3), {}, "in the weights' shape.*at most 2147483647"),
        ((1, 3, 9, 9), (4, 3, 3, 3), {"strides": 2**31}, "2147483648 in strides"),
        ((1, 3, 9, 9), (4, 3, 3, 3), {"padding": HUGE}, "in padding"),
        ((1, 3, 9, 9), (4, 3, 3, 3), {"dilations": HUGE, "padding": "same_upper"}, "in dilations"),
        ((1, 3, 9, 9), (4, 3, 3, 3), {"padding": 2**31 - 1}, "4294967303 places with the padding.*height"),
        (
            (1, 3, 9, 9),
            (4, 3, 3, 3),
            {"dilations": (1, 2**31 - 1), "padding": "same_lower"},
            "places with the padding.*width",
        ),
        ((1, 1, 5000, 5000), (1, 1, 5000, 5000), {}, "kernel of 25000000 places.*at most 16777216"),
        ((1, 3, 9, 9), (4, 3, 3, 3), {"strides": True}, "not whole numbers"),
        ((1, 3, 9, 9), (4, 3, 3, 3), {"padding": (1, False)}, "not whole numbers"),
        ((True, 3, 9, 9), (4, 3, 3, 3), {}, "not whole numbers"),
        ((1, 2**31 - 1, 9, 9), (2**31 - 1, 3, 3, 3), {"groups": 2}, "divisor of 2147483647; nearest: 1"),
    ],
)
def test_numbers_that_kernels_cannot_count_with(image, weights, given_, words):
    with pytest.raises(InputError, match=words):
        convolution_of(image, weights, **given_)


def test_products_of_long_kernels_are_counted_at_once():
    c = convolution_of((1, 1, 1 << 22), (1, 1, 1 << 21))
    assert c.products == (1 << 21) * ((1 << 21) + 1)
