"""Native twins of onnxruntime's nodes: each computes the same, and none stays where it joins nothing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import Images, foreign

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import DOMAIN, unsupported_reason
from regweave.engine.building.building import build, joined
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.building.views_between import drop_unread, former_names, join_views
from regweave.engine.natives.natives import Natives
from regweave.graphs import read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None or block_size() != chosen_machine().lanes,
    reason="onnxruntime has no blocks as wide as a vector here",
)


def stood_in(proto: onnx.ModelProto, products: bool = True, threads: int = 1):
    """A model of nothing but stand-ins and what has none."""
    model = read_model(proto, {"batch": 1, "height": 12, "width": 20})
    natives = Natives(chosen_machine(), threads, block_size())
    with Workshop() as shop:
        built = joined(build(model, [], natives, shop), natives, shop.path, products=products)
        return built, built.open(shop, threads)


def check(
    proto: onnx.ModelProto, session, run, channels: int = 32, sizes=((1, 12, 20), (2, 9, 7), (3, 8, 40))
):
    for batch, height, width in sizes:
        x = np.random.default_rng(width).standard_normal((batch, channels, height, width)).astype(np.float32)
        for found, right in zip(session.run(None, {"x": x}), run(proto, {"x": x}), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=2e-5)


def product(m: Images, x: str) -> str:
    return m.conv(x, "y", 32, 24)


def product_with_all(m: Images, x: str) -> str:
    a = m.node("Add", [m.conv(x, "a", 32, 32), x], "b")
    return m.conv(m.node("Relu", [a], "c"), "y", 32, 40)


def clipped(m: Images, x: str) -> str:
    limits = [m.constant(name, np.float32(value)) for name, value in (("low", -0.5), ("high", 0.75))]
    return m.conv(m.node("Clip", [m.conv(x, "a", 32, 32), *limits], "b"), "y", 32, 16)


def depthwise(m: Images, x: str) -> str:
    a = m.conv(x, "a", 32, 32, 3, group=32, strides=[2, 2])
    return m.conv(m.node("Relu", [a], "b"), "y", 32, 16)


def mean(m: Images, x: str) -> str:
    return m.conv(m.node("GlobalAveragePool", [m.conv(x, "a", 32, 32)], "b"), "y", 32, 16)


def pools(m: Images, x: str) -> str:
    a = m.node("MaxPool", [x], "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    b = m.node("AveragePool", [a], "b", kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 1, 1])
    return m.conv(b, "y", 32, 16)


def pools_of_the_same_size(m: Images, x: str) -> str:
    a = m.node("MaxPool", [x], "a", kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    b = m.node("AveragePool", [a], "b", kernel_shape=[4, 3], auto_pad="SAME_LOWER")
    c = m.node("MaxPool", [b], "c", kernel_shape=[2, 1], strides=[2, 1], auto_pad="VALID")
    return m.conv(c, "y", 32, 16)


def parts_of_whole_blocks(m: Images, x: str) -> str:
    a = m.conv(x, "a", 32, 16)
    return m.conv(m.node("Concat", [a, x, a], "b", axis=1), "y", 64, 16)


def activation(m: Images, x: str) -> str:
    a = m.conv(x, "a", 32, 24)
    return m.conv(m.node("Mul", [a, m.node("Sigmoid", [a], "s")], "b"), "y", 24, 16)


def itself(m: Images, x: str) -> str:
    a = m.conv(x, "a", 32, 32)
    return m.conv(m.node("Add", [a, a], "b"), "y", 32, 16)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "made",
    [
        product,
        product_with_all,
        clipped,
        depthwise,
        mean,
        pools,
        pools_of_the_same_size,
        parts_of_whole_blocks,
        activation,
        itself,
    ],
    ids=lambda f: f.__name__,
)
def test_what_follows_a_blocked_convolution_is_one_operator(made, threads, run):
    m = Images(size=("height", "width"))
    made(m, m.conv("x", "start", 32, 32, 3))
    proto = m.model(["y"])
    built, session = stood_in(proto, threads=threads)
    assert foreign(built.proto) == ["ReorderInput", "Conv"], "only the 3 x 3 convolution has no twin"
    assert len(built.joined) == 1
    check(proto, session, run)


@pytest.mark.parametrize(("other", "left"), [((1, 32, 4, 5), ["Add"]), ((1, 32, 4, 1), None), (None, None)])
def test_sums_of_images_of_one_shape_need_no_views(other, left):
    """onnxruntime sees them with five dimensions where it does not know that the sizes are equal."""
    node, shapes = onnx.helper.make_node, {"a": (1, 32, 4, 5), "b": other}
    nodes = [
        node("Reshape", ["a", "five"], ["a5"], "before_a"),
        node("Reshape", ["b", "five"], ["b5"], "before_b"),
        node("Add", ["a5", "b5"], ["c5"], "sum"),
        node("Reshape", ["c5", "four"], ["c"], "after"),
    ]
    info = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(nodes, "views", [], [info])
    constants = {"five": np.array([0, 2, 0, 0, 16]), "four": np.array([0, 32, 0, 0])}
    join_views(graph, shapes.get, constants.get, 16)
    drop_unread(graph)
    kinds = [node.op_type for node in graph.node]
    assert kinds == (left or ["Reshape", "Reshape", "Add", "Reshape"])
    if left:
        assert (list(graph.node[0].input), list(graph.node[0].output)) == (["a", "b"], ["c"])


def test_what_convolutions_make_has_their_names():
    made = onnx.helper.make_node("Conv", ["x", "w"], ["r1"], "t_nchwc", domain="com.microsoft.nchwc")
    other = onnx.helper.make_node("Conv", ["x", "w"], ["r2"], "u_nchwc")
    assert former_names(onnx.helper.make_graph([made, other], "names", [], [])) == {"r1": "t"}


def test_convolutions_stay_where_they_are_asked_to(run):
    m = Images(size=("height", "width"))
    mean(m, m.conv("x", "start", 32, 32, 3))
    proto = m.model(["y"])
    built, session = stood_in(proto, products=False)
    assert foreign(built.proto).count("Conv") == 3
    assert DOMAIN not in {node.domain for node in built.proto.graph.node} or built.joined
    check(proto, session, run)


@pytest.mark.parametrize(
    ("op_type", "settings"),
    [
        ("ReduceMean", {"axes": [2, 3]}),
        ("ReduceMean", {"axes": [-1], "keepdims": 0}),
        ("ReduceMax", {"axes": [3, 2], "keepdims": 0}),
        ("Softmax", {"axis": -1}),
    ],
)
def test_lines_of_plain_tensors(op_type, settings, run):
    m = Images(channels=5, size=("height", "width"))
    m.node("Softmax", [m.node(op_type, ["x"], "a", **settings)], "y", axis=-1)
    proto = m.model(["y"])
    built, session = stood_in(proto)
    assert foreign(built.proto) == []
    check(proto, session, run, channels=5)


def test_other_axes_stay_with_onnxruntime(run):
    m = Images(channels=5, size=("height", "width"))
    m.node("ReduceMean", [m.node("Softmax", ["x"], "a", axis=1)], "y", axes=[1])
    proto = m.model(["y"])
    built, session = stood_in(proto)
    assert foreign(built.proto) == ["Softmax", "ReduceMean"]
    check(proto, session, run, channels=5)


def test_a_stand_in_that_joins_nothing_does_not_stay():
    m = Images(channels=5, size=("height", "width"))
    m.node("Cos", [m.node("Softmax", ["x"], "a", axis=-1)], "y")
    built, _ = stood_in(m.model(["y"]))
    assert foreign(built.proto) == ["Softmax", "Cos"]
    assert built.operators == ()
