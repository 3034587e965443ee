"""Pools of blocked images against onnxruntime's plain ones: windows of all shapes, padding, threads, NaN."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from regweave.devices.onnxruntime import DOMAIN, NativeSession, unsupported_reason
from regweave.engine.natives.pooling import pool_operator
from regweave.errors import UnsupportedError
from regweave.kernels.blocks.pools import Pool
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators.blocks import from_blocks, to_blocks

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))

POOLS = [
    Pool((2, 2), (2, 2)),
    Pool((3, 3), (2, 2), (1, 1, 1, 1)),
    Pool((3, 2), (3, 2), mean=True),
    Pool((3, 3), (1, 1), (1, 1, 1, 1), mean=True),
    Pool((3, 3), (2, 1), (2, 0, 1, 2), mean=True, counts_padding=True),
    Pool((1, 5), (1, 3), (0, 4, 0, 2)),
    Pool((4, 1), (1, 1), (1, 0, 2, 0)),
]
CHANNELS = 40


@pytest.fixture(params=[AVX512, AVX2], ids=lambda machine: machine.name)
def machine(request):
    if not supports(request.param):
        pytest.skip(f"this processor is no {request.param.name}")
    return request.param


def session(node, operators=(), threads=1):
    ends = [helper.make_tensor_value_info(name, 1, [None] * 4) for name in ("x", "y")]
    graph = helper.make_graph([node], "pool", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return NativeSession(proto.SerializeToString(), operators, threads=threads)


def plain(pool):
    extra = {"count_include_pad": int(pool.counts_padding)} if pool.mean else {}
    return session(
        helper.make_node(
            "AveragePool" if pool.mean else "MaxPool", ["x"], ["y"],
            kernel_shape=pool.kernel, strides=pool.strides, pads=pool.pads, **extra,
        )
    )  # fmt: skip


def blocked(pool, machine, threads=1):
    padded = -(-CHANNELS // machine.lanes) * machine.lanes
    operator, _ = pool_operator("Pool", pool, padded, machine, threads)
    running = session(helper.make_node("Pool", ["x"], ["y"], domain=DOMAIN), [operator], threads)

    def run(x):
        batch, _, *size = x.shape
        blocks = to_blocks(x.reshape(batch, CHANNELS, size[0] * size[1]), machine.lanes).astype(np.float32)
        (y,) = running.run(None, {"x": blocks.reshape(batch, padded, *size)})
        high, wide = y.shape[2:]
        y = from_blocks(y.reshape(batch, padded // machine.lanes, high * wide, machine.lanes), CHANNELS)
        return y.reshape(batch, CHANNELS, high, wide)

    return run


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("threads", [1, 3])
def test_pools(pool, threads, machine):
    random = np.random.default_rng(0)
    theirs, ours = plain(pool), blocked(pool, machine, threads)
    for shape in ((1, CHANNELS, 5, 6), (2, CHANNELS, 7, 9), (1, CHANNELS, 40, 64), (1, CHANNELS, 4, 3)):
        x = random.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(ours(x), theirs.run(None, {"x": x})[0], rtol=1e-6, atol=1e-6)
    assert ours(np.zeros((0, CHANNELS, 8, 8), np.float32)).shape[0] == 0


def test_the_later_of_a_number_and_nan_is_the_largest(machine):
    x = np.zeros((1, CHANNELS, 2, 4), np.float32)
    x[0, 3, 0, 1], x[0, 4, 1, 3] = np.nan, np.nan
    found = np.isnan(blocked(Pool((2, 2), (2, 2)), machine)(x))
    assert found[0, 4, 0, 1]
    assert found.sum() == 1


def test_windows_in_padding_alone_are_refused(machine):
    with pytest.raises(UnsupportedError, match="no pixel"):
        pool_operator("Pool", Pool((2, 2), (1, 1), (2, 0, 0, 0)), 16, machine, 1)
