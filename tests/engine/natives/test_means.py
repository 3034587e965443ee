"""Means of planes of blocked images: exact for large planes, any number of pixels, images and threads."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from regweave.devices.onnxruntime import DOMAIN, NativeSession, unsupported_reason
from regweave.engine.natives.natives import Natives
from regweave.machines.x86 import AVX2, AVX512, VectorMachine, supports
from regweave.operators.blocks import from_blocks, to_blocks

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
@pytest.mark.parametrize("threads", [1, 3])
def test_means(machine: VectorMachine, threads: int) -> None:
    if not supports(machine):
        pytest.skip(f"this processor is no {machine.name}")
    random, block = np.random.default_rng(0), machine.lanes
    operator = Natives(machine, threads, block).mean(48, "Mean48").operator
    ends = [helper.make_tensor_value_info(name, 1, [None] * 4) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Mean48", ["x"], ["y"], domain=DOMAIN)], "mean", ends[:1], ends[1:]
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = NativeSession(proto.SerializeToString(), [operator], threads=threads)
    for batch, height, width in (
        (1, 1, 1),
        (2, 1, 3),
        (1, 3, 5),
        (3, 16, 16),
        (1, 31, 41),
        (2, 100, 80),
        (0, 2, 2),
    ):
        x = random.standard_normal((batch, 48, height * width)).astype(np.float32) + 3
        blocked = to_blocks(x, block).astype(np.float32).reshape(batch, 48, height, width)
        (y,) = session.run(None, {"x": blocked})
        assert y.shape == (batch, 48, 1, 1)
        means = from_blocks(y.reshape(batch, 48 // block, 1, block), 48)[..., 0]
        np.testing.assert_allclose(means, x.mean(2, dtype=np.float64), rtol=2.5e-7)
