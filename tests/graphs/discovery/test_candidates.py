"""Which products form chains, what a caller may ask for, and what the answer says about the rest."""

import os

import numpy as np
import onnx
import pytest
from graph_checks import all_pieces, chains_of, normal, parse, verify_piece, verify_pieces

from regweave.errors import InputError
from regweave.graphs import Link, find_candidates, find_pieces, read_model
from regweave.operators import ChannelAdd, Relu, TensorAdd

WEIGHTS = {name: normal(4, 4, seed=index) for index, name in enumerate("abcdef")} | {"bias": normal(4)}


def model_of(body, inputs="float[N, 4] x", outputs="float[N, 4] y", dims=None):
    """A model whose nodes are named by their outputs' tensors: node `P` makes tensor `p`."""
    proto = parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", weights=WEIGHTS)
    for node in proto.graph.node:
        node.name = node.output[0].upper()
    return read_model(proto, dims)


FOUR = (
    "p = MatMul(x, a) pr = Relu(p) q = MatMul(pr, b) r = MatMul(q, c) rb = Add(r, bias) rr = Relu(rb) "
    "y = MatMul(rr, d)"
)


def gemms(pieces):
    return [piece.gemm_nodes for piece in pieces]


def test_chains_are_as_long_as_they_can_be():
    model = model_of(FOUR)
    (chain,) = chains_of(model)
    assert chain.gemm_nodes == ("P", "Q", "R", "Y")
    assert chain.nodes == ("P", "PR", "Q", "R", "RB", "RR", "Y")
    assert all(isinstance(link, Link) for link in chain.links)
    assert [(link.nodes, link.output) for link in chain.links][2] == (("R", "RB", "RR"), "rr")
    assert [stage.epilogue for stage in chain.chain.stages] == [(Relu(),), (), (ChannelAdd(), Relu()), ()]
    assert (chain.name, chain.input, chain.output, chain.kind) == ("P", "x", "y", "chain")
    verify_pieces(model)


def test_a_residual_across_the_whole_chain():
    model = model_of("p = MatMul(x, a) r = Relu(p) q = MatMul(r, b) y = Add(x, q)")
    (chain,) = chains_of(model)
    assert (chain.input, chain.extra_inputs) == ("x", ("x",))
    assert chain.chain.stages[1].epilogue == (TensorAdd(),)
    verify_pieces(model)


def test_two_chains_that_meet_share_no_node():
    body = (
        "p = MatMul(x, a) q = MatMul(p, b) r = MatMul(x, c) s = MatMul(r, d) t = Add(q, s) y = MatMul(t, e)"
    )
    model = model_of(body)
    assert gemms(chains_of(model)) == [("P", "Q", "Y"), ("R", "S")]
    assert chains_of(model)[0].extra_inputs == ("s",)
    verify_pieces(model)


def test_branches_are_chains_of_their_own():
    body = (
        "h = MatMul(x, a) p = MatMul(h, b) q = MatMul(p, c) r = MatMul(h, d) s = MatMul(r, e) y = Add(q, s)"
    )
    model = model_of(body)
    assert gemms(chains_of(model)) == [("P", "Q"), ("R", "S")]
    assert gemms(find_pieces(model, chains_of(model))) == [("H",)]
    verify_pieces(model)


def test_a_near_miss_names_what_is_in_the_way():
    body = "p = MatMul(x, a) s = Softmax(p) t = Neg(s) q = MatMul(t, b) y = MatMul(q, c)"
    refused, fused = find_candidates(model_of(body))
    assert (refused.gemm_nodes, refused.refusal) == (("P", "Q"), "Softmax 'S' needs whole rows")
    assert refused.widths == (4, 4, 4)
    assert refused.chain is None
    assert fused.gemm_nodes == ("Q", "Y")


def test_a_near_miss_is_near():
    far = " ".join(f"s{i + 1} = Softmax(s{i})" for i in range(20))
    body = f"s0 = MatMul(x, a) {far} y = MatMul(s20, b)"
    assert find_candidates(model_of(body)) == ()


def test_a_product_that_ends_the_model_is_no_candidate():
    assert find_candidates(model_of("p = MatMul(x, a) y = Softmax(p)")) == ()


# what a caller asks for


def test_a_chain_that_is_asked_for_is_exactly_that():
    model = model_of(FOUR)
    first, second = find_candidates(model, fuse=["Q,R"])
    assert (second.gemm_nodes, second.forced, second.refusal) == (("Q", "R"), True, None)
    assert second.nodes == ("Q", "R", "RB", "RR")
    assert first.refusal == "MatMul 'Q' belongs to another chain"
    for piece in (second, *find_pieces(model, [second])):
        verify_piece(model, piece)


def test_what_is_left_of_a_chain_is_a_chain():
    model = model_of(FOUR)
    fused = [piece for piece in find_candidates(model, fuse=[("R", "Y")]) if piece.refusal is None]
    assert [(piece.gemm_nodes, piece.forced) for piece in fused] == [(("P", "Q"), False), (("R", "Y"), True)]


def test_two_chains_asked_for():
    pieces = chains_of(model_of(FOUR), fuse=["P,Q", "R,Y"])
    assert gemms(pieces) == [("P", "Q"), ("R", "Y")]
    assert all(piece.forced for piece in pieces)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (["P"], "a chain of one layer is not a cascade"),
        ([""], "a chain of one layer is not a cascade"),
        (["P,Z"], "the model has no node 'Z'"),
        (["P,QQ"], r"no node 'QQ' \(at fuse 'P,QQ'\); nearest: Q"),
        (["P,R"], "'R' does not follow 'P': 'Q' does"),
        (["Q,P"], "'P' runs before 'Q': name them in running order"),
        (["P,PR,Q"], "Relu 'PR' is not a product"),
        (["P,P"], "asked for twice"),
        (["P,Q", "Q,R"], "asked for twice"),
    ],
)
def test_requests_that_cannot_be(request_, words):
    with pytest.raises(InputError, match=words):
        find_candidates(model_of(FOUR), fuse=request_)


def test_a_request_across_a_break_says_what_breaks():
    model = model_of("p = MatMul(x, a) s = Softmax(p) y = MatMul(s, b)")
    with pytest.raises(InputError, match="'Y' cannot follow 'P': Softmax 'S' needs whole rows"):
        find_candidates(model, fuse=["P,Y"])


def test_a_request_for_a_product_that_is_none():
    model = model_of("p = MatMul(x, w) y = MatMul(p, b)", inputs="float[N, 4] x, float[4, 4] w")
    with pytest.raises(InputError, match="MatMul 'P': its weights 'w' are given at run time"):
        find_candidates(model, fuse=["P,Y"])


# what a caller keeps apart


def test_a_product_kept_apart_is_in_no_chain():
    model = model_of(FOUR)
    candidates = find_candidates(model, apart=["Q"])
    found = {piece.gemm_nodes: piece.refusal for piece in candidates}
    assert found == {
        ("P", "Q"): "kept apart on request",
        ("Q", "R"): "kept apart on request",
        ("R", "Y"): None,
    }
    verify_pieces(model)


def test_a_node_between_keeps_its_seam_open():
    found = {p.gemm_nodes: p.refusal for p in find_candidates(model_of(FOUR), apart=["PR"])}
    assert found == {("P", "Q"): "kept apart on request", ("Q", "R", "Y"): None}


def test_one_name_will_do():
    assert gemms(chains_of(model_of(FOUR), apart="PR")) == [("Q", "R", "Y")]


@pytest.mark.parametrize(
    ("apart", "words"),
    [(["Z"], "the model has no node 'Z'"), (["N"], "neither a product nor between two")],
)
def test_keeping_apart_what_is_not_together(apart, words):
    model = model_of(
        "p = MatMul(x, a) q = MatMul(p, b) y = Softmax(q) n = Neg(x)", outputs="float[N, 4] y, float[N, 4] n"
    )
    with pytest.raises(InputError, match=words):
        find_candidates(model, apart=apart)


def test_keeping_a_lone_product_apart_is_no_error():
    assert find_candidates(model_of("y = MatMul(x, a)"), apart=["Y"]) == ()


def test_fusing_what_is_kept_apart():
    with pytest.raises(InputError, match="'P' and 'Q' are also to be kept apart"):
        find_candidates(model_of(FOUR), fuse=["P,Q"], apart=["Q"])


# parts and the rest


def test_single_products_and_runs_are_disjoint():
    body = "n = Relu(x) m = Mul(n, bias) s = Softmax(m) p = MatMul(s, a) t = Tanh(p) "
    body += "u = Softmax(t) v = Add(u, s) y = Sigmoid(v)"
    model = model_of(body)
    pieces = verify_pieces(model)
    assert [(piece.kind, piece.nodes) for piece in pieces] == [
        ("elementwise", ("N", "M")),
        ("single", ("P", "T")),
        ("elementwise", ("V", "Y")),
    ]
    assert pieces[0].widths == (4,)
    assert pieces[2].extra_inputs == ("s",)


def test_runs_need_work():
    assert all_pieces(model_of("i = Identity(x) y = Softmax(i)")) == ()


def test_runs_on_images():
    text = """g (float[N, 4, H, W] x, float[N, 4, H, W] r) => (float[N, 4, H, W] y, float[N, 4, H, W] z) {
        p = Add(x, c) q = Relu(p) y = Add(q, r)
        s = Softmax(x) t = BatchNormalization(s, f, f, f, f) z = HardSwish(t)
    }"""
    model = read_model(parse(text, weights={"c": normal(1, 4, 1, 1), "f": np.abs(normal(4)) + 1}))
    first, second = verify_pieces(model)
    assert (first.order, first.channel_axis, first.widths) == ("pixels", 1, (4,))
    assert first.run.axis == second.run.axis == "first"


def test_runs_without_known_ranks():
    text = "g (float[N, M] x, int64[K] s) => (float[A] y) { r = Reshape(x, s) t = Mul(r, c) y = Add(t, c) }"
    model = read_model(parse(text, weights={"c": np.float32(2)}))
    (run,) = find_pieces(model)
    assert run.nodes == ("Mul#1", "Add#2")
    assert run.output_shape((2, 3, 4)) == (2, 3, 4)
    assert run.m is None


def test_integers_are_no_runs():
    assert all_pieces(read_model(parse("g (int64[N] x) => (int64[N] y) { y = Add(x, x) }"))) == ()


# large models that ship with onnx


LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("bvlc_alexnet", (9216, 4096, 4096, 1000)),
        ("vgg19", (25088, 4096, 4096, 1000)),
        ("zfnet512", (18432, 4096, 1024, 1000)),
    ],
)
def test_large_classifiers_are_candidates_of_one_row(name, widths):
    (chain,) = chains_of(read_model(os.path.join(LIGHT, f"light_{name}.onnx")))
    assert (chain.widths, chain.m, chain.order) == (widths, 1, "rows")


@pytest.mark.parametrize(
    "name", ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
)
def test_large_image_models_have_reasons(name):
    candidates = find_candidates(read_model(os.path.join(LIGHT, f"light_{name}.onnx")))
    assert candidates
    assert all(piece.refusal for piece in candidates)
