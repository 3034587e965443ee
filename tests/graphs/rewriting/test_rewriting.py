"""The rewritten model computes the same, holds nothing that nobody reads, and always has an order."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from graph_checks import (
    all_pieces,
    extract_piece,
    normal,
    parse,
    real_inputs,
    restored,
    run_model,
    run_rewritten,
)

from regweave.errors import InputError, VerificationError
from regweave.graphs import find_candidates, read_model, replace_pieces
from regweave.graphs.samples import SAMPLES, sample_model

WEIGHTS = {name: normal(4, 4, seed=index) for index, name in enumerate("abcde")} | {"bias": normal(4)}


def model_of(body, inputs="float[N, 4] x", outputs="float[N, 4] y", **weights):
    return read_model(parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", weights={**WEIGHTS, **weights}))


def check(model, inputs, pieces=None):
    """The rewritten model against onnxruntime on the original one."""
    pieces = all_pieces(model) if pieces is None else pieces
    expected = run_model(model.proto, inputs)
    found = run_rewritten(model, pieces, inputs)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    return replace_pieces(model, pieces)


def ops(proto):
    return [node.op_type for node in proto.graph.node]


def test_a_whole_model_becomes_one_node():
    model = model_of("p = MatMul(x, a) q = Add(p, bias) r = Relu(q) s = MatMul(r, b) y = Add(s, x)")
    rewritten = check(model, {"x": normal(3, 4)})
    (node,) = rewritten.graph.node
    assert (node.domain, node.op_type, list(node.input), list(node.output)) == (
        "regweave",
        "Region",
        ["x", "x"],
        ["y"],
    )
    assert len(rewritten.graph.initializer) == 0
    assert {entry.domain: entry.version for entry in rewritten.opset_import}["regweave"] == 1
    assert [value.name for value in rewritten.graph.input] == ["x"]


def test_attributes_and_names_are_the_callers():
    model = model_of("p = MatMul(x, a) y = MatMul(p, b)")
    rewritten = replace_pieces(
        model,
        all_pieces(model),
        domain="d",
        op_type="Op",
        attributes=lambda piece: {"handle": len(piece.nodes)},
    )
    (node,) = rewritten.graph.node
    assert (node.domain, node.op_type, node.attribute[0].name, node.attribute[0].i) == (
        "d",
        "Op",
        "handle",
        2,
    )


def test_what_stays_keeps_its_types_and_metadata():
    model = model_of("p = MatMul(x, a) q = MatMul(p, b) y = Softmax(q)")
    model.proto.metadata_props.add(key="k", value="v")
    rewritten = check(model, {"x": normal(3, 4)})
    assert ops(rewritten) == ["Region", "Softmax"]
    assert [value.name for value in rewritten.graph.value_info] == ["q"]
    assert rewritten.metadata_props[0].value == "v"
    assert rewritten.graph.output[0].type == model.proto.graph.output[0].type


def test_weights_that_others_read_stay():
    model = model_of(
        "p = MatMul(x, a) q = MatMul(p, b) s = Softmax(q) t = MatMul(a, s) y = MatMul(t, c)",
        inputs="float[4, 4] x",
        outputs="float[4, 4] y",
    )
    rewritten = check(model, {"x": normal(4, 4)})
    assert sorted(tensor.name for tensor in rewritten.graph.initializer) == ["a"]


def test_arithmetic_that_nobody_needs_is_dropped():
    body = "u = Transpose(a) w = Neg(u) p = MatMul(x, w) q = MatMul(p, b) y = Softmax(q)"
    assert ops(check(model_of(body), {"x": normal(3, 4)})) == ["Region", "Softmax"]


def test_a_residual_made_after_the_chain_began():
    """The Region must come after what its extra input is made of, although its first node comes before."""
    model = model_of("p = MatMul(x, a) q = MatMul(p, b) s = Softmax(x) y = Add(q, s)")
    rewritten = check(model, {"x": normal(3, 4)})
    assert ops(rewritten) == ["Softmax", "Region"]


def test_regions_that_feed_each_other():
    body = "p = MatMul(x, a) q = MatMul(p, b) r = MatMul(x, c) s = MatMul(r, d) "
    body += "t = Add(q, s) u = Exp(t) y = Add(u, x)"
    rewritten = check(model_of(body), {"x": normal(3, 4, scale=0.1)})
    assert ops(rewritten) == ["Region", "Region", "Exp", "Region"]


def test_a_transposed_input():
    model = model_of("p = Gemm <transA = 1> (x, a, bias) y = Gemm(p, b)", inputs="float[4, N] x")
    rewritten = check(model, {"x": normal(4, 3)})
    assert ops(rewritten) == ["Transpose", "Region"]


def test_constants_that_the_model_does_not_hold():
    full = normal(3, 4, seed=8)
    body = "p = Gemm <beta = 2.0> (x, a, full) y = Gemm(p, b)"
    rewritten = check(model_of(body, "float[3, 4] x", "float[3, 4] y", full=full), {"x": normal(3, 4)})
    (constant,) = rewritten.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(constant), 2 * full)


def test_initializers_that_are_inputs_of_old_models():
    inputs = "float[N, 4] x, float[4, 4] a, float[4, 4] b"
    text = f"g ({inputs}) => (float[N, 4] y) {{ p = MatMul(x, a) y = MatMul(p, b) }}"
    proto = parse(text, weights={"a": WEIGHTS["a"], "b": WEIGHTS["b"]}, ir=3)
    model = read_model(proto)
    rewritten = replace_pieces(model, all_pieces(model))
    assert [value.name for value in rewritten.graph.input] == ["x"]


def test_external_data_stays_external(tmp_path):
    text = "g (float[N, 4] x) => (float[N, 4] y) { p = MatMul(x, a) s = Softmax(p) y = Mul(s, b) }"
    proto = parse(text, weights={"a": WEIGHTS["a"], "b": WEIGHTS["bias"]})
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    model = read_model(tmp_path / "m.onnx")
    single, run = all_pieces(model)
    assert replace_pieces(model, [single]).graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL
    assert len(replace_pieces(model, [single, run]).graph.initializer) == 0
    assert extract_piece(model, single).graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL


def test_pieces_that_overlap():
    model = model_of("p = MatMul(x, a) y = MatMul(p, b)")
    (chain,) = all_pieces(model)
    with pytest.raises(InputError, match="is in two pieces"):
        replace_pieces(model, [chain, chain])


def test_pieces_that_are_refused():
    model = model_of("p = MatMul(x, a) s = Softmax(p) y = MatMul(s, b)")
    (refused,) = find_candidates(model)
    with pytest.raises(InputError, match="refused piece"):
        replace_pieces(model, [refused])


def test_pieces_of_another_model():
    model = model_of("p = MatMul(x, a) y = MatMul(p, b)")
    (chain,) = all_pieces(model)
    with pytest.raises(InputError, match="has no node"):
        replace_pieces(model, [replace(chain, nodes=("elsewhere",))])


def test_pieces_that_hide_what_others_read():
    """Nothing that is found can be such a piece; one made by hand is caught."""
    model = model_of("p = MatMul(x, a) q = Softmax(p) r = MatMul(q, b) y = Neg(r)")
    single = next(piece for piece in all_pieces(model) if piece.kind == "single")
    with pytest.raises(VerificationError, match="node 'Softmax#1' reads 'p', which is inside piece MatMul#0"):
        replace_pieces(model, [replace(single, nodes=("MatMul#0", "MatMul#2", "Neg#3"), output="y")])


def test_a_piece_that_would_need_itself():
    model = model_of("p = MatMul(x, a) q = Softmax(p) r = MatMul(q, b) y = Neg(r)")
    single = next(piece for piece in all_pieces(model) if piece.kind == "single")
    with pytest.raises(VerificationError, match="cannot replace their nodes: the graph has a cycle"):
        replace_pieces(model, [replace(single, input="q")])


@pytest.mark.models
@pytest.mark.parametrize("name", SAMPLES)
def test_real_models(name):
    """With the original nodes put back in place of the regions, the outputs are the same bits."""
    import random

    path = sample_model(name)
    model = read_model(path)
    inputs = real_inputs(model, random.Random(0))
    expected = run_model(onnx.load(path), inputs)
    found = run_model(restored(model, all_pieces(model)), inputs)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
