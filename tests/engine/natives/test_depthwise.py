"""Depthwise convolutions stay in onnxruntime's blocks, for any size of image and number of threads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import Images

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import DOMAIN, unsupported_reason
from regweave.engine.building.blocking import count_reorders
from regweave.engine.building.building import BLOCKED, build
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.depthwise import can_run_depthwise, depthwise_operator
from regweave.engine.natives.natives import Natives
from regweave.engine.verifying.verification import captured, check_piece
from regweave.graphs import find_convolutions, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)


def between(channels: int, kernel: int, *, stride: int = 1):
    """A depthwise convolution between two others, which onnxruntime blocks."""
    m = Images(channels=32, size=("height", "width"))
    a = m.conv("x", "a", 32, channels, 3)
    m.conv(a, "b", channels, channels, kernel, group=channels)
    m.nodes[-1].attribute.append(onnx.helper.make_attribute("strides", [stride, stride]))
    m.conv(m.node("Relu", ["b"], "c"), "y", channels, 32, 3)
    return m.model(["y"])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("channels", "kernel", "stride"), [(48, 3, 1), (40, 5, 1), (64, 3, 2)])
def test_between_blocked_convolutions(channels, kernel, stride, threads, run):
    proto = between(channels, kernel, stride=stride)
    model = read_model(proto, {"batch": 1, "height": 20, "width": 30})
    pieces = [piece for piece in find_convolutions(model) if piece.name == "b.conv"]
    natives = Natives(chosen_machine(), threads, block_size())
    if natives.block != natives.machine.lanes:
        pytest.skip("onnxruntime's blocks are no vectors here")
    x = np.random.default_rng(0).standard_normal((1, 32, 20, 30)).astype(np.float32)
    with Workshop() as shop:
        built = build(model, pieces, natives, shop)
        names = [node.op_type for node in built.proto.graph.node if node.domain == DOMAIN]
        assert names == ["Region0" + BLOCKED]
        assert count_reorders(built.proto) <= 2
        session = built.open(shop, threads)
        tensors = captured(model, pieces, {"x": x}, shop, threads)
        assert check_piece(pieces[0], natives, tensors, blocked=True).passed
    for batch, height, width in ((1, 20, 30), (2, 9, 61), (1, 5, 5), (3, 40, 17), (1, 1, 1), (0, 4, 4)):
        x = np.random.default_rng(width).standard_normal((batch, 32, height, width)).astype(np.float32)
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


def test_what_is_none():
    m = Images(channels=32, size=(20, 30))
    m.conv(m.conv("x", "wide", 32, 32, 3), "y", 32, 32, 3, group=16)
    model = read_model(m.model(["y"]), {"batch": 1})
    assert not any(can_run_depthwise(piece, chosen_machine()) for piece in find_convolutions(model))


def test_the_operator_names_the_padded_channels():
    model = read_model(between(40, 3), {"batch": 1, "height": 20, "width": 30})
    [piece] = [piece for piece in find_convolutions(model) if piece.name == "b.conv"]
    operator, kernel = depthwise_operator(piece, chosen_machine(), 1)
    lanes = chosen_machine().lanes
    assert operator.channels == (-(-40 // lanes) * lanes,)
    assert operator.prepare((2, *operator.channels, 20, 30)).out_shape == (2, *operator.channels, 20, 30)
    assert "rw_depthwise" in kernel.listing.text
