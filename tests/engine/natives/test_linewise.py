"""Operators on lines, in onnxruntime: shapes of any rank, axes that go or stay, threads, lines that do not
fit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from regweave.devices.onnxruntime import DOMAIN, NativeSession, unsupported_reason
from regweave.engine.natives.linewise import linewise_operator
from regweave.errors import DeviceError
from regweave.kernels.tensors.lines import LargestOfLine, LayerNorm, Mean, Softmax
from regweave.machines.x86 import AVX2, AVX512, supports

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))


@pytest.fixture(params=[AVX512, AVX2], ids=lambda machine: machine.name)
def machine(request):
    if not supports(request.param):
        pytest.skip(f"this processor is no {request.param.name}")
    return request.param


def session(operator, rank, out_rank, threads=1):
    ends = [helper.make_tensor_value_info(n, 1, [None] * r) for n, r in (("x", rank), ("y", out_rank))]
    node = helper.make_node(operator.name, ["x"], ["y"], domain=DOMAIN)
    graph = helper.make_graph([node], "lines", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return NativeSession(proto.SerializeToString(), [operator], threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_planes_are_reduced(machine, threads):
    random = np.random.default_rng(0)
    for work, reduce in ((Mean(), np.mean), (LargestOfLine(), np.max)):
        for keep in (True, False):
            operator, _ = linewise_operator("Reduced", work, 2, machine, threads, keep=keep)
            running = session(operator, 4, 4 if keep else 2, threads)
            for shape in ((1, 1, 1, 1), (2, 5, 3, 7), (3, 12, 64, 48), (0, 2, 3, 3)):
                x = random.standard_normal(shape).astype(np.float32) + 1
                expected = reduce(x.astype(np.float64), axis=(2, 3), keepdims=keep)
                np.testing.assert_allclose(running.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(9,), (4, 33), (2, 40, 120), (1, 3, 8, 15), (2, 0, 7), (2, 7, 0)])
def test_softmax_of_any_rank(machine, shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 4
    operator, _ = linewise_operator("Softmax", Softmax(), 1, machine, 1)
    (y,) = session(operator, len(shape), len(shape)).run(None, {"x": x})
    power = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True, initial=-1e9))
    np.testing.assert_allclose(y, power / power.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("with_bias", [True, False])
def test_layer_norm(machine, with_bias):
    random = np.random.default_rng(2)
    x, scale, bias = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 40), 40, 40))
    given = bias if with_bias else None
    operator, _ = linewise_operator("Norm", LayerNorm(1e-6), 1, machine, 1, scale=scale, bias=given)
    running = session(operator, 3, 3)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-6) * scale
    expected = expected + bias if with_bias else expected
    np.testing.assert_allclose(running.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(DeviceError, match=r"lines of 39 elements"):
        running.run(None, {"x": x[..., :39]})


def test_lines_without_elements_have_no_mean(machine):
    operator, _ = linewise_operator("Reduced", Mean(), 2, machine, 1)
    with pytest.raises(DeviceError, match="lines without elements"):
        session(operator, 4, 4).run(None, {"x": np.zeros((1, 2, 0, 3), np.float32)})
