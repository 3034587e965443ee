"""Chains of rows against float64: odd widths, odd numbers of rows, every epilogue, forbidden pages around."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.kernels import STREAM
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Silu,
    Tanh,
    TensorAdd,
    TensorMul,
)

BIAS_RELU = (ChannelAdd(), Relu())
ROWS = (0, 1, 2, 5, 6, 7, 13, 47, 48, 49, 97)
WIDTHS = (
    (64, 64, 64), (1, 1), (2, 33), (3, 34, 1), (17, 120, 240, 5), (768, 256, 128), (48, 192, 48), (130, 65),
    (130, 1300),
)  # fmt: skip
EPILOGUES = (
    (),
    (ChannelMul(), ChannelAdd(), LeakyRelu(0.1)),
    (ChannelAdd(), Clip(0, 6)),
    (ChannelAdd(), HardSwish()),
    (HardSigmoid(),),
    (ChannelAdd(), Gelu()),
    (ChannelAdd(), Gelu("tanh"), MulScalar(0.5)),
    (Silu(), AddScalar(1.0)),
    (Sigmoid(),),
    (Tanh(), ChannelAdd()),
    (ChannelAdd(), TensorAdd(), Relu()),
    (TensorMul(), TensorAdd()),
    (ChannelAdd(), TensorAdd(), Gelu()),
)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_widths_and_rows(kernels, make_chain, inputs, widths: tuple[int, ...], at: str) -> None:
    chain = make_chain(widths, BIAS_RELU)
    for m in ROWS:
        x, _ = inputs(chain, m)
        np.testing.assert_allclose(
            kernels.chain(chain, x, at=at), chain.reference(x), rtol=1e-5, atol=1e-5, err_msg=f"M = {m}"
        )


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=lambda ops: "-".join(map(str, ops)) or "none")
def test_epilogues(kernels, make_chain, inputs, epilogue: tuple[Elementwise, ...]) -> None:
    chain = make_chain((20, 70, 33), epilogue)
    for m in (1, 7, 13):
        x, extras = inputs(chain, m)
        got = kernels.chain(chain, x, extras)
        np.testing.assert_allclose(got, chain.reference(x, extras), rtol=2e-5, atol=2e-5)


def test_bits_of_a_row_depend_on_it_alone(kernels, make_chain, inputs) -> None:
    chain = make_chain((40, 100, 70), (ChannelAdd(), Gelu()))
    x, _ = inputs(chain, 97)
    whole = kernels.chain(chain, x)
    for parts in (2, 3, 7, 97):
        assert np.array_equal(kernels.chain(chain, x, parts=parts), whole)
    for first, last in ((0, 1), (3, 5), (10, 23), (96, 97)):
        assert np.array_equal(kernels.chain(chain, x[first:last]), whole[first:last])


def test_machines_agree_in_every_bit(all_kernels, make_chain, inputs) -> None:
    chain = make_chain((40, 100, 70), BIAS_RELU)
    x, _ = inputs(chain, 13)
    results = [run.chain(chain, x) for run in all_kernels]
    assert all(np.array_equal(result, results[0]) for result in results)


def test_nan_and_infinity_stay_in_their_row(kernels, make_chain, inputs) -> None:
    chain = make_chain((30, 40, 20), BIAS_RELU)
    x, _ = inputs(chain, 13)
    clean = kernels.chain(chain, x)
    x[4, 3], x[9, 0] = np.nan, np.inf
    got = kernels.chain(chain, x)
    others = np.delete(np.arange(13), [4, 9])
    assert np.isnan(got[4]).all()
    assert np.array_equal(got[others], clean[others])


def test_result_onto_a_residual(kernels, make_chain, inputs) -> None:
    """The last stage may write where it reads an extra input."""
    chain = make_chain((20, 70), (ChannelAdd(), TensorAdd(), Relu()))
    for m in (1, 13, 50):
        x, extras = inputs(chain, m)
        assert np.array_equal(kernels.chain(chain, x, extras, onto=0), kernels.chain(chain, x, extras))


def test_streamed_output(kernels, make_chain, inputs) -> None:
    """50 rows of 256 bytes end at a page, so they start at a multiple of 256: aligned for streaming."""
    chain = make_chain((64, 64), BIAS_RELU)
    x, _ = inputs(chain, 50)
    assert np.array_equal(kernels.chain(chain, x, flags=STREAM), kernels.chain(chain, x))
