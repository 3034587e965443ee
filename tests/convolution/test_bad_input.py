"""What cannot be convolved is said: when a layer is made where that is possible, before work begins else."""

import numpy as np
import pytest

import regweave
from regweave import InputError
from regweave.cli import main

X = np.ones((1, 3, 20, 30), np.float32)
W = np.ones((4, 3, 3, 3), np.float32)
SHAPE = (1, 4, 18, 28)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"form": "unroled"}, "unknown form 'unroled'.*nearest: unrolled"),
        ({"form": ["none"]}, r"unknown form \['none'\]"),
        ({"form": 3}, "unknown form 3"),
        ({"form": np.zeros(2)}, r"unknown form array"),
        ({"order": "nchww"}, "unknown order 'nchww'.*nchw, nhwc"),
        ({"order": None}, "unknown order None"),
        ({"order": ["nchw"]}, "unknown order"),
    ],
)
def test_words_are_checked_when_a_layer_is_made(given, words):
    with pytest.raises(InputError, match=words):
        regweave.Conv2d(W, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"form": np.zeros(2)}, "unknown form array"),
        ({"dtype": np.zeros(2)}, "unknown dtype array.*one of f32, f16"),
        ({"dtype": None}, "unknown dtype None"),
        ({"machine": np.zeros(2)}, "unknown machine array"),
    ],
)
def test_words_are_checked_when_a_plan_is_made(given, words):
    with pytest.raises(InputError, match=words):
        regweave.plan_conv(X.shape, W.shape, **given)


@pytest.mark.parametrize("padding", [10**6, 10**9])
def test_results_that_fit_no_memory(padding):
    with pytest.raises(InputError, match=r"a result of shape \[1, 4, .* takes .* GB.*pad less"):
        regweave.conv2d(X, W, padding=padding)


def test_empty_results_that_cannot_be_counted():
    with pytest.raises(InputError, match=r"a result of shape \[0, .* is empty, .*pad less"):
        regweave.conv2d(X[:0], W, padding=10**9)


def strided(strides):
    return np.lib.stride_tricks.as_strided(np.zeros(9000, np.float32), SHAPE, strides)


@pytest.mark.parametrize(
    "strides", [(0, 0, 112, 4), (8064, 2016, 4, 4), (8064, 2016, 108, 4), (8064, 4, 112, 4)]
)
def test_an_out_whose_elements_share_memory(strides):
    with pytest.raises(InputError, match=r"elements share memory.*at out"):
        regweave.conv2d(X, W, out=strided(strides))


def test_outs_whose_elements_do_not():
    expected = regweave.conv2d(X, W)
    big = np.zeros((2, 9, 40, 70), np.float32)
    views = [
        big[1:, 8:0:-2, ::-2][:, :, :18, 5:61:2],
        np.zeros(SHAPE[::-1], np.float32).T,
        strided((0, 2016, 112, 4)),  # the step of an axis of one element does not matter
        strided((4, 2016, -112 + 224, 4)),
    ]
    for out in views:
        out[...] = np.nan
        assert regweave.conv2d(X, W, out=out) is out
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("outputs", [5, None, (1, 1), (1, 1.0, 1), (0, 1, 1), "111"])
def test_outputs_per_thread_are_three_whole_numbers(outputs):
    if outputs is None:
        plan = regweave.plan_conv(X.shape, W.shape, machine="opencl-cpu", outputs_per_thread=np.ones(3, int))
        assert plan.outputs_per_thread == (1, 1, 1)
        return
    with pytest.raises(InputError, match="three whole numbers"):
        regweave.plan_conv(X.shape, W.shape, machine="opencl-cpu", outputs_per_thread=outputs)


@pytest.mark.parametrize("shape", ["1_0x3x9x9", "1x3x 9x9", "1x3x9x", "1x3x٣x9", "1x3x9x" + "9" * 5000])
def test_sizes_are_plain_numbers(shape, capsys):
    assert main(["conv", "--shape", shape, "--kernel", "4x3x3x3"]) == 2
    assert "is no list of sizes" in capsys.readouterr().err
