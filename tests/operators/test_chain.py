"""Stages, chains and runs: what fits together, what does not, and what the result means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from regweave.errors import InputError
from regweave.operators import (
    Chain,
    ChannelAdd,
    ChannelMul,
    ElementwiseRun,
    MulScalar,
    Relu,
    Stage,
    Tanh,
    TensorAdd,
    TensorMul,
    from_blocks,
    to_blocks,
)


def _f32(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def _stages(rng: np.random.Generator) -> tuple[Stage, Stage]:
    return (
        Stage(_f32(rng, 5, 20), (ChannelAdd(), Relu()), (_f32(rng, 20), None)),
        Stage(_f32(rng, 20, 3), (ChannelMul(), TensorAdd()), (_f32(rng, 3), 0)),
    )


def test_stages_never_change(rng: np.random.Generator) -> None:
    weight, bias = _f32(rng, 5, 20), _f32(rng, 20)
    stage = Stage(weight, (ChannelAdd(),), (bias,))
    run = ElementwiseRun((ChannelAdd(),), (bias,))
    before = Chain((stage,)).reference(np.eye(5)), run.reference(np.eye(20))
    weight[:] = bias[:] = 0
    np.testing.assert_array_equal(Chain((stage,)).reference(np.eye(5)), before[0])
    np.testing.assert_array_equal(run.reference(np.eye(20)), before[1])
    assert Stage(stage.weight).weight is stage.weight
    fixed = np.frombuffer(bytes(32), np.float32).reshape(4, 2)
    assert np.shares_memory(Stage(fixed).weight, fixed)
    view = weight[:]
    view.flags.writeable = False
    assert not np.shares_memory(Stage(view).weight, weight)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Chain(5),  # type: ignore[arg-type]
        lambda: Chain((5,)),  # type: ignore[arg-type]
        lambda: Chain((Stage(np.ones((8, 8), np.float32)),), "blocked", 8.5),  # type: ignore[arg-type]
        lambda: Chain((Stage(np.ones((8, 8), np.float32)),), "blocked", "8"),  # type: ignore[arg-type]
        lambda: Stage(np.ones((8, 8), np.float32), Relu()),  # type: ignore[arg-type]
        lambda: Stage(np.ones((8, 8), np.float32), ("relu",)),  # type: ignore[arg-type]
        lambda: Stage(np.ones((8, 8), np.float32), (ChannelAdd(),), 5),  # type: ignore[arg-type]
        lambda: ElementwiseRun(Relu()),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_list(make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="expected"):
        make()


def test_zero_has_no_sign_in_parameters() -> None:
    """-0.0 equals 0.0, so a kernel made for one would serve the other."""
    assert np.signbit(MulScalar(-0.0).value) == 0


def test_rows(rng: np.random.Generator) -> None:
    first, second = _stages(rng)
    chain = Chain((first, second))
    x, extra = _f32(rng, 7, 5), _f32(rng, 7, 3)
    assert chain.widths == (5, 20, 3)
    assert chain.extra_inputs == 1
    assert chain.extra_widths == (3,)
    bias, scale = first.operands[0], second.operands[0]
    hidden = np.maximum(x.astype(float) @ first.weight.astype(float) + bias, 0)
    expected = (hidden @ second.weight.astype(float)) * scale + extra
    np.testing.assert_allclose(chain.reference(x, [extra]), expected, rtol=1e-12)


@pytest.mark.parametrize("block", [8, 16])
def test_pixels_and_blocks_are_the_same_arithmetic(rng: np.random.Generator, block: int) -> None:
    stages = _stages(rng)
    x, extra = _f32(rng, 2, 5, 6), _f32(rng, 2, 3, 6)
    rows = Chain(stages)
    pixels = Chain(stages, "pixels").reference(x, [extra])
    for image in range(2):
        np.testing.assert_allclose(pixels[image].T, rows.reference(x[image].T, [extra[image].T]), rtol=1e-12)
    blocked = Chain(stages, "blocked", block)
    y = blocked.reference(to_blocks(x, block), [to_blocks(extra, block)])
    assert y.shape == (2, 1, 6, block)
    np.testing.assert_array_equal(from_blocks(y, 3), pixels)
    assert not y[..., 3:].any()


def test_signature_has_no_data(rng: np.random.Generator) -> None:
    one, other = Chain(_stages(rng)), Chain(_stages(rng))
    assert one.signature == other.signature
    assert hash(one.signature) == hash(other.signature)
    assert one.signature != Chain(_stages(rng), "pixels").signature
    assert one.signature.extra_inputs == 1
    assert str(one.signature) == "rows 5 -> 20 channel_add relu -> 3 channel_mul tensor_add"


def test_stage_makes_its_weight_contiguous(rng: np.random.Generator) -> None:
    weight = _f32(rng, 6, 4).T
    stage = Stage(weight)
    assert stage.weight.flags.c_contiguous
    np.testing.assert_array_equal(stage.weight, weight)
    assert (stage.k, stage.n) == (4, 6)


W = np.ones((4, 3), np.float32)
B = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stage(W.astype(float)), "<f8"),
        (lambda: Stage(W.astype(">f4")), ">f4"),
        (lambda: Stage(W.tolist()), "list"),
        (lambda: Stage(W[0]), r"\[3\]"),
        (lambda: Stage(W[:0]), r"\[0, 3\]"),
        (lambda: Stage(W, (ChannelAdd(),)), "0 operands for 1"),
        (lambda: Stage(W, (ChannelAdd(),), (np.ones(4, np.float32),)), "vector of 4"),
        (lambda: Stage(W, (ChannelAdd(),), (np.ones(3),)), "<f8"),
        (lambda: Stage(W, (ChannelAdd(),), (0,)), "got 0"),
        (lambda: Stage(W, (TensorAdd(),), (B,)), "got"),
        (lambda: Stage(W, (TensorAdd(),), (-1,)), "-1"),
        (lambda: Stage(W, (Relu(),), (B,)), "takes no operand"),
        (lambda: Stage(W, ("relu",)), "'relu' is not"),
        (lambda: Chain(()), "no stages"),
        (lambda: Chain((Stage(W), Stage(W))), "gives 3 columns but stage 1 takes 4"),
        (lambda: Chain((Stage(W),), "row"), "nearest: rows"),
        (lambda: Chain((Stage(W),), "blocked"), "block 0"),
        (lambda: Chain((Stage(W),), "rows", 16), "block 16"),
        (lambda: Chain((Stage(W, (TensorAdd(),), (1,)),)), "without gaps"),
        (
            lambda: Chain((Stage(W, (TensorAdd(),), (0,)), Stage(W[:3].T.copy(), (TensorAdd(),), (0,)))),
            None,
        ),
        (
            lambda: Chain((Stage(W, (TensorAdd(),), (0,)), Stage(W[:3, :2].copy(), (TensorAdd(),), (0,)))),
            "3 and 2 columns",
        ),
        (lambda: ElementwiseRun(()), "no operators"),
        (lambda: ElementwiseRun((Relu(),), axis="middle"), "unknown axis"),
        (lambda: ElementwiseRun((ChannelAdd(), ChannelMul()), (B, W[0, :2].copy())), "one length"),
    ],
)
def test_what_does_not_fit(make: Callable[[], object], message: str | None) -> None:
    if message is None:
        make()
        return
    with pytest.raises(InputError, match=message):
        make()


def test_elementwise_run(rng: np.random.Generator) -> None:
    scale = _f32(rng, 3)
    run = ElementwiseRun((MulScalar(0.5), ChannelMul(), TensorMul(), Tanh()), (None, scale, 0, None))
    x, extra = _f32(rng, 2, 4, 3), _f32(rng, 2, 4, 3)
    assert (run.channels, run.extra_inputs) == (3, 1)
    expected = np.tanh(0.5 * x.astype(float) * scale * extra)
    np.testing.assert_allclose(run.reference(x, [extra]), expected, rtol=1e-12)
    first = ElementwiseRun((ChannelMul(),), (scale,), "first")
    np.testing.assert_allclose(
        first.reference(x.transpose(0, 2, 1)), (x * scale).transpose(0, 2, 1), rtol=1e-6
    )
    assert run.signature == ElementwiseRun(run.ops, (None, _f32(rng, 3), 0, None)).signature
    assert run.signature.extra_inputs == 1
    assert ElementwiseRun((Relu(),)).channels is None
