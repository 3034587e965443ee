"""Chains of 1x1 convolutions, channel by channel and in blocks of channels, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.errors import UnsupportedError
from regweave.kernels import STREAM, chain_kernel
from regweave.machines.x86 import AVX512
from regweave.operators import ChannelAdd, ChannelMul, Elementwise, Gelu, Relu, Sigmoid, TensorAdd, TensorMul

BIAS_RELU = (ChannelAdd(), Relu())
PIXELS = (0, 1, 5, 15, 16, 17, 63, 64, 65, 240)
WIDTHS = ((64, 64, 64), (1, 1), (2, 33), (3, 34, 1), (17, 120, 240, 5), (16, 64, 16), (130, 65))
EPILOGUES = (
    (ChannelMul(), ChannelAdd(), Gelu()),
    (ChannelAdd(), Sigmoid()),
    (ChannelAdd(), TensorAdd(), Relu()),
    (TensorMul(), TensorAdd()),
    (ChannelAdd(), TensorAdd(), Gelu()),
)


def blocks_of(kernels, order: str) -> tuple[int, ...]:
    """The blocks to test: none, or those that fit the machine."""
    if order == "pixels":
        return (0,)
    return (16,) if kernels.machine.lanes == 16 else (8, 16)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("order", ["pixels", "blocked"])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_widths_and_pixels(kernels, make_chain, inputs, widths, order, at) -> None:
    for block in blocks_of(kernels, order):
        chain = make_chain(widths, BIAS_RELU, order, block)
        for pixels in PIXELS:
            x, _ = inputs(chain, pixels)
            got = kernels.chain(chain, x, at=at)
            np.testing.assert_allclose(got, chain.reference(x), rtol=1e-5, atol=1e-5, err_msg=f"P = {pixels}")


@pytest.mark.parametrize("order", ["pixels", "blocked"])
@pytest.mark.parametrize("epilogue", EPILOGUES, ids=lambda ops: "-".join(map(str, ops)))
def test_epilogues_and_batches(
    kernels, make_chain, inputs, epilogue: tuple[Elementwise, ...], order: str
) -> None:
    for block in blocks_of(kernels, order):
        chain = make_chain((20, 70, 33), epilogue, order, block)
        for batch, pixels in ((0, 5), (1, 7), (2, 77), (3, 64)):
            x, extras = inputs(chain, pixels, batch)
            got = kernels.chain(chain, x, extras, parts=2)
            np.testing.assert_allclose(got, chain.reference(x, extras), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("order", ["pixels", "blocked"])
def test_bits_of_a_pixel_depend_on_it_alone(kernels, make_chain, inputs, order: str) -> None:
    chain = make_chain((40, 100, 70), (ChannelAdd(), Gelu()), order, blocks_of(kernels, order)[-1])
    x, _ = inputs(chain, 200, 2)
    whole = kernels.chain(chain, x)
    for parts in (2, 3, 9):
        assert np.array_equal(kernels.chain(chain, x, parts=parts), whole)
    some = np.ascontiguousarray(x[:, :, 30:51])
    assert np.array_equal(kernels.chain(chain, some), whole[:, :, 30:51])


def test_orders_agree_in_every_bit(kernels, make_chain, inputs, random) -> None:
    state = random.bit_generator.state
    results = []
    for order, block in (("rows", 0), ("pixels", 0), ("blocked", blocks_of(kernels, "blocked")[0])):
        random.bit_generator.state = state
        chain = make_chain((32, 48, 16), BIAS_RELU, order, block)
        planes = np.random.default_rng(1).standard_normal((32, 70), np.float32)
        if order == "rows":
            results.append(kernels.chain(chain, np.ascontiguousarray(planes.T)).T)
        elif order == "pixels":
            results.append(kernels.chain(chain, planes[None])[0])
        else:
            x = planes.reshape(-1, block, 70).transpose(0, 2, 1)[None]
            y = kernels.chain(chain, np.ascontiguousarray(x))[0]
            results.append(y.transpose(0, 2, 1).reshape(16, 70))
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("order", ["pixels", "blocked"])
def test_streamed_output(kernels, make_chain, inputs, order: str) -> None:
    """16 channels of 256 pixels end at a page: all rows are aligned."""
    chain = make_chain((64, 16), BIAS_RELU, order, blocks_of(kernels, order)[-1])
    x, _ = inputs(chain, 256)
    assert np.array_equal(kernels.chain(chain, x, flags=STREAM), kernels.chain(chain, x))


def test_padding_of_blocks_is_zero(kernels, make_chain, inputs) -> None:
    block = kernels.machine.lanes
    chain = make_chain((24, 24, block + 1), (Sigmoid(),), "blocked", block)
    x, _ = inputs(chain, 9)
    assert not kernels.chain(chain, x)[0, 1, :, 1:].any()


def test_blocks_must_fit(make_chain) -> None:
    with pytest.raises(UnsupportedError, match="blocks of 8 channels"):
        chain_kernel(make_chain((8, 8), (), "blocked", 8).signature, AVX512)
