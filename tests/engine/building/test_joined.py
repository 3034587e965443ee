"""Native operators as one: the same values in every size, several outputs, values that are not finite."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import Images, foreign, hard_swish
from onnx import TensorProto, helper

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import (
    DOMAIN,
    MOST_IMAGES,
    OUTPUT_PLACE,
    WORK_PLACE,
    NativeSession,
    prepared_for,
    unsupported_reason,
)
from regweave.engine.building.building import build, joined
from regweave.engine.building.joining import join
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.errors import InputError
from regweave.graphs import find_candidates, find_convolutions, find_pieces, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
DIMS = {"batch": 2, "height": 12, "width": 20}


def sessions(proto: onnx.ModelProto, threads: int = 1, dims=DIMS, block: bool = True):
    """All pieces of a model on their own, and joined, and what was built."""
    model = read_model(proto, dims)
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    chains = [*chains, *find_convolutions(model, chains)]
    natives = Natives(chosen_machine(), threads, block_size())
    with Workshop() as shop:
        apart = build(model, [*chains, *find_pieces(model, chains)], natives, shop, block=block)
        whole = joined(apart, natives, shop.path)
        return apart.open(shop, threads), whole.open(shop, threads), whole


@pytest.mark.parametrize("threads", [1, 2])
def test_a_recogniser_runs_as_before_in_every_size(recogniser, run, threads):
    apart, whole, built = sessions(recogniser, threads)
    assert foreign(built.proto) == []
    for batch, height, width in ((2, 12, 20), (1, 1, 1), (3, 7, 33), (2, 12, 20), (1, 40, 64)):
        x = np.random.default_rng(width).standard_normal((batch, 16, height, width)).astype(np.float32)
        [right], [alone], [found] = (
            run(recogniser, {"x": x}),
            apart.run(None, {"x": x}),
            whole.run(None, {"x": x}),
        )
        np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=2e-5)


def test_what_others_read_of_the_inside_are_outputs():
    m = Images(channels=12, size=("height", "width"))
    a = hard_swish(m, m.conv("x", "a", 12, 12, 3), "h")
    b = m.conv(a, "b", 12, 20, 3)
    m.node("Cos", [a], "seen")
    m.conv(b, "y", 20, 12, 3)
    apart, whole, built = sessions(m.model(["y", "b", "seen"]), block=False)
    [[name, one]] = built.joined.items()
    node = next(node for node in built.proto.graph.node if node.op_type == name)
    assert (list(node.input), sorted(node.output)) == (["x"], ["b", "h", "y"])
    assert (one.operator.outputs, len(one.members)) == (3, 3)
    assert foreign(built.proto) == ["Cos"]
    for shape in ((1, 12, 9, 11), (2, 12, 5, 40)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        for found, right in zip(whole.run(None, {"x": x}), apart.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(found, right)


def test_rows_are_joined_from_input_to_output(perceptron, run):
    dims = {"batch": 2, "rows": 7}
    model = read_model(perceptron, dims)
    pieces = [piece for piece in find_pieces(model) if piece.kind == "single"]
    with Workshop() as shop:
        natives = Natives(chosen_machine(), 1, block_size())
        built = joined(build(model, pieces, natives, shop), natives, shop.path)
        session = built.open(shop, 1)
    assert [node.op_type for node in built.proto.graph.node] == ["Joined0"]
    for shape in ((2, 7, 64), (1, 1, 64), (3, 50, 64)):
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        [right], [found] = run(perceptron, {"x": x}), session.run(None, {"x": x})
        assert found.shape == right.shape
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="expected rows of 64 channels"):
        built.joined["Joined0"].operator.prepare((1, 1, 63))
    assert session.run(None, {"x": np.zeros((0, 7, 64), np.float32)})[0].shape == (0, 7, 8)


def test_values_that_are_not_finite_take_other_kernels():
    m = Images(channels=5, size=("height", "width"))
    m.conv(m.node("Relu", [m.conv("x", "a", 5, 6, 3)], "r"), "y", 6, 7, 3)
    proto = m.model(["y"])
    apart, whole, built = sessions(proto, block=False)
    assert foreign(built.proto) == []
    x = np.random.default_rng(3).standard_normal((1, 5, 12, 40)).astype(np.float32)
    usual = whole.run(None, {"x": x})[0]
    y = x.copy()
    y[0, 2, 4, 20], y[0, 1, 9, 3] = np.nan, np.inf
    found, right = whole.run(None, {"x": y})[0], apart.run(None, {"x": y})[0]
    there = NativeSession(proto.SerializeToString()).run(None, {"x": y})[0]
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(there))
    np.testing.assert_array_equal(found[np.isfinite(there)], right[np.isfinite(there)])
    np.testing.assert_array_equal(whole.run(None, {"x": x})[0], usual)


def chain_of(*kinds: str) -> onnx.ModelProto:
    """Nodes that read the one before: "n" native, "f" foreign; "N" reads the first tensor, too."""
    nodes, last = [], "x"
    for index, kind in enumerate(kinds):
        inputs = [last, "x"] if kind == "N" else [last]
        domain, op = ("", "Cos") if kind == "f" else (DOMAIN, "Two" if kind == "N" else "One")
        last = f"t{index}"
        nodes.append(helper.make_node(op, inputs, [last], f"n{index}", domain=domain))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "chain", [info("x", TensorProto.FLOAT, [1, 4])], [info(last, TensorProto.FLOAT, [1, 4])]
    )
    return helper.make_model(graph)


@pytest.fixture(scope="module")
def run_operators():
    """Operators for one and for two inputs of any rank."""
    m = Images(channels=4)
    m.node("Relu", [m.node("Neg", ["x"], "a")], "y")
    pieces = find_pieces(read_model(m.model(["y"]), {"batch": 1}))
    [piece] = [piece for piece in pieces if piece.kind == "elementwise"]
    return {"One": Natives(chosen_machine(), 1, 0).build(piece, "One").operator}


@pytest.mark.parametrize(
    ("kinds", "left"),
    [("nn", ["Joined0"]), ("nfn", ["One", "Cos", "One"]), ("nnfnn", ["Joined1", "Cos", "Joined0"])],
)
def test_foreign_nodes_divide(run_operators, kinds, left):
    proto, found = join(chain_of(*kinds), run_operators, lambda name: 4)
    assert [node.op_type for node in proto.graph.node] == left
    assert all(len(one.members) == 2 for one in found.values())


def test_tensors_of_unknown_or_many_dimensions_stay_apart(run_operators):
    for rank in (None, 5):
        proto, found = join(chain_of("n", "n"), run_operators, lambda name, rank=rank: rank)
        assert not found or rank is None
        assert proto.graph.node[0].op_type == "One"


def test_operators_of_too_many_outputs_are_divided():
    m = Images(channels=4, size=("height", "width"))
    ends = [m.conv("x", f"c{index}", 4, 4, 3) for index in range(MOST_IMAGES + 3)]
    apart, whole, built = sessions(m.model(ends), block=False)
    assert len(built.joined) == 2
    x = np.random.default_rng(4).standard_normal((1, 4, 9, 17)).astype(np.float32)
    for found, right in zip(whole.run(None, {"x": x}), apart.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(found, right)


def test_an_operator_that_counts_is_prepared_for_shapes(run_operators):
    operator = run_operators["One"]
    prepared = prepared_for(operator, [(2, 4, 3, 5)])
    [step] = prepared.steps
    assert prepared.out_shape == (2, 4, 3, 5)
    assert {place.source for place in step.places.values()} <= {0, OUTPUT_PLACE, WORK_PLACE}
    assert prepared_for(operator, [(0, 4, 3, 5)]).steps == ()
    with pytest.raises(InputError):
        prepared_for(operator, [(2, 4, 3)])
