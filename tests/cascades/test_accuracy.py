"""Errors of whole cascades against float64, beside onnxruntime's own on the same data: no more than twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from regweave.cascades import compile_chain
from regweave.operators import Chain, Elementwise, Gelu, HardSwish, Relu, Sigmoid, Silu, Tanh

Floats = Callable[..., np.ndarray]
NODES: dict[Elementwise, str] = {
    Relu(): "Relu",
    Gelu(): "Gelu",
    HardSwish(): "HardSwish",
    Sigmoid(): "Sigmoid",
    Tanh(): "Tanh",
    Silu(): "Silu",
}


def _onnxruntime(chain: Chain, kind: str, x: np.ndarray) -> np.ndarray:
    """The chain as MatMul, Add and activation nodes in onnxruntime."""
    nodes, constants, value = [], [], "x"
    for index, stage in enumerate(chain.stages):
        bias = stage.operands[0]
        assert isinstance(bias, np.ndarray)
        constants += [
            numpy_helper.from_array(a, f"{n}{index}") for n, a in (("w", stage.weight), ("b", bias))
        ]
        nodes.append(helper.make_node("MatMul", [value, f"w{index}"], [f"m{index}"]))
        nodes.append(helper.make_node("Add", [f"m{index}", f"b{index}"], [f"a{index}"]))
        value = f"y{index}"
        if kind == "Silu":
            nodes.append(helper.make_node("Sigmoid", [f"a{index}"], [f"s{index}"]))
            nodes.append(helper.make_node("Mul", [f"a{index}", f"s{index}"], [value]))
        else:
            nodes.append(helper.make_node(kind, [f"a{index}"], [value]))
    ends = [helper.make_tensor_value_info(name, 1, None) for name in ("x", value)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("widths", [(64, 64, 64, 64), (192, 384, 192), (384, 1536, 384)], ids=str)
@pytest.mark.parametrize("op", NODES, ids=str)
def test_no_worse_than_twice_onnxruntime(
    floats: Floats, make_chain: Callable[..., Chain], isa: str, op: Elementwise, widths: tuple[int, ...]
) -> None:
    chain = make_chain(widths, op)
    x = 3 * floats(200, widths[0])
    exact = chain.reference(x)
    ours = np.abs(compile_chain(chain, isa=isa)(x) - exact)
    theirs = np.abs(_onnxruntime(chain, NODES[op], x) - exact)
    assert ours.max() <= 2 * theirs.max()
    assert np.sqrt((ours**2).mean()) <= 2 * np.sqrt((theirs**2).mean())
