"""Activations as machine code: the same values as in NumPy, a known number of instructions and registers."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.assembly import Builder, Listing
from regweave.devices import cpu
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath
from regweave.kernels.functions.vectormath import NumpyMath
from regweave.machines.x86 import AVX2, AVX512, VectorMachine, supports
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
    TensorMul,
)

# epilogue -> vector instructions on (AVX-512, AVX2), loads of constants included
GOLDEN: dict[tuple[Elementwise, ...], tuple[int, int]] = {
    (Relu(),): (2, 2),
    (LeakyRelu(0.1),): (2, 2),
    (LeakyRelu(1.5),): (2, 2),
    (Clip(0, 6),): (4, 4),
    (HardSigmoid(),): (6, 6),
    (HardSwish(),): (7, 7),
    (AddScalar(1),): (1, 1),
    (MulScalar(2),): (1, 1),
    (ChannelAdd(),): (1, 1),
    (ChannelMul(),): (1, 1),
    (TensorMul(),): (1, 1),
    (Sigmoid(),): (12, 20),
    (Silu(),): (11, 19),
    (Tanh(),): (17, 17),
    (Gelu(),): (21, 21),
    (Gelu("tanh"),): (14, 22),
    (ChannelMul(), ChannelAdd(), Relu()): (4, 4),
    (MulScalar(2), AddScalar(1)): (2, 2),
}
MACHINES = (AVX512, AVX2)


def _listing(machine: VectorMachine, ops: tuple[Elementwise, ...]) -> Listing:
    """y[i] = ops(x[i], extra[i]) for a count that is a multiple of the lanes."""
    b = Builder(machine, name="activation", arguments=("x", "y", "count", "extra"))
    b.label("loop")
    x = b.vector("value")
    b.emit("load", x, b.at("x"))
    y = activate_all(BuilderMath(b), ops, x, lambda index: b.at("extra"))
    b.emit("store", b.at("y"), y)
    for pointer in ("x", "y", "extra"):
        b.emit("add", b[pointer], machine.vector_bytes)
    b.emit("sub", b["count"], machine.lanes)
    b.emit("jump_greater", "loop")
    b.emit("return")
    return b.finish()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("ops", GOLDEN, ids=lambda ops: " ".join(map(str, ops)))
def test_cost(ops: tuple[Elementwise, ...], machine: VectorMachine) -> None:
    listing = _listing(machine, ops)
    frame = 3  # the load and the store of the loop, vzeroupper
    lines = [line for line in listing.text.splitlines() if line.startswith("v")]
    assert len(lines) - frame == GOLDEN[ops][MACHINES.index(machine)]
    assert listing.pressure.most["vector"] <= 6  # of GELU by table; the others take 5 at most


def _values() -> np.ndarray:
    sizes = np.concatenate([np.geomspace(1e-30, 3e38, 20_000), np.geomspace(1e-3, 200, 30_000)])
    special = np.array([np.inf, np.nan, 0.0, 1e-42] * 8)
    values = np.concatenate([sizes, special]).astype(np.float32)
    return np.concatenate([values, -values])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("ops", GOLDEN, ids=lambda ops: " ".join(map(str, ops)))
def test_same_values_as_numpy(ops: tuple[Elementwise, ...], machine: VectorMachine) -> None:
    if not supports(machine):
        pytest.skip(f"this processor has no {machine.name}")
    x = _values()
    extra = np.random.default_rng(2).standard_normal(x.size).astype(np.float32)
    y = np.empty_like(x)
    cpu.load(_listing(machine, ops))(x.ctypes.data, y.ctypes.data, x.size, extra.ctypes.data)
    expected = activate_all(NumpyMath(machine.lanes), ops, x, lambda index: extra)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    finite = np.isfinite(expected) & (np.abs(expected) > 1e-37)
    np.testing.assert_allclose(y[finite], expected[finite], rtol=2.4e-7)
    np.testing.assert_array_equal(y[np.isinf(expected)], expected[np.isinf(expected)])
    tiny = np.abs(expected) <= 1e-37
    assert (np.abs(y[tiny]) <= 1.1e-37).all()
