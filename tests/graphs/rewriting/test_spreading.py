"""Transposed convolutions as products: the same results, and left alone where that would not be so."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from graph_checks import normal, parse
from onnx import helper, numpy_helper

from regweave.graphs import SPREAD, find_candidates, read_model, spread, spreads


def run(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(y) for y in session.run(None, {"x": x})]


def transposed(*nodes: str, weights: dict[str, np.ndarray], outputs: str = "float[N,M,A,B] y", **settings):
    text = "g (float[N, 5, H, W] x) => (" + outputs + ") { " + " ".join(nodes) + " }"
    return parse(text, weights=weights, **settings)


def kinds(model) -> list[str]:
    return [node.op_type for node in model.nodes]


def check_same(model: onnx.ModelProto, shape=(2, 5, 4, 7)):
    """All that can be spread is, and results stay; the spread model."""
    read = read_model(model)
    found = spread(read, spreads(read))
    x = normal(*shape)
    for ours, theirs in zip(run(found.proto, x), run(model, x), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * float(np.abs(theirs).max()))
    return found


TWO = (
    "t = ConvTranspose<strides = [2, 2]>(x, w, b)",
    "s = Mul(t, scale)",
    "n = BatchNormalization(s, f, o, mean, var)",
    "r = Relu(n)",
    "c = Clip(r, zero, six)",
    "u = ConvTranspose<strides = [2, 2], kernel_shape = [2, 2]>(c, w2)",
    "a = Add(shift, u)",
    "y = Sigmoid(a)",
)
WEIGHTS = {
    "w": normal(5, 6, 2, 2), "b": normal(6), "scale": normal(1, 6, 1, 1), "f": normal(6),
    "o": normal(6, seed=1), "mean": normal(6, seed=2), "var": np.abs(normal(6, seed=3)),
    "w2": normal(6, 1, 2, 2),
    "shift": normal(1, 1, 1), "zero": np.float32(0), "six": np.float32(2),
}  # fmt: skip


def test_two_enlargements_become_a_chain_of_products_on_the_small_image():
    found = check_same(transposed(*TWO, weights=WEIGHTS))
    names = [name for name in kinds(found) if name != "Constant"]
    assert names[0] == "Conv"
    assert names[-1] == "DepthToSpace"
    assert "ConvTranspose" not in names
    [last] = [node for node in found.nodes if node.op_type == "DepthToSpace"]
    assert last.name == found.nodes[0].name + SPREAD
    assert helper.get_node_attr_value(last, "blocksize") == 4
    assert last.output[0] == "y"
    [chain] = [piece for piece in find_candidates(found) if piece.refusal is None]
    assert chain.widths == (5, 24, 16)


@pytest.mark.parametrize("side", [2, 3])
@pytest.mark.parametrize("op", ["Add", "Sub", "Div"])
def test_constants_are_repeated_on_either_side(side, op):
    for operands in ("t, c", "c, t")[: 1 if op == "Div" else 2]:
        model = transposed(
            f"t = ConvTranspose<strides = [{side}, {side}]>(x, w)",
            f"y = {op}({operands})",
            weights={"w": normal(5, 4, side, side), "c": 2 + np.abs(normal(4, 1, 1))},
        )
        assert "ConvTranspose" not in kinds(check_same(model))


def test_what_reads_more_than_the_pixel_stays_behind():
    w = {"w": normal(5, 3, 2, 2)}
    first = "t = ConvTranspose<strides = [2, 2]>(x, w)"
    for behind, outputs, more in (
        (("r = Relu(t)", "s = Sigmoid(t)", "y = Mul(r, s)"), "float[N,M,A,B] y", {}),
        (("y = Relu(t)",), "float[N,M,A,B] y, float[N,M,A,B] t", {}),
        (("y = Add(t, c)",), "float[N,M,A,B] y", {"c": normal(14)}),
        (("y = Add(t, c)",), "float[N,M,A,B] y", {"c": normal(1, 1, 8, 1)}),
        (("y = Mul(t, t)",), "float[N,M,A,B] y", {}),
        (("y = Softmax<axis = 1>(t)",), "float[N,M,A,B] y", {}),
    ):
        found = check_same(transposed(first, *behind, weights={**w, **more}, outputs=outputs))
        place = kinds(found).index("DepthToSpace")
        assert found.nodes[place].output[0] == "t"


def test_a_second_window_that_would_multiply_mostly_zeros_is_spread_apart():
    model = transposed(
        "t = ConvTranspose<strides = [2, 2]>(x, w)",
        "y = ConvTranspose<strides = [2, 2]>(t, w2)",
        weights={"w": normal(5, 2, 2, 2), "w2": normal(2, 9, 2, 2)},
    )
    assert kinds(check_same(model)) == ["Conv", "DepthToSpace", "Conv", "DepthToSpace"]


@pytest.mark.parametrize(
    "settings",
    [
        "strides = [1, 1]", "strides = [3, 3]", "strides = [2, 2], pads = [1, 0, 0, 0]",
        "strides = [2, 2], output_padding = [1, 1]", "strides = [2, 2], dilations = [2, 2]",
        "strides = [2, 2], auto_pad = \"SAME_UPPER\"", "strides = [2, 2], output_shape = [8, 14]",
    ],
)  # fmt: skip
def test_windows_that_overlap_or_leave_gaps_are_left_alone(settings):
    model = transposed(f"y = ConvTranspose<{settings}>(x, w)", weights={"w": normal(5, 3, 2, 2)})
    read = read_model(model)
    assert spreads(read) == ()
    assert spread(read, ()) is read


def test_groups_oblong_windows_and_weights_from_outside_are_left_alone():
    apart = [
        transposed("y = ConvTranspose<strides = [2, 2], group = 5>(x, w)", weights={"w": normal(5, 3, 2, 2)}),
        transposed("y = ConvTranspose<strides = [2, 3]>(x, w)", weights={"w": normal(5, 3, 2, 3)}),
        transposed("y = ConvTranspose<strides = [2, 2]>(x, w)", weights={"w": normal(5, 3, 2, 2)}, opset=10),
    ]
    for ir in (3, 8):  # an input with a value that a caller may replace; before version 4 all constants are
        model = transposed(
            "y = ConvTranspose<strides = [2, 2]>(x, w)", weights={"w": normal(5, 3, 2, 2)}, ir=ir
        )
        model.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [5, 3, 2, 2]))
        apart.append(model)
    for model in apart:
        assert spreads(read_model(model)) == ()


def test_names_that_exist_already_are_not_used_again():
    model = transposed(
        "t = ConvTranspose<strides = [2, 2]>(x, w, b)",
        "y = Relu(t)",
        weights={"w": normal(5, 3, 2, 2), "b": normal(3)},
    )
    model.graph.node[0].name = "up"
    for name in ("t/deep", "up/weights", "up/bias"):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), name))
    check_same(model)


def test_a_piece_of_what_only_spreads_needs_it_as_well():
    """A region may begin with the pixels that move apart, and leave the product out."""
    [part] = spreads(read_model(transposed(*TWO, weights=WEIGHTS)))
    first = part.nodes[0]
    assert part.is_named([f"{first}{SPREAD}", "other"])
    assert part.is_named(part.nodes[-1:])
    assert not part.is_named(["other"])
