"""Rearranged rows: each tap of each output is found where the form says, and the unrolled image as shown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regweave
from regweave import InputError
from regweave.convolution.forms import FORMS, plane_of, plane_shifts, plane_width, rearranged
from regweave.convolution.planes.strips import strip_widths
from regweave.operators import Axis, convolution_of

axes = st.builds(
    Axis,
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(0, 6),
    st.integers(0, 6),
).filter(lambda axis: axis.outputs > 0)


def test_the_picture_of_the_head_comment():
    row = np.array([[*"abcdefg"]])
    found = regweave.unroll_rows(row, 3, 2)
    assert ["".join(line) for line in found] == ["ace", "bdf", "ceg"]
    assert ["".join(line) for line in rearranged(row, Axis(7, 3, 2), "polyphase")[0]] == ["aceg", "bdf"]


@given(axes, st.integers(0, 9))
@settings(max_examples=300, deadline=None)
def test_every_tap_is_found_in_every_form(axis, seed):
    row = np.random.default_rng(seed).integers(1, 99, (2, axis.size))
    for form in FORMS:
        planes = rearranged(row, axis, form)
        assert planes.shape == (2, len(plane_shifts(axis, form)), plane_width(axis, form))
        step = axis.stride if form == "none" else 1
        for tap in range(axis.kernel):
            plane, first = plane_of(axis, form, tap)
            for output in range(axis.outputs):
                place = axis.place(output, tap)
                wanted = row[:, place] if 0 <= place < axis.size else 0
                assert np.array_equal(planes[:, plane, first + output * step], wanted + np.zeros(2))


def test_expansion():
    axis = Axis(1920, 3, 1, 1, 1, 1)
    assert [plane_width(axis, form) * len(plane_shifts(axis, form)) for form in FORMS] == [5760, 1922, 1922]
    halved = Axis(224, 7, 2, 1, 3, 3)
    assert [plane_width(halved, form) * len(plane_shifts(halved, form)) for form in FORMS] == [784, 230, 229]


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_unrolled_images_of_any_kind(stride):
    torch = pytest.importorskip("torch", reason="torch makes the tensor of this test")
    image = np.arange(2 * 3 * 4 * 11, dtype=np.float32).reshape(2, 3, 4, 11)[:, ::-1, :, ::-1]
    found = regweave.unroll_rows(image, 3, stride)
    outputs = (11 - 3) // stride + 1
    assert found.shape == (2, 3, 12, outputs)
    for y, k in np.ndindex(4, 3):
        last = k + (outputs - 1) * stride
        np.testing.assert_array_equal(found[:, :, 3 * y + k], image[:, :, y, k : last + 1 : stride])
    tensor = torch.tensor(image.copy())
    same = regweave.unroll_rows(tensor, 3, stride)
    assert isinstance(same, torch.Tensor)
    np.testing.assert_array_equal(same.numpy(), found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((2, 3)), 4), "expected at most 3"),
        ((np.zeros((2, 3)), 0), "0 is no kernel_width"),
        ((np.zeros((2, 3)), 2, 1.5), "1.5 is no stride"),
        ((np.zeros(3), 2), r"the shape is \[3\]"),
        (([[1.0, 2.0]], 2), "list is not an array"),
        (
            (np.broadcast_to(np.float32(1), (100_000, 100_000)), 300),
            "100000 x 300 x 99701 takes 11964.1 GB; expected at most .*; unroll some rows at a time",
        ),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        regweave.unroll_rows(*arguments)


@pytest.mark.parametrize("outputs", [1, 15, 16, 17, 48, 100])
@pytest.mark.parametrize("columns", [16, 48, 160])
def test_widths_of_strips(outputs, columns):
    c = convolution_of((1, 1, 4, outputs), (1, 1, 1, 1))
    found = {min(columns, outputs - first) for first in range(0, outputs, columns)}
    assert strip_widths(c, columns) == found
    assert strip_widths(convolution_of((1, 1, 4, 10**9), (1, 1, 1, 1)), 48) == {48, 10**9 % 48}
