"""Enlargements in front of element-wise runs of blocked images go into the runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import Images
from onnx import helper

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import unsupported_reason
from regweave.engine.building.building import BLOCKED, build
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.enlarged import Enlarged, enlarging_operator, fold_enlargements, run_structure
from regweave.engine.natives.natives import Natives
from regweave.engine.verifying.verification import captured, check_piece
from regweave.errors import InputError
from regweave.graphs import Piece, find_pieces, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def level(
    channels: int = 40, *, size: tuple[int, int] = (16, 24), read_twice: bool = False
) -> onnx.ModelProto:
    """A level of a feature pyramid: gated, with itself and the smaller one added."""
    m = Images(channels=32, size=size)
    m.input.type.tensor_type.shape.dim[0].dim_value = 2
    a = m.conv("x", "a", 32, channels, 3)
    gate = m.node("Sigmoid", [m.conv(m.node("GlobalAveragePool", [a], "m"), "g", channels, channels)], "gate")
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    b = m.conv(m.node("MaxPool", ["x"], "small", **window), "b", 32, channels, 3)
    large = m.node("Resize", [b, "", m.constant("s", np.array([1, 1, 2, 2], np.float32))], "large", **NEAREST)
    both = m.node("Add", [a, m.node("Mul", [a, gate], "gated")], "both")
    total = m.node("Add", [both, large], "total")
    if read_twice:
        total = m.node("Concat", [total, m.node("Relu", [large], "again")], "joined", axis=1)
    m.conv(total, "y", channels * (1 + read_twice), 32, 3)
    return m.model(["y"])


def the_run(model) -> Piece:
    [piece] = [p for p in find_pieces(model) if p.kind == "elementwise" and p.output == "total"]
    return piece


@pytest.fixture
def natives():
    found = Natives(chosen_machine(), 2, block_size())
    if found.block != found.machine.lanes:
        pytest.skip("onnxruntime's blocks are no vectors here")
    return found


@pytest.mark.parametrize("size", [(16, 24), (6, 10), (2, 2), (40, 34)])
def test_a_level_of_a_pyramid(size, natives, run):
    proto = level(size=size)
    model = read_model(proto)
    piece = the_run(model)
    x = np.random.default_rng(0).standard_normal((2, 32, *size)).astype(np.float32)
    with Workshop() as shop:
        built = build(model, [piece], natives, shop)
        assert not any(node.op_type in ("Upsample", "Resize") for node in built.proto.graph.node)
        [enlarged] = built.enlarged.values()
        assert piece.extra_inputs[enlarged.index] == "large"
        session = built.open(shop, 2)
        tensors = captured(model, [piece], {"x": x}, shop, 2)
    assert check_piece(piece, natives, tensors, blocked=True, enlarged=enlarged).passed
    other = tensors["large"].copy()
    other[..., 1::2] += 1  # not what one pixel enlarged would be
    wrong = {**tensors, "large": other, "total": tensors["total"] + (other - tensors["large"])}
    assert not check_piece(piece, natives, wrong, blocked=True, enlarged=enlarged).passed
    [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=5e-5)


def test_sizes_that_do_not_meet_are_an_error(natives):
    piece = the_run(read_model(level()))
    enlarged = Enlarged(piece.extra_inputs.index("large"), 2)
    operator, _ = enlarging_operator(piece, enlarged, natives.machine, 1)
    channels = operator.channels[0]
    shapes = [(1, channels, 1, 1) if index in piece.gates else (1, channels, 4, 6) for index in range(3)]
    shapes[enlarged.index] = (1, channels, 2, 3)
    assert operator.prepare((1, channels, 4, 6), *shapes).out_shape == (1, channels, 4, 6)
    shapes[enlarged.index] = (1, channels, 4, 6)
    with pytest.raises(InputError, match="cannot be combined"):
        operator.prepare((1, channels, 4, 6), *shapes)


def test_an_enlarged_image_that_is_read_elsewhere_is_made(natives):
    model = read_model(level(read_twice=True))
    with Workshop() as shop:
        built = build(model, [the_run(model)], natives, shop)
    assert not built.enlarged
    assert any(node.op_type in ("Upsample", "Resize") for node in built.proto.graph.node)


def test_only_enlargements_alike_in_both_directions_are_folded(natives):
    model = read_model(level())
    piece = the_run(model)
    position = 1 + piece.extra_inputs.index("large")
    inputs = [f"i{index}" for index in range(1 + len(piece.extra_inputs))]
    for scales, mode, folds in (([1, 1, 2, 2], "nearest", True), ([1, 1, 2, 4], "nearest", False),
                                ([1, 1, 2, 2], "linear", False)):  # fmt: skip
        first = helper.make_node(
            "Upsample", ["z"], [inputs[position]], domain="com.microsoft.nchwc", scales=scales, mode=mode
        )
        second = helper.make_node("Run" + BLOCKED, inputs, ["y"], domain="regweave")
        proto = helper.make_model(helper.make_graph([first, second], "g", [], []))
        result, found = fold_enlargements(proto, {"Run" + BLOCKED: piece}, natives.block)
        assert found == ({"Run" + BLOCKED: Enlarged(position - 1, 2)} if folds else {})
        assert len(result.graph.node) == (1 if folds else 2)
        if folds:
            assert result.graph.node[0].input[position] == "z"


def test_the_operator_takes_padded_channels(natives):
    model = read_model(level())
    piece = the_run(model)
    enlarged = Enlarged(piece.extra_inputs.index("large"), 2)
    operator, kernel = enlarging_operator(piece, enlarged, natives.machine, 1)
    padded = -(-40 // natives.block) * natives.block
    assert set(operator.channels) == {padded}
    assert run_structure(piece, natives.block).channels == padded
    assert "rw_enlarging" in kernel.listing.text
