"""Shared by the tests of cascades: random data, and the devices that this processor has."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from regweave.cascades.device import choose_machine
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import Chain, ChannelAdd, Elementwise, Operand, Relu, Stage

DEVICES = (*(machine.name for machine in (AVX512, AVX2) if supports(machine)), "portable")

Floats = Callable[..., np.ndarray]


@pytest.fixture
def floats() -> Floats:
    """floats(3, 4): float32 in a range where results stay near one, the same in each run."""
    generator = np.random.default_rng(11)
    return lambda *shape: generator.uniform(-1, 1, shape).astype(np.float32)


@pytest.fixture(params=DEVICES)
def isa(request: pytest.FixtureRequest) -> str:
    """Each device that can run here, the portable one (which would say once that it is slow) among them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choose_machine("portable")
    return request.param


@pytest.fixture
def make_chain(floats: Floats) -> Callable[..., Chain]:
    """make_chain((8, 16, 4), Gelu(), order="pixels"): biases and one activation throughout.

    Weights are scaled so that values keep their size.
    """

    def make(
        widths: Sequence[int], op: Elementwise | None = None, order: str = "rows", block: int = 0
    ) -> Chain:
        stages = []
        for k, n in pairwise(widths):
            operands: tuple[Operand, ...] = (floats(n), None)
            weight = floats(k, n) / np.float32(np.sqrt(k / 3))
            stages.append(Stage(weight, (ChannelAdd(), op or Relu()), operands))
        return Chain(tuple(stages), order, block)  # type: ignore[arg-type]

    return make
