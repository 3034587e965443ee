"""Element-wise sweeps in every form, against float64, in any number of parts, without a step outside."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.errors import UnsupportedError
from regweave.kernels.sweeps import RunStructure, run_arguments, sweep_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import ChannelAdd, ChannelMul, Gelu, HardSwish, Relu, TensorAdd, TensorMul
from regweave.operators.blocks import from_blocks, to_blocks

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="needs AVX2 or AVX-512")
GUARD = 64


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def machine(request):
    return request.param


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sweep(structure, machine, x, extras=(), vectors=(), *, rows, batch=1, parts=1):
    """The kernel's result; what lies around it must stay untouched."""
    function = cpu.load(sweep_kernel(structure, machine))
    memory = np.full(x.size + 2 * GUARD, -77.0, np.float32)
    arguments = run_arguments(structure)()
    arguments.x, arguments.y = x.ctypes.data, memory[GUARD:].ctypes.data
    arguments.rows, arguments.batch, arguments.parts = rows, batch, parts
    padded = [np.concatenate([v, np.zeros(-v.size % 16, np.float32)]) for v in vectors]
    for field, arrays in ((arguments.extras, extras), (arguments.weights, padded)):
        for index, array in enumerate(arrays):
            field[index] = array.ctypes.data
    for part in range(parts):
        function(ctypes.addressof(arguments), part)
    assert (memory[:GUARD] == -77).all()
    assert (memory[GUARD + x.size :] == -77).all()
    return memory[GUARD : GUARD + x.size].reshape(x.shape)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 63, 64, 65, 1003])
@pytest.mark.parametrize("parts", [1, 3])
def test_flat(machine, count, parts):
    x, extra = values(count), values(count, seed=1)
    structure = RunStructure((HardSwish(), TensorAdd()), (None, 0), "flat")
    y = sweep(structure, machine, x, [extra], rows=count, parts=parts)
    np.testing.assert_allclose(y, HardSwish().reference(x.astype(np.float64)) + extra, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 16, 50])
@pytest.mark.parametrize("rows", [0, 1, 37])
@pytest.mark.parametrize("parts", [1, 4])
def test_rows(machine, channels, rows, parts):
    x, scale = values(rows, channels), values(channels, seed=1)
    structure = RunStructure((ChannelMul(), TensorAdd(), Relu()), (None, 0, None), "rows", channels)
    y = sweep(structure, machine, x, [x], [scale], rows=rows, parts=parts)
    np.testing.assert_allclose(y, np.maximum(x * scale + x, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pixels", [0, 1, 33, 150])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("form", ["planes", "blocks"])
def test_images_with_gates_bias_and_residual(machine, pixels, parts, form):
    batch, channels = 2, 3 * machine.lanes
    x, gate, bias = values(batch, channels, pixels), values(batch, channels, seed=1), values(channels, seed=2)
    ops = (TensorMul(), TensorAdd(), ChannelAdd(), Gelu())
    structure = RunStructure(ops, (0, 1, None, None), form, channels, frozenset({0}))
    wide = x.astype(np.float64)
    expected = Gelu().reference(wide * gate[:, :, None] + wide + bias[:, None])
    given = to_blocks(x, machine.lanes) if form == "blocks" else x
    y = sweep(structure, machine, given, [gate, given], [bias], rows=pixels, batch=batch, parts=parts)
    y = from_blocks(y, channels) if form == "blocks" else y
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_planes_may_lie_apart(machine):
    """Rows of larger images: every tensor has its own distance between planes."""
    channels, pixels = 5, 37
    x, other, gate = values(channels, 50), values(channels, 40, seed=1), values(channels, seed=2)
    structure = RunStructure((TensorMul(), TensorAdd()), (0, 1), "planes", channels, frozenset({0}))
    y = np.full((channels, 44), -77.0, np.float32)
    arguments = run_arguments(structure)()
    arguments.x, arguments.y, arguments.rows, arguments.batch = x.ctypes.data, y.ctypes.data, pixels, 1
    arguments.parts, arguments.x_pitch, arguments.y_pitch = 1, x.strides[0], y.strides[0]
    arguments.extras[0], arguments.extras[1] = gate.ctypes.data, other.ctypes.data
    arguments.pitches[1] = other.strides[0]
    cpu.load(sweep_kernel(structure, machine))(ctypes.addressof(arguments), 0)
    expected = x[:, :pixels] * gate[:, None] + other[:, :pixels]
    np.testing.assert_allclose(y[:, :pixels], expected, rtol=1e-6, atol=1e-6)
    assert (y[:, pixels:] == -77).all()


def test_nothing_happens_without_images(machine):
    structure = RunStructure((TensorMul(),), (0,), "planes", 16, frozenset({0}))
    sweep(structure, machine, values(0, 16, 5), [values(0, 16)], rows=5, batch=0)


def test_nan_and_infinity_pass(machine):
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    y = sweep(RunStructure((Relu(),), (None,), "flat"), machine, x, rows=4)
    np.testing.assert_array_equal(y, [np.nan, np.inf, 0.0, 1.0])


def test_too_many_operands_are_refused(machine):
    structure = RunStructure((TensorAdd(),) * 7, tuple(range(7)), "flat")
    with pytest.raises(UnsupportedError, match="7 operands"):
        sweep_kernel(structure, machine)
