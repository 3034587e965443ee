"""Element-wise runs on blocked images with one input that is enlarged."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels.blocks.enlarging import EnlargingArguments, EnlargingRun, can_enlarge, enlarging_kernel
from regweave.kernels.sweeps import RunStructure
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import ChannelAdd, Relu, TensorAdd, TensorMul

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor runs no native kernels")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize("scale", [2, 3, 4, 8])
def test_a_gate_a_residual_and_an_enlarged_image(machine, scale):
    ops = (TensorMul(), TensorAdd(), TensorAdd(), Relu())
    random, lanes = np.random.default_rng(scale), machine.lanes
    for images, blocks, rows, columns in ((1, 3, 4, 5), (2, 1, 1, 1), (1, 2, 7, 3), (3, 2, 2, 9)):
        run = RunStructure(ops, (0, 1, 2, None), "blocks", blocks * lanes, frozenset({0}))
        work = EnlargingRun(run, 2, scale)
        assert can_enlarge(work)
        kernel = cpu.load(enlarging_kernel(work, machine))
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(kernel.address)
        large = (images, blocks, rows * scale, columns * scale, lanes)
        x, other = (random.standard_normal(large).astype(np.float32) for _ in range(2))
        gate = random.standard_normal((images, blocks, 1, 1, lanes)).astype(np.float32)
        small = random.standard_normal((images, blocks, rows, columns, lanes)).astype(np.float32)
        expected = np.maximum(x * gate + other + small.repeat(scale, 2).repeat(scale, 3), 0)
        for parts in (1, 3):
            room = np.full(x.size + 2 * lanes, 7, np.float32)
            y = room[lanes:-lanes].reshape(large)
            arguments = EnlargingArguments(
                x=x.ctypes.data, y=y.ctypes.data, images=images, blocks=blocks, rows=rows, columns=columns,
                parts=parts,
            )  # fmt: skip
            for index, extra in enumerate((gate, other, small)):
                arguments.extras[index] = extra.ctypes.data
            for part in range(parts):
                call(ctypes.addressof(arguments), part)
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
            assert (room[:lanes] == 7).all()
            assert (room[-lanes:] == 7).all()


def test_what_has_no_kernel():
    gated = RunStructure((TensorMul(), TensorAdd()), (0, 1), "blocks", 16, frozenset({0}))
    assert can_enlarge(EnlargingRun(gated, 1, 2))
    for work in (
        EnlargingRun(gated, 0, 2),
        EnlargingRun(gated, 1, 1),
        EnlargingRun(gated, 1, 9),
        EnlargingRun(RunStructure((TensorAdd(),), (0,), "planes", 16), 0, 2),
        EnlargingRun(RunStructure((TensorAdd(), ChannelAdd()), (0, None), "blocks", 16), 0, 2),
        EnlargingRun(RunStructure((TensorAdd(),) * 5, (0, 1, 2, 3, 4), "blocks", 16), 0, 2),
    ):
        assert not can_enlarge(work)
