"""Byte permutes of rows against one word at a time."""

import numpy as np
import pytest

from regweave.programs.byte_permutes import byte_permute

# rows and threads of the two words and of the selectors; one stands for all
SHAPES = {
    "a selector for each row": ((48, 2000), (48, 2000), (48, 1)),
    "one selector for all": ((48, 2000), (48, 2000), (1, 1)),
    "the same word in all rows": ((1, 2000), (48, 2000), (48, 1)),
    "a constant in all threads": ((48, 2000), (48, 1), (48, 1)),
    "rows longer than a cache": ((3, 40000), (3, 40000), (3, 1)),
    "small": ((3, 5), (3, 5), (3, 1)),
    "selectors of threads": ((4, 3000), (4, 3000), (4, 3000)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kinds", [[0x5140], [0x3210, 0x7654, 0x0123], [0x6240, 0x7351, 0x1100, 0xFEDC]])
def test_rows_as_one_word_at_a_time(name, kinds):
    random = np.random.default_rng(len(name))
    low, high = (random.integers(0, 1 << 32, shape, dtype=np.uint32) for shape in SHAPES[name][:2])
    selector = random.choice(np.array(kinds, dtype=np.uint32), SHAPES[name][2])
    found = byte_permute(low, high, selector)
    shape = np.broadcast_shapes(*SHAPES[name])
    given = low.copy(), high.copy()
    assert (found.shape, found.dtype) == (shape, np.uint32)
    both = np.stack([np.broadcast_to(word, shape) for word in (low, high)], axis=-1).astype("<u4")
    places = (np.broadcast_to(selector, shape)[..., None] >> np.arange(0, 16, 4, dtype=np.uint32)) & 7
    wanted = np.take_along_axis(both.view(np.uint8), places.astype(np.int64), axis=-1).view("<u4")[..., 0]
    assert np.array_equal(found, wanted)
    assert all(np.array_equal(word, before) for word, before in zip((low, high), given, strict=True))


def test_a_constant_spread_over_threads_is_one_selector():
    word = np.arange(1 << 13, dtype=np.uint32)
    selector = np.broadcast_to(np.uint32(0x0123), word.shape)
    assert np.array_equal(byte_permute(word[None], word[None], selector[None])[0], word.byteswap())
    assert np.array_equal(byte_permute(word, word, selector), word.byteswap())
