"""Depthwise convolutions of blocked images: any stride, padding and width; what stays beside the results."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.errors import UnsupportedError
from regweave.kernels.blocks.depthwise import (
    DepthwiseArguments,
    depthwise_kernel,
    depthwise_tiles,
    inner_tiles,
    packed_depthwise,
)
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import HardSwish, Relu, convolution_of
from regweave.operators.blocks import from_blocks, to_blocks

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor runs no native kernels")


def run(machine, x, weights, bias, epilogue, parts, **settings):
    batch, channels, height, width = x.shape
    c = convolution_of(x.shape, weights.shape, groups=channels, **settings)
    _, _, rows, columns = c.out_shape
    tiles = depthwise_tiles(c, machine)
    inner, gap = inner_tiles(tiles, columns)
    kernel = cpu.load(depthwise_kernel(tiles, epilogue, machine))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(kernel.address)
    blocks = np.ascontiguousarray(to_blocks(x.reshape(batch, channels, -1), machine.lanes))
    packed = packed_depthwise(weights, bias, machine.lanes)
    count = rows * columns
    room = np.full((batch * blocks.shape[1] * count + 2, machine.lanes), 7, np.float32)
    made = room[1:-1].reshape(batch, blocks.shape[1], count, machine.lanes)
    arguments = DepthwiseArguments(
        x=blocks.ctypes.data, y=made.ctypes.data, weights=packed.ctypes.data, images=batch,
        blocks=blocks.shape[1], x_rows=height, x_columns=width, rows=rows, columns=columns, inner=inner,
        gap=gap, parts=parts,
    )  # fmt: skip
    for part in range(parts):
        call(ctypes.addressof(arguments), part)
    assert (room[[0, -1]] == 7).all()
    found = from_blocks(made, channels).reshape(c.out_shape)
    expected = c.reference(x.astype(np.float64), weights, bias)
    for op in epilogue:
        expected = op.reference(expected)
    return found, expected


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ((3, 3), {"padding": (1, 1, 1, 1)}), ((3, 3), {"padding": (1, 1, 1, 1), "strides": (2, 2)}),
        ((5, 5), {"padding": (2, 2, 2, 2)}), ((3, 5), {"padding": (1, 2, 0, 2), "strides": (2, 1)}),
        ((2, 2), {"padding": (0, 0, 1, 1)}), ((1, 3), {}),
        ((3, 3), {"padding": (0, 0, 1, 1), "strides": (2, 3)}), ((7, 7), {"padding": (3, 3, 3, 3)}),
        ((7, 7), {"padding": (3, 3, 3, 3), "strides": (2, 2)}), ((2, 8), {"padding": (1, 3, 0, 3)}),
    ],
)  # fmt: skip
def test_every_width_of_row(machine, kernel, settings):
    random = np.random.default_rng(kernel[0])
    for width in (*range(5, 16), *range(16, 48, 3), 97):
        channels, height = int(random.integers(1, 40)), int(random.integers(3, 9))
        x = random.standard_normal((1 + width % 2, channels, height, width)).astype(np.float32)
        weights = random.standard_normal((channels, 1, *kernel)).astype(np.float32)
        bias = random.standard_normal(channels).astype(np.float32) if width % 3 else None
        epilogue = ((), (Relu(),), (HardSwish(),))[width % 3]
        found, expected = run(machine, x, weights, bias, epilogue, 1 + width % 4, **settings)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5, err_msg=str(width))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_what_is_not_finite_stays_in_its_window(machine):
    x = np.ones((1, 3, 6, 30), np.float32)
    x[0, 1, 2, 20] = np.nan
    weights = np.ones((3, 1, 3, 3), np.float32)
    found, _ = run(machine, x, weights, None, (), 1, padding=(1, 1, 1, 1))
    assert np.isnan(found).sum() == 9
    assert np.isnan(found[0, 1, 1:4, 19:22]).all()


def test_what_has_no_tiles():
    def tiles(weights, machine=AVX512, channels=4, groups=4, **settings):
        return depthwise_tiles(
            convolution_of((1, channels, 9, 50), weights, groups=groups, **settings), machine
        )

    for machine, held in ((AVX512, 7), (AVX2, 5)):
        found = tiles((4, 1, 7, 7), machine, padding=(3, 3, 3, 3))
        assert (found.pixels, found.held) == (10, held)
    for weights, more in (
        ((4, 1, 3, 3), {"dilations": (2, 1)}), ((4, 2, 3, 3), {"groups": 2}), ((8, 1, 3, 3), {}),
        ((4, 1, 3, 3), {"padding": (3, 1, 0, 1)}), ((4, 1, 9, 9), {"padding": (4, 4, 4, 4), "machine": AVX2}),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError):
            tiles(weights, **more)
