"""Filters of photographs that are measured: cases, their exact results; all libraries agree on them."""

import numpy as np
import pytest

from regweave.benchmarks import FILTERS, FilterCase, compare
from regweave.benchmarks.peers import peer_named
from regweave.errors import UnsupportedError
from regweave.images import filter_image

NAMES = ("gaussian3", "gaussian9", "box5", "laplacian", "sobel", "unsharp")


def test_the_cases_that_are_promised():
    names = [case.name for case in FILTERS]
    assert names[0] == "gaussian3 3000x4000x3"
    assert "box31 3000x4000x1" in names
    assert "box9 3000x4000x3 16 bits" in names
    assert FilterCase("sobel", 5, 7, 3, 16).bytes == 4 * 5 * 7 * 3
    assert FilterCase("laplacian", 5, 7, 3).flops == 2 * 5 * 5 * 7 * 3
    assert FilterCase("sobel", 5, 7, 3).bytes == 2 * 5 * 7 * 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("bits", [8, 16])
def test_the_reference_is_what_is_exact(name, channels, bits):
    data = FilterCase(name, 70, 210, channels, bits).data()
    np.testing.assert_array_equal(data.expected, filter_image(data.x, name, threads=1))


@pytest.mark.parametrize("name", NAMES)
def test_all_agree_on_the_filters(name):
    pytest.importorskip("cv2")
    peers = ("opencv", "opencv.separable", "opencv.named", "pillow")
    (case,) = compare([FilterCase(name, 60, 200, 3)], rounds=1, peers=peers)["cases"]
    assert "opencv" in case["peers"]
    assert ("opencv.separable" in case["peers"]) == (name not in ("laplacian", "unsharp"))
    assert ("opencv.named" in case["peers"]) == (name != "gaussian9")
    assert ("pillow" in case["peers"]) == (name == "box5")


@pytest.mark.parametrize("name", NAMES)
def test_all_agree_on_16_bits(name):
    pytest.importorskip("cv2")
    peers = ("opencv", "opencv.separable", "opencv.named", "pillow")
    (case,) = compare([FilterCase(name, 60, 200, 3, 16)], rounds=1, peers=peers)["cases"]
    magnitude = name in ("sobel", "laplacian")
    assert ("opencv" in case["peers"]) == (not magnitude)
    assert ("opencv.named" in case["peers"]) == (name != "gaussian9" and not magnitude)
    assert "pillow" not in case["peers"]


def test_what_pillow_has_not():
    pytest.importorskip("PIL")
    with pytest.raises(UnsupportedError, match="sobel up to the edges"):
        peer_named("pillow").filter(FilterCase("sobel", 8, 8, 1).data(), 1)
