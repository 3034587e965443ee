"""Models that are odd as a whole: control flow, sizes as inputs, outputs without shapes, empty tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regweave

node = helper.make_node
SIZES = {"N": 40}


def value(name: str, shape: list | None = None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weights(*names: str) -> list[onnx.TensorProto]:
    random = np.random.default_rng(0)
    return [numpy_helper.from_array(random.normal(0, 0.1, (64, 64)).astype(np.float32), n) for n in names]


def model(nodes: list, inputs: list, outputs: list, opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "odd", inputs, outputs, weights("w0", "w1", "w2"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def layers(x: str, y: str, *names: str) -> list:
    """Products with ReLUs behind them."""
    found, at = [], x
    for number, name in enumerate(names):
        to = y if number == len(names) - 1 else f"{y}.{number}"
        found += [node("MatMul", [at, name], [f"{to}.m"]), node("Relu", [f"{to}.m"], [to])]
        at = to
    return found


X = value("x", ["N", 64])


def plain(opset: int = 17) -> onnx.ModelProto:
    return model(layers("x", "y", "w0", "w1"), [X], [value("y")], opset)


def untyped() -> onnx.ModelProto:
    result = plain()
    result.graph.output[0].ClearField("type")
    return result


def branches() -> onnx.ModelProto:
    """Both branches read a tensor inside what could be a chain."""

    def branch(name: str, weight: str) -> onnx.GraphProto:
        return helper.make_graph(layers("a", name, weight, "w1"), name, [], [value(name)])

    body = [
        *layers("x", "b", "w0", "w1", "w2"),
        node("Identity", ["b.0"], ["a"]),
        node("ReduceSum", ["a"], ["sum"], keepdims=0),
        node("Greater", ["sum", "sum"], ["condition"]),
        node("If", ["condition"], ["c"], then_branch=branch("t", "w1"), else_branch=branch("e", "w2")),
        node("Add", ["b", "c"], ["y"]),
    ]
    return model(body, [X], [value("y")])


def loop() -> onnx.ModelProto:
    inner = helper.make_graph(
        [*layers("state", "next", "w1", "w2"), node("Identity", ["going"], ["on"])],
        "body",
        [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("state")],
        [value("on", [], TensorProto.BOOL), value("next")],
    )
    body = [*layers("x", "a", "w0", "w1"), node("Loop", ["count", "", "a"], ["y"], body=inner)]
    return model(body, [X, value("count", [], TensorProto.INT64)], [value("y")])


def sizes_given() -> onnx.ModelProto:
    """Runs with few sizes, and nobody knows how many rows its products have."""
    body = [
        node("Resize", ["x", "", "", "size"], ["large"], mode="nearest"),
        *layers("large", "y", "w0", "w1"),
    ]
    return model(body, [X, value("size", [2], TensorProto.INT64)], [value("y")])


def one_size_given() -> onnx.ModelProto:
    """Runs with no rows or more, but -1."""
    body = [
        node("Concat", ["size", "width"], ["shape"], axis=0),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("ReduceSum", ["x"], ["sums"], keepdims=0),
        node("Div", ["width", "size"], ["shares"]),
        node("Add", ["zeros", "sums"], ["filled"]),
        *layers("filled", "y", "w0", "w1"),
    ]
    result = model(body, [X, value("size", [1], TensorProto.INT64)], [value("y"), value("shares", None, 7)])
    result.graph.initializer.append(numpy_helper.from_array(np.array([64]), "width"))
    return result


def ends_everywhere() -> onnx.ModelProto:
    """Outputs: the result, what is between the products, an input, a constant."""
    outputs = [value(name) for name in ("y", "y.0", "x", "w1")]
    return model(layers("x", "y", "w0", "w1"), [X], outputs)


def sequences() -> onnx.ModelProto:
    body = [
        node("SequenceConstruct", ["x", "x"], ["both"]),
        node("ConcatFromSequence", ["both"], ["joined"], axis=0),
        *layers("joined", "y", "w0", "w1"),
    ]
    return model(body, [X], [value("y")])


def not_a_number() -> onnx.ModelProto:
    result = plain()
    random = numpy_helper.to_array(result.graph.initializer[0]).copy()
    random[3, 5], random[7, 9] = np.nan, np.inf
    result.graph.initializer[0].CopyFrom(numpy_helper.from_array(random, "w0"))
    return result


def rows(count: int, /, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32), **more}


def whole(*numbers: int, shape: tuple = (-1,)) -> np.ndarray:
    return np.array(numbers, np.int64).reshape(shape)


ODD: dict[str, tuple[Callable[[], onnx.ModelProto], list[dict[str, np.ndarray]]]] = {
    "no shape": (plain, [rows(5), rows(0)]),
    "no type": (untyped, [rows(5)]),
    "branches": (branches, [rows(5), rows(40)]),
    "a loop": (loop, [rows(5, count=whole(3, shape=())), rows(40, count=whole(0, shape=()))]),
    "sizes": (sizes_given, [rows(5, size=whole(7, 64))]),
    "ends everywhere": (ends_everywhere, [rows(5), rows(0)]),
    "a size": (one_size_given, [rows(5, size=whole(7))]),
    "sequences": (sequences, [rows(5)]),
    "not a number": (not_a_number, [rows(5), rows(40)]),
    **{f"opset {n}": ((lambda n=n: plain(n)), [rows(5)]) for n in range(7, 25)},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_models_run_as_in_onnxruntime(name, run):
    make, inputs = ODD[name]
    proto = make()
    fused = regweave.fuse(proto, dims=SIZES)
    for x in inputs:
        found = fused.run(x)
        for given, expected in zip(found.values(), run(proto, x), strict=True):
            assert given.dtype == expected.dtype
            np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)


def test_a_model_of_unguessable_whole_numbers_is_left_to_onnxruntime(run):
    fused = regweave.fuse(sizes_given(), dims=SIZES)
    assert not fused.report.fused
    assert all("does not run with inputs" in piece.reason for piece in fused.report.cascades)


def test_a_model_of_unguessable_scales_is_left_to_onnxruntime(run):
    body = [node("Resize", ["x", "", "scales"], ["large"], mode="nearest"), *layers("large", "y", "w0", "w1")]
    proto = model(body, [value("x", [5, 64]), value("scales", [2])], [value("y")])
    fused = regweave.fuse(proto)
    assert not fused.report.fused
    feeds = rows(5, scales=np.array([3, 1], np.float32))
    np.testing.assert_array_equal(fused.run(feeds)["y"], run(proto, feeds)[0])
