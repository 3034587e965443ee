"""Constants folded into weights: what goes where, and what must stay an operator of its own."""

import numpy as np
import pytest
from graph_checks import normal

from regweave.graphs.elementwise.folding import build_chain, build_run, has_work
from regweave.graphs.elementwise.steps import Step
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    MulScalar,
    Relu,
    TensorAdd,
)

V, W = normal(3, 4), normal(4, 2, seed=1)
VECTOR = normal(4, seed=2).astype(np.float64)


def step(*items):
    """A step of operators, each alone or with its operand."""
    pairs = [item if isinstance(item, tuple) else (item, None) for item in items]
    return Step(tuple(op for op, _ in pairs), tuple(operand for _, operand in pairs), ("node",), "out")


def unfolded(x, items, extras=()):
    """What the operators do, one by one, in float64."""
    y = x.astype(np.float64) @ V
    for item in items:
        op, operand = item if isinstance(item, tuple) else (item, None)
        y = op.reference(y, extras[0] if isinstance(operand, str) else operand)
    return y @ W


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([MulScalar(2.0)], ()),
        ([(ChannelMul(), VECTOR)], ()),
        ([(ChannelAdd(), VECTOR)], (ChannelAdd(),)),
        ([(ChannelAdd(), VECTOR), MulScalar(3.0), AddScalar(1.0), (ChannelMul(), VECTOR)], (ChannelAdd(),)),
        ([AddScalar(1.0), AddScalar(-1.0)], ()),
        ([Relu(), MulScalar(2.0), MulScalar(0.5)], (Relu(),)),
        ([Relu(), MulScalar(2.0)], (Relu(),)),
        ([Relu(), (ChannelMul(), VECTOR)], (Relu(),)),
        ([Relu(), AddScalar(1.0), AddScalar(2.0)], (Relu(), AddScalar(3.0))),
        ([Relu(), MulScalar(2.0), (ChannelAdd(), VECTOR)], (Relu(), MulScalar(2.0), ChannelAdd())),
        ([MulScalar(2.0), (TensorAdd(), "r"), MulScalar(2.0)], (TensorAdd(),)),
        ([MulScalar(-1.0), (TensorAdd(), "r"), MulScalar(-1.0)], (TensorAdd(),)),
        ([AddScalar(0.0), MulScalar(1.0)], ()),
    ],
)
def test_what_is_left(items, left):
    chain = build_chain([V, W], [[step(*items)], []], "rows")
    assert chain.stages[0].epilogue == left
    x, extra = normal(5, 3), normal(5, 4, seed=9)
    np.testing.assert_allclose(
        chain.reference(x, [extra] * chain.extra_inputs), unfolded(x, items, [extra]), rtol=1e-5, atol=1e-5
    )


def test_the_last_factor_stays_where_nothing_follows():
    chain = build_chain([V], [[step(Relu(), MulScalar(2.0))]], "rows")
    assert chain.stages[0].epilogue == (Relu(), MulScalar(2.0))


@pytest.mark.parametrize("factor", [1e39, 1e-39, 0.0])
def test_factors_that_would_ruin_the_weights_stay(factor):
    items = [(ChannelMul(), np.array([1.0, factor, 1.0, 1.0]))]
    chain = build_chain([V, W], [[step(*items)], []], "rows")
    if factor == 0.0:
        assert np.all(chain.stages[0].weight[:, 1] == V[:, 1])
    assert chain.stages[0].epilogue == (ChannelMul(),)


def test_infinite_weights_stay_infinite():
    weight = V.copy()
    weight[0, 0] = np.inf
    chain = build_chain([weight], [[step(MulScalar(2.0))]], "rows")
    assert chain.stages[0].weight[0, 0] == np.inf


def test_weights_are_rounded_once():
    scale = np.full(4, 1 / 3)
    chain = build_chain([V], [[step((ChannelMul(), scale), MulScalar(3.0))]], "rows")
    np.testing.assert_array_equal(chain.stages[0].weight, V)


def test_extras_are_numbered_by_first_use():
    steps = [[step((TensorAdd(), "b"), Relu(), (TensorAdd(), "a"), (TensorAdd(), "b"))], []]
    chain = build_chain([V, W], steps, "rows")
    assert chain.stages[0].operands == (0, None, 1, 0)
    assert chain.extra_inputs == 2


def test_runs():
    run = build_run([step(Relu(), MulScalar(1.0)), step((ChannelAdd(), VECTOR), (TensorAdd(), "r"))], True)
    assert (run.ops, run.axis, run.channels) == ((Relu(), ChannelAdd(), TensorAdd()), "first", 4)


def test_runs_that_cancel_have_no_work():
    assert not has_work([step(MulScalar(2.0)), step(MulScalar(0.5), AddScalar(0.0))])
    assert has_work([step(Relu())])


@pytest.mark.parametrize("pair", [(1e30, 1e30), (1e-30, 1e-30), (1e30, 1e-30)])
def test_factors_that_cannot_be_one(pair):
    items = [Relu(), MulScalar(pair[0]), MulScalar(pair[1]), Relu()]
    chain = build_chain([V], [[step(*items)]], "rows")
    assert len(chain.stages[0].epilogue) == (2 if pair == (1e30, 1e-30) else 4)
