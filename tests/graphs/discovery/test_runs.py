"""Element-wise runs on images that meet one number per channel: gates."""

from __future__ import annotations

import numpy as np
from graph_checks import normal, parse, piece_inputs, piece_reference, run_nodes

from regweave.graphs import find_candidates, find_pieces, read_model

GATED = "g (float[N, 6, H, W] x, float[N, 6, 1, 1] s) => (float[N, 6, H, W] y)"


def only_run(text: str, **weights: np.ndarray):
    """The one run of a model, checked against its nodes."""
    model = read_model(parse(text, weights=weights))
    [piece] = find_pieces(model)
    inputs = piece_inputs(model, piece)
    np.testing.assert_allclose(
        piece_reference(model, piece, inputs), run_nodes(model, piece, inputs), rtol=1e-5, atol=1e-5
    )
    return piece


def test_an_image_and_what_is_left_of_it_behind_its_gate():
    piece = only_run(GATED + "{ a = Mul(s, x) b = Add(a, x) y = Relu(b) }")
    assert piece.input == "x"
    assert piece.extra_inputs == ("s", "x")
    assert piece.gates == {0}
    assert (piece.channel_axis, piece.widths, piece.order) == (1, (6,), "pixels")


def test_gates_are_added_and_subtracted_too_and_meet_constants_of_the_same_channels():
    piece = only_run(GATED + "{ a = Mul(x, c) b = Sub(a, s) y = Add(b, s) }", c=normal(6, 1, 1))
    assert piece.gates == {0}
    assert piece.widths == (6,)
    assert only_run(GATED + "{ a = Sub(s, x) y = Sigmoid(a) }").gates == {0}


def test_other_shapes_are_no_gates():
    for shape in ("1, 6, 1, 1", "N, 1, 1, 1", "N, 6, H, 1", "N, 6, 1, W", "6, 1, 1"):
        text = GATED.replace("N, 6, 1, 1", shape) + "{ a = Relu(x) y = Mul(a, s) }"
        pieces = find_pieces(read_model(parse(text)))
        assert [piece.nodes for piece in pieces] == [(read_model(parse(text)).nodes[0].name,)]


def test_a_gate_along_other_channels_ends_the_run():
    text = GATED.replace("W]", "5]") + "{ a = Mul(x, c) y = Mul(a, s) }"
    pieces = find_pieces(read_model(parse(text, weights={"c": normal(5)})))
    assert [(len(piece.nodes), len(piece.gates)) for piece in pieces] == [(1, 0), (1, 1)]


def test_products_hold_no_gates():
    text = GATED + "{ a = Conv(x, w) b = Mul(a, s) c = Relu(b) y = Conv(c, w) }"
    model = read_model(parse(text, weights={"w": normal(6, 6, 1, 1)}))
    assert [piece for piece in find_candidates(model) if piece.refusal is None] == []
    kinds = {piece.kind: piece for piece in find_pieces(model)}
    assert kinds["elementwise"].gates == {0}
