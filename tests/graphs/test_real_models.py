"""Every piece of every real model computes what its nodes do; and the chains that are known to be there."""

import pytest
from graph_checks import chains_of, verify_pieces

from regweave.graphs import find_candidates, find_pieces, read_model
from regweave.graphs.samples import SAMPLES, sample_model
from regweave.operators import ChannelAdd, Gelu, LeakyRelu, Silu, TensorAdd

pytestmark = pytest.mark.models

SIZES = {"DynamicDimension.0": 1, "DynamicDimension.1": 320}


@pytest.mark.parametrize("name", SAMPLES)
def test_pieces_compute_what_their_nodes_do(name):
    assert verify_pieces(read_model(sample_model(name)))


def test_the_recogniser():
    model = read_model(sample_model("PP-OCRv6_rec_small"), SIZES)
    chains = {piece.name: piece for piece in chains_of(model)}
    assert len(chains) == 20
    wide = chains["Conv.30"]
    assert (wide.gemm_nodes, wide.widths, wide.m) == (("Conv.30", "Conv.31"), (192, 384, 192), 480)
    assert (wide.order, wide.batch, wide.pixels) == ("pixels", 1, 480)
    first, second = wide.chain.stages
    assert (first.epilogue, second.epilogue) == ((ChannelAdd(), Gelu()), (ChannelAdd(), TensorAdd()))
    assert wide.extra_inputs == (wide.input,)
    rows = chains["MatMul.4"]
    assert (rows.order, rows.widths, rows.m) == ("rows", (120, 240, 120), 40)
    assert rows.chain.stages[0].epilogue == (ChannelAdd(), Silu())
    shrunk = chains["Conv.6"]
    assert (shrunk.order, shrunk.m, shrunk.output_shape((3, 96, 1, 1))) == ("rows", 1, (3, 96, 1, 1))


def test_all_chains_of_the_recogniser_can_be_pieces():
    path = sample_model("PP-OCRv6_rec_small")
    model = read_model(path, SIZES)
    chains = chains_of(model)
    find_pieces(model, chains)
    assert all(piece.chain is not None for piece in chains)


def test_why_the_rest_of_the_recogniser_is_refused():
    reasons = {
        p.gemm_nodes: p.refusal for p in find_candidates(read_model(sample_model("PP-OCRv6_rec_small")))
    }
    assert reasons["Conv.4", "Conv.6"] == "Conv 'Conv.5' mixes neighbouring pixels (kernel 3x3)"
    assert "Mul 'Mul.0' combines it with" in reasons["Conv.7", "Conv.8"]
    assert reasons["Conv.54", "MatMul.12"] == "Transpose 'Transpose.8' moves rows and columns"
    assert "both operands are computed at run time" in reasons["MatMul.1", "MatMul.2"]
    assert "has 2 readers" in reasons["MatMul.3", "MatMul.4"]


def test_the_two_chains_of_six():
    first, second = chains_of(read_model(sample_model("plcmos_v2"), {"batch_size": 3}))
    assert first.widths == (64, 128, 128, 128, 128, 128, 64)
    assert second.widths == (128, 32, 32, 32, 32, 32, 1)
    assert first.m == 3
    assert [stage.epilogue for stage in first.chain.stages] == [(ChannelAdd(), LeakyRelu(0.1))] * 6


def test_the_classifier_has_its_norms_folded():
    chains = {p.name: p for p in chains_of(read_model(sample_model("ch_ppocr_mobile_v2.0_cls_mobile")))}
    assert chains["Conv@5"].chain.stages[0].epilogue == (ChannelAdd(),)
    assert str(chains["Conv@11"].chain.stages[1].epilogue[-1]) == "hard_swish"


def test_an_expansion_chain_of_three():
    chains = {p.name: p for p in chains_of(read_model(sample_model("PP-OCRv6_det_small")))}
    assert chains["Conv.52"].widths == (384, 768, 384, 96)
