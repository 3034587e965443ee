"""Interleaved channels to planes and back: odd widths, odd memory, processors without kernels."""

import numpy as np
import pytest

from regweave.images.conversion import to_image, to_planes


@pytest.mark.parametrize("isa", ["", "portable"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("width", [1, 16, 37])
@pytest.mark.filterwarnings("ignore:regweave runs on its portable device")
def test_there_and_back(monkeypatch, isa, dtype, width):
    if isa:
        monkeypatch.setenv("REGWEAVE_ISA", isa)
    image = (np.random.default_rng(width).random((9, 2 * width, 5)) * 255).astype(dtype)
    for source in (image[:, :width, :3].copy(), image[::-2, ::2, 1:4], image[:, width:, :]):
        rows = np.array([3, 0, 0, 4])
        planes = np.full((source.shape[2], 4, width + 2), -1, np.float32)
        to_planes(source, rows, planes[:, :, 1:], 2)
        np.testing.assert_array_equal(planes[:, :, 1 : 1 + width], source[rows].transpose(2, 0, 1))
        assert (planes[:, :, [0, -1]] == -1).all()
        room = np.full((4, 2 * width, source.shape[2]), 9, dtype)
        for out in (room[:, :width], room[:, ::2]):
            to_image(planes[:, :, 1 : 1 + width], out, 2)
            np.testing.assert_array_equal(out, source[rows])
