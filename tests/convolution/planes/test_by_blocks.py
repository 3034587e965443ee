"""All filters of a block before the next block, where a strip is larger than the first-level cache."""

import numpy as np
import pytest

from regweave import Conv2d
from regweave.convolution.planes.choice import choose
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import convolution_of

RANDOM = np.random.default_rng(9)


@pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")
@pytest.mark.parametrize(
    ("image", "weights", "stride", "padding", "form", "folded"),
    [
        ((2, 130, 19, 90), (13, 130, 3, 3), 1, 1, "transformed", False),  # rows that two bands have
        ((1, 300, 14, 14), (31, 300, 3, 3), 1, 1, "transformed", True),
        ((1, 48, 34, 320), (11, 48, 3, 3), 2, 1, "transformed", False),
        ((1, 60, 20, 300), (9, 60, 3, 3), 1, 1, "none", False),
        ((1, 200, 14, 60), (9, 200, 3, 4), 2, (1, 0, 2, 3), "polyphase", False),
    ],
)
def test_results_are_those_of_float64(image, weights, stride, padding, form, folded):
    x, w = (RANDOM.standard_normal(shape, dtype=np.float32) for shape in (image, weights))
    b = RANDOM.standard_normal(weights[0], dtype=np.float32)
    c = convolution_of(image, weights, strides=stride, padding=padding)
    choice = choose(c, AVX2, form=form)
    assert choice.tile.by_blocks
    assert (choice.fold is not None) == folded
    assert len(choice.tile.outputs) > 1 or len(choice.tiles) > 1
    settings = {"stride": stride, "padding": padding, "activation": "relu", "isa": "avx2", "form": form}
    y, again = (Conv2d(w, b, threads=threads, **settings)(x) for threads in (1, 3))
    bound = c.reference(np.abs(x), np.abs(w), np.abs(b)).max() * 3e-6
    assert np.abs(y - np.maximum(c.reference(x, w, b), 0)).max() <= bound
    assert np.array_equal(y, again)


def test_what_stays_in_the_first_level_cache_is_gone_through_filter_by_filter():
    small = convolution_of((1, 3, 112, 112), (64, 3, 7, 7), strides=2, padding=3)
    large = convolution_of((1, 128, 112, 112), (64, 128, 3, 3), padding=1)
    assert [choose(c, AVX2).tile.by_blocks for c in (small, large)] == [False, True]
    assert not choose(large, AVX512).tile.by_blocks  # a tile of 32 registers has more filters


@pytest.mark.parametrize(
    ("channels", "size", "form"), [(3, 224, "polyphase"), (16, 224, "transformed"), (48, 20, "polyphase")]
)
def test_few_registers_transform_many_taps_of_full_rows(channels, size, form):
    """Rows two apart: of few channels all products would come together; vectors of 10 results are folded."""
    c = convolution_of((1, channels, size, size), (48, channels, 3, 3), strides=2, padding=1)
    assert choose(c, AVX2).form == form
    assert choose(c, AVX512).form == "transformed"


@pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")
@pytest.mark.parametrize("strides", [(1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize(("kernel", "padding"), [((3, 3), 1), ((5, 4), (3, 0, 1, 2)), ((3, 6), (0, 5, 2, 0))])
def test_strips_of_rows_two_apart_are_those_of_the_image(strides, kernel, padding):
    """Phases one after the other, each vector of the image read for either half."""
    x = RANDOM.standard_normal((2, 7, 29, 67), dtype=np.float32)
    w = RANDOM.standard_normal((6, 7, *kernel), dtype=np.float32)
    c = convolution_of(x.shape, w.shape, strides=strides, padding=padding)
    assert choose(c, AVX2, form="transformed").tile.in_place
    y = Conv2d(w, stride=strides, padding=padding, isa="avx2", form="transformed")(x)
    bound = c.reference(np.abs(x), np.abs(w)).max() * 3e-6
    assert np.abs(y - c.reference(x, w)).max() <= bound
