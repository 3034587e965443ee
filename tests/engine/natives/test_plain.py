"""Native twins of nodes on plain tensors: what they take and what they leave, for all that ONNX allows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import foreign
from onnx import TensorProto, helper, numpy_helper

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import DOMAIN, unsupported_reason
from regweave.engine.building.building import build, joined
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.moving import cut
from regweave.engine.natives.natives import Natives
from regweave.graphs import find_pieces, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)


class Tensors:
    """A model of plain tensors, node by node; what is between two soft maxima can be one operator."""

    def __init__(self, opset: int = 17, **inputs) -> None:
        self.opset, self.nodes, self.constants = opset, [], []
        self.inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]

    def constant(self, value) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, op_type: str, *inputs: str, domain: str = "", **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op_type, inputs, [name], f"n{len(self.nodes)}", domain=domain, **attributes)
        )
        return name

    def model(self, *outputs: str) -> onnx.ModelProto:
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "tensors", self.inputs, made, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if self.opset < 21 else 10)
        return onnx.shape_inference.infer_shapes(model)


def stood_in(proto: onnx.ModelProto, dims=None, threads: int = 1):
    model = read_model(proto, dims or {})
    natives = Natives(chosen_machine(), threads, block_size())
    with Workshop() as shop:
        built = joined(build(model, [], natives, shop), natives, shop.path)
        return built, built.open(shop, threads)


def check(proto, session, run, *feeds):
    for feed in feeds:
        for found, right in zip(session.run(None, feed), run(proto, feed), strict=True):
            assert found.shape == right.shape
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def attention(m: Tensors, x: str, heads: int, width: int) -> str:
    """Scores and sums of values of [batch, rows, 3 * heads * width], as vision models write them."""
    five = m("Reshape", x, m.constant(np.array([0, -1, 3, heads, width])))
    moved = m("Transpose", five, perm=[2, 0, 3, 1, 4])
    parts = []
    for index in range(3):
        bounds = (m.constant(np.array([value])) for value in (index, index + 1, 0))
        parts.append(m("Squeeze", m("Slice", moved, *bounds), m.constant(np.array([0]))))
    q, k, v = parts
    scaled = m("Mul", q, m.constant(np.float32(width**-0.5)))
    scores = m("Softmax", m("MatMul", scaled, m("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
    return m(
        "Reshape",
        m("Transpose", m("MatMul", scores, v), perm=[0, 2, 1, 3]),
        m.constant(np.array([0, -1, heads * width])),
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_an_attention_is_one_operator_in_every_size(threads, run):
    m = Tensors(x=["batch", "rows", 72])
    y = attention(m, m("Softmax", "x", axis=-1), 4, 6)
    proto = m.model(m("Softmax", y, axis=-1))
    built, session = stood_in(proto, {"batch": 1, "rows": 10}, threads)
    assert foreign(built.proto) == []
    assert len(built.proto.graph.node) == 1
    check(proto, session, run, *({"x": random(*shape, 72)} for shape in ((1, 10), (2, 17), (1, 1), (3, 40))))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("Transpose", (), {}), ("Transpose", (), {"perm": [1, 2, 0]}), ("Flatten", (), {"axis": 2}),
        ("Flatten", (), {"axis": -1}), ("Flatten", (), {"axis": 0}),
        ("Reshape", ([4, -1],), {}), ("Reshape", ([0, 0, 5, 3],), {}), ("Reshape", ([-1],), {}),
        ("Unsqueeze", ([0, -1],), {}), ("Squeeze", ([-1],), {}),
        ("Slice", ([1], [3], [1]), {}), ("Slice", ([-1, 2], [-(2**40), 2**40], [2, 1], [-2, 3]), {}),
        ("Slice", ([1, 0, 2], [2, 6, 14]), {}), ("Slice", ([100], [2], [2], [-4]), {}),
        ("Slice", ([5], [2], [1]), {}),
    ],
)  # fmt: skip
def test_views_and_moves(op_type, inputs, attributes, run):
    shape = (4, 6, 1) if op_type == "Squeeze" else (4, 6, 15)
    m = Tensors(x=shape)
    constants = [m.constant(np.array(value, np.int64)) for value in inputs]
    y = m(op_type, m("Softmax", "x", axis=-1), *constants, **attributes)
    proto = m.model(m("Flatten", m("Softmax", y, axis=-1)) if op_type != "Slice" else y)
    built, session = stood_in(proto)
    empty = run(proto, {"x": random(*shape)})[0].size == 0
    assert foreign(built.proto) == [] or empty
    check(proto, session, run, {"x": random(*shape)})


@pytest.mark.parametrize("opset", [11, 12])
def test_axes_and_lines_of_early_operator_sets(opset, run):
    m = Tensors(opset, x=(3, 1, 4, 5))
    a = m("Squeeze", m("Softmax", "x"), axes=[1])
    proto = m.model(m("Flatten", m("Softmax", m("Unsqueeze", a, axes=[0, 3]), axis=-2), axis=2))
    built, session = stood_in(proto)
    assert foreign(built.proto) == []
    check(proto, session, run, {"x": random(3, 1, 4, 5)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joins_of_several(axis, run):
    m = Tensors(a=["p", 3, 5], b=["p", 3, 5])
    first, second = (m("Softmax", name, axis=-1) for name in ("a", "b"))
    proto = m.model(m("Softmax", m("Concat", first, second, first, axis=axis), axis=-1))
    built, session = stood_in(proto, {"p": 2})
    assert foreign(built.proto) == []
    check(proto, session, run, *({"a": random(p, 3, 5), "b": 2 * random(p, 3, 5)} for p in (2, 7, 1)))


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_of_pairs_in_all_orders(left, right, run):
    m = Tensors(a=[2, "p", 7, 9], b=[2, "p", 9, 11])
    a, b = (m("Softmax", name, axis=-1) for name in ("a", "b"))
    a = m("Transpose", a, perm=[0, 1, 3, 2]) if left else a
    b = m("Transpose", b, perm=[0, 1, 3, 2]) if right else b
    y = m("FusedMatMul", a, b, domain="com.microsoft", transA=left, transB=right, alpha=-1.5)
    proto = m.model(m("Softmax", y, axis=-1))
    built, session = stood_in(proto, {"p": 3})
    assert foreign(built.proto) == []
    check(proto, session, run, *({"a": random(2, p, 7, 9), "b": random(2, p, 9, 11)} for p in (3, 1, 6)))


def test_a_classifier_ends_in_the_same_operator(run):
    m = Tensors(11, x=["batch", 40, 1, 1])
    a = m("Reshape", m("Softmax", "x"), m.constant(np.array([-1, 40])))
    weight = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    y = m("Gemm", a, m.constant(weight), m.constant(np.float32([1, 2, 3])), transB=1)
    proto = m.model(m("Softmax", y))
    built, session = stood_in(proto, {"batch": 1})
    assert foreign(built.proto) == []
    check(proto, session, run, *({"x": random(batch, 40, 1, 1)} for batch in (1, 5, 2)))


def test_a_size_that_is_computed_is_known_from_the_shapes(run):
    m = Tensors(x=["batch", 8, "rows"])
    a = m("Softmax", "x", axis=-1)
    first = m("Slice", m("Shape", a), *(m.constant(np.array([value])) for value in (0, 1, 0)))
    target = m("Concat", first, m.constant(np.array([2, 4, -1])), axis=0)
    proto = m.model(m("Softmax", m("Reshape", a, target), axis=-1))
    built, session = stood_in(proto, {"batch": 1, "rows": 6})
    assert foreign(built.proto) == [], "neither is the shape worked out any more"
    check(proto, session, run, *({"x": random(*shape)} for shape in ((1, 8, 6), (3, 8, 11), (2, 8, 1))))


def test_views_that_leave_are_right_wherever_they_lie(run):
    """A tensor and two views of it, inside, outside, both as outputs."""
    m = Tensors(x=["batch", 4, 6])
    a = m("Softmax", "x", axis=-1)
    b = m("Reshape", a, m.constant(np.array([0, 24])))
    c = m("Reshape", b, m.constant(np.array([0, 2, 12])))
    d = m("Softmax", c, axis=-1)
    e = m("Reshape", "x", m.constant(np.array([0, 24])))
    f = m("Softmax", e, axis=-1)
    for outputs in ((a, b, c, d), (c, d, a), (b, f), (e, f, d), (d, c), (f, b, c)):
        proto = m.model(*outputs)
        built, session = stood_in(proto, {"batch": 2})
        assert any(node.domain == DOMAIN for node in built.proto.graph.node)
        check(proto, session, run, {"x": random(2, 4, 6)}, {"x": random(5, 4, 6)})


def test_what_would_cross_with_five_dimensions_stays(run):
    """onnxruntime's call passes four; within an operator there may be more."""
    m = Tensors(x=[2, 3, 4, 30])
    five = m("Reshape", m("Softmax", "x", axis=-1), m.constant(np.array([2, 3, 4, 5, 6])))
    moved = m("Transpose", five, perm=[0, 4, 1, 2, 3])
    y = m("Softmax", m("Reshape", moved, m.constant(np.array([12, -1]))), axis=-1)
    for outputs, left in (((y,), []), ((y, five), ["Reshape"])):
        built, session = stood_in(m.model(*outputs))
        assert [kind for kind in foreign(built.proto) if kind in ("Reshape", "Transpose")] == left or left
        check(m.model(*outputs), session, run, {"x": random(2, 3, 4, 30)})


def test_moves_alone_join_nothing(run):
    m = Tensors(x=[6, 4, 30])
    a = m("Transpose", m("Reshape", m("Cos", "x"), m.constant(np.array([6, 2, 60]))), perm=[1, 0, 2])
    proto = m.model(m("Cos", m("Reshape", a, m.constant(np.array([2, -1])))))
    built, session = stood_in(proto)
    assert {"Cos", "Reshape", "Transpose"} == set(foreign(built.proto))
    check(proto, session, run, {"x": random(6, 4, 30)})


def test_runs_with_a_number_for_each_of_the_last_axis_keep_the_other_axes(run):
    m = Tensors(x=["batch", 12, 9, 8])
    a = m("Add", "x", m.constant(np.arange(8, dtype=np.float32)))
    proto = m.model(m("Softmax", a, axis=-1), m("MatMul", a, m.constant(np.eye(8, 5, dtype=np.float32))))
    model = read_model(proto, {"batch": 2})
    natives = Natives(chosen_machine(), 1, block_size())
    with Workshop() as shop:
        built = build(model, find_pieces(model), natives, shop)
        assert sum(node.domain == DOMAIN for node in built.proto.graph.node) == 2
        for session in (built.open(shop, 1), joined(built, natives, shop.path).open(shop, 1)):
            check(proto, session, run, *({"x": random(batch, 12, 9, 8)} for batch in (2, 1, 0)))


def test_nodes_without_names_are_not_taken_for_one_another(run):
    """What onnxruntime makes of a function has none."""
    m = Tensors(21, x=["batch", 6, 8])
    a = m("Add", m("Softmax", "x", axis=-1), m.constant(np.float32(0.5)))
    proto = m.model(m("Softmax", m("HardSwish", a), axis=-1))
    built, session = stood_in(proto, {"batch": 1})
    assert foreign(built.proto) == []
    check(proto, session, run, *({"x": random(batch, 6, 8)} for batch in (1, 3)))


@pytest.mark.parametrize("kind", ["integers", "scatter", "broadcast", "large"])
def test_what_is_left_to_onnxruntime(kind, run):
    m = Tensors(a=[2, 6, 8], b=[2, 8, 300])
    a, b = m("Softmax", "a", axis=-1), m("Softmax", "b", axis=-1)
    if kind == "integers":
        y = m("Cast", m("Transpose", m("Cast", a, to=TensorProto.INT64)), to=TensorProto.FLOAT)
        left = "Transpose"
    elif kind == "scatter":
        y, left = m("CumSum", a, m.constant(np.int64(1))), "CumSum"
    elif kind == "broadcast":
        y = m(
            "MatMul",
            a,
            m(
                "Squeeze",
                m("Slice", b, *(m.constant(np.array([v])) for v in (0, 1, 0))),
                m.constant(np.array([0])),
            ),
        )
        left = "MatMul"
    else:
        wide = m("Concat", *[b] * 30, axis=2)
        y, left = m("MatMul", a, wide), "MatMul"
    proto = m.model(m("Softmax", y, axis=-1))
    built, session = stood_in(proto)
    assert left in foreign(built.proto)
    check(proto, session, run, {"a": random(2, 6, 8), "b": random(2, 8, 300)})


def test_indices_of_slices_are_onnxruntimes(run):
    numbers = np.random.default_rng(0)
    for size in range(1, 7):
        m, expected = Tensors(x=[size]), []
        for _ in range(40):
            first, last = map(int, numbers.integers(-12, 13, 2))
            step = int(numbers.choice([1, 2, 5, -1, -2, -7]))
            m("Slice", "x", *(m.constant(np.array([value])) for value in (first, last, 0, step)))
            expected.append(list(cut(size, first, last, step)))
        names = [node.output[0] for node in m.nodes]
        found = run(m.model(*names), {"x": np.arange(size, dtype=np.float32)}, optimise=False)
        assert [list(indices) for indices in found] == expected
