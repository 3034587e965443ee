"""Products of halves, seven multiplications instead of eight, against float64 and against eight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regweave.errors import InputError
from regweave.kernels import chain_plan
from regweave.kernels.chains.seven import LEFT, RIGHT, right_operands
from regweave.machines.x86 import AVX512
from regweave.operators import (
    Chain,
    ChannelAdd,
    ChannelMul,
    Gelu,
    Order,
    Relu,
    Signature,
    Stage,
    TensorAdd,
)

ROWS = (1, 11, 12, 13, 24, 77, 97, 200)
EPILOGUES = (
    (),
    (ChannelAdd(), Relu()),
    (ChannelMul(), ChannelAdd(), Gelu()),
    (ChannelAdd(), TensorAdd(), Relu()),
)


def by_seven(chain: Chain) -> Chain:
    return Chain(chain.stages, chain.order, chain.block, seven=True)


def test_the_table_is_a_product() -> None:
    """The seven products with the signs of the docstring are the four quarters, on symbols as on numbers."""
    a, b = np.arange(1.0, 5.0), np.array([7.0, -2.0, 3.0, 11.0])
    p = [float(np.dot(left, a) * np.dot(right, b)) for left, right in zip(LEFT, RIGHT, strict=True)]
    quarters = (p[0] + p[3] - p[4] + p[6], p[2] + p[4], p[1] + p[3], p[0] - p[1] + p[2] + p[5])
    assert np.array_equal(np.reshape(quarters, (2, 2)), a.reshape(2, 2) @ b.reshape(2, 2))
    weight = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert np.array_equal(right_operands(weight)[2], weight[:2, 2:] + weight[2:, 2:])


@pytest.mark.parametrize("order", ["rows", "blocked"])
@pytest.mark.parametrize("epilogue", EPILOGUES, ids=lambda ops: "-".join(map(str, ops)) or "none")
def test_rows_and_epilogues(kernels, make_chain, inputs, epilogue, order: str) -> None:
    block = 16 if order == "blocked" else 0
    chain = by_seven(make_chain((96, 192, 224, 64), epilogue, order, block))
    assert any(chain_plan(chain.signature, kernels.machine).seven)
    for rows in ROWS:
        x, extras = inputs(chain, rows)
        got = kernels.chain(chain, x, extras, parts=2)
        np.testing.assert_allclose(got, chain.reference(x, extras), rtol=3e-5, atol=3e-5)


def test_long_sums_and_batches(kernels, make_chain, inputs) -> None:
    chain = by_seven(make_chain((384, 128, 96), (ChannelAdd(), Relu()), "blocked", 16))
    x, _ = inputs(chain, 50, 3)
    np.testing.assert_allclose(kernels.chain(chain, x), chain.reference(x), rtol=3e-5, atol=3e-5)


def test_nothing_spreads_from_pixels_that_are_not_finite(kernels, make_chain, inputs) -> None:
    """A block with an Inf, a NaN or a sum that overflows is what eight products make of it, in every bit."""
    chain = make_chain((96, 192), (ChannelAdd(), Relu()), "blocked", 16)
    x, _ = inputs(chain, 60)
    for values in ({3: np.nan}, {90: np.inf}, {0: -np.inf}, {2: 3e38, 50: -3e38}):
        bad = x.copy()
        for column, value in values.items():
            bad[0, column // 16, [5, 40], column % 16] = value
        got, right = kernels.chain(by_seven(chain), bad), kernels.chain(chain, bad)
        assert np.array_equal(got, right, equal_nan=True)
        assert np.isfinite(np.delete(got, [5, 40], 2)).all()


def test_clean_rows_are_multiplied_by_seven(kernels, make_chain, inputs) -> None:
    chain = make_chain((96, 192, 96), (ChannelAdd(),))
    x, _ = inputs(chain, 96)
    assert not np.array_equal(kernels.chain(by_seven(chain), x), kernels.chain(chain, x))


def test_when_it_is_done() -> None:
    def stages(*widths: int, order: Order = "rows", seven: bool = True) -> tuple[bool, ...]:
        epilogues = ((),) * (len(widths) - 1)
        signature = Signature(order, widths, epilogues, epilogues, 16 * (order == "blocked"), seven)
        return chain_plan(signature, AVX512).seven

    assert stages(96, 192, 96) == (True, True)
    assert stages(96, 192, 96, seven=False) == (False, False)
    assert stages(96, 200, 96) == (False, False)
    assert stages(64, 192, 1024, 192) == (False, True, False)
    assert stages(192, 384) == (False,)
    assert stages(192, 384, order="blocked") == (True,)


def test_pixels_have_no_halves() -> None:
    stage = Stage(np.ones((4, 4), np.float32))
    with pytest.raises(InputError, match="seven"):
        Chain((stage,), "pixels", seven=True)
    assert replace(Chain((stage,)), seven=True).signature.seven
