"""Random chains on random data: any widths, orders, operators and operands agree with the reference."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regweave.cascades import compile_chain
from regweave.operators import (
    Chain,
    ChannelAdd,
    ChannelMul,
    Elementwise,
    Gelu,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Operand,
    Relu,
    Stage,
    Tanh,
    TensorAdd,
    TensorMul,
    to_blocks,
)

OPS: tuple[Elementwise, ...] = (
    Relu(),
    LeakyRelu(0.2),
    HardSwish(),
    Tanh(),
    Gelu(),
    MulScalar(0.7),
    ChannelAdd(),
    ChannelMul(),
    TensorAdd(),
    TensorMul(),
)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Chain, int, int]:
    """(chain, rows or pixels, seed of the data)."""
    widths = draw(st.lists(st.integers(1, 90), min_size=2, max_size=5))
    order = draw(st.sampled_from(["rows", "pixels", "blocked"]))
    seed = draw(st.integers(0, 2**16))
    generator = np.random.default_rng(seed)
    extra = 0
    stages = []
    for k, n in pairwise(widths):
        ops = draw(st.lists(st.sampled_from(OPS), max_size=3))
        operands: list[Operand] = []
        for op in ops:
            if op.operand == "channel":
                operands.append(generator.uniform(-1, 1, n).astype(np.float32))
            elif op.operand == "tensor" and extra < 3:
                operands.append(extra)
                extra += 1
            else:
                operands.append(None)
        kept = [i for i, op in enumerate(ops) if op.operand == "none" or operands[i] is not None]
        weight = (generator.uniform(-1, 1, (k, n)) / np.sqrt(k / 3)).astype(np.float32)
        stages.append(Stage(weight, tuple(ops[i] for i in kept), tuple(operands[i] for i in kept)))
    block = 16 if order == "blocked" else 0
    return Chain(tuple(stages), order, block), draw(st.integers(1, 130)), seed  # type: ignore[arg-type]


def _tensor(generator: np.random.Generator, chain: Chain, width: int, count: int) -> np.ndarray:
    shape = (count, width) if chain.order == "rows" else (2, width, count)
    values = generator.uniform(-1, 1, shape).astype(np.float32)
    return to_blocks(values, chain.block) if chain.order == "blocked" else values


@pytest.mark.parametrize("threads", [1, 2])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=chains())
def test_random_chains(isa: str, threads: int, case: tuple[Chain, int, int]) -> None:
    chain, count, seed = case
    generator = np.random.default_rng(seed + 1)
    x = _tensor(generator, chain, chain.widths[0], count)
    extras = [_tensor(generator, chain, width, count) for width in chain.extra_widths]
    got = compile_chain(chain, threads=threads, isa=isa)(x, extras)
    expected = chain.reference(x, extras)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5)
