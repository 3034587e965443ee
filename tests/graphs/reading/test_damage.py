"""Models with bytes changed, lost or added: each is either read, and then right, or a clear error."""

import random

import numpy as np
import pytest
from graph_checks import all_pieces, normal, parse

from regweave.errors import ModelError, RegweaveError
from regweave.graphs import read_model, replace_pieces

ROWS = """g (float[N, 3] x) => (float[N, 5] y) {
    a = MatMul(x, v) b = Add(a, c) r = LeakyRelu<alpha = 0.3>(b) f = Reshape(r, t)
    y = Gemm<alpha = 0.5, transB = 1>(f, w, d)
}"""
PIXELS = """g (float[N, 3, H, W] x) => (float[N, 5, H, W] y) {
    a = Conv(x, v) b = BatchNormalization(a, c, c, c, c) s = Sigmoid(b) m = Mul(b, s)
    y = Conv<strides = [1, 1], pads = [0, 0, 0, 0]>(m, w)
}"""
MODELS = {
    "rows": parse(
        ROWS,
        weights={
            "v": normal(3, 4),
            "c": normal(4),
            "w": normal(5, 4),
            "d": normal(5),
            "t": np.array([-1, 4]),
        },
    ),
    "pixels": parse(
        PIXELS, weights={"v": normal(4, 3, 1, 1), "c": np.abs(normal(4)), "w": normal(5, 4, 1, 1)}
    ),
}


def damaged(data, choose):
    """A copy with one to three changes."""
    changed = bytearray(data)
    for _ in range(choose.randint(1, 3)):
        at = choose.randrange(len(changed))
        kind = choose.randrange(3)
        if kind == 0:
            changed[at] = choose.randrange(256)
        elif kind == 1:
            del changed[at : at + choose.randint(1, 8)]
        else:
            changed[at:at] = choose.randbytes(choose.randint(1, 4))
    return bytes(changed)


@pytest.mark.parametrize("name", MODELS)
def test_damage_is_never_more_than_an_error(name, tmp_path):
    data, path = MODELS[name].SerializeToString(), tmp_path / "m.onnx"
    choose = random.Random(1)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(400):
        path.write_bytes(damaged(data, choose))
        try:
            model = read_model(path)
            pieces = all_pieces(model)
            assert all(piece.chain or piece.run for piece in pieces)
            replace_pieces(model, pieces)
            outcomes["read"] += 1
        except RegweaveError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


def test_names_that_are_no_text(tmp_path):
    data = MODELS["rows"].SerializeToString().replace(b"LeakyRelu", b"Leaky\xff\xfelu")
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(ModelError, match="is not text"):
        read_model(tmp_path / "m.onnx")


def test_element_types_that_do_not_exist():
    proto = parse(ROWS, weights={"v": normal(3, 4)})
    proto.graph.initializer[0].data_type = 99
    with pytest.raises(ModelError, match="element type 99 does not exist"):
        read_model(proto)
