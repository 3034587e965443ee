"""Chains of a model are multiplied by seven where that is accurate, by eight where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from engine_models import Images
from onnx import numpy_helper

from regweave.cascades.device import choose_machine
from regweave.devices.onnxruntime import unsupported_reason
from regweave.engine.natives.natives import Natives
from regweave.engine.verifying.verification import check_piece
from regweave.graphs import find_candidates, read_model

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))

CHANNELS, HIDDEN = 96, 192


@pytest.mark.parametrize(("scale", "seven"), [(1.0, True), (1e6, False)])
def test_halves_are_used_where_they_are_accurate(scale: float, seven: bool) -> None:
    """A half of the weights that is much larger, against activations that are smaller by as much, is lost in
    the sums of halves."""
    m = Images(CHANNELS, (8, 9))
    m.node("Relu", [m.conv("x", "up", CHANNELS, HIDDEN)], "inner")
    m.conv("inner", "y", HIDDEN, CHANNELS)
    proto = m.model(["y"])
    weight = numpy_helper.to_array(proto.graph.initializer[0]).copy()
    weight[:, : CHANNELS // 2] *= scale
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "up.w"))
    x = np.random.default_rng(3).standard_normal((1, CHANNELS, 8, 9), dtype=np.float32)
    x[:, : CHANNELS // 2] /= scale
    machine = choose_machine()
    if machine is None:
        pytest.skip("no native kernels")
    model, natives = read_model(proto), Natives(machine, 1, 16)
    (piece,) = (p for p in find_candidates(model) if p.refusal is None)
    assert piece.chain is not None
    exact = piece.chain.reference(x.reshape(1, CHANNELS, -1)).reshape(x.shape)
    tensors = {"x": x, "y": exact.astype(np.float32)}
    assert check_piece(piece, natives, tensors, blocked=True).passed
    plan = natives.build(piece, "Piece", blocked=True).plan
    assert plan is not None
    assert any(plan.seven) is seven
    assert natives.by_eight(piece, blocked=True) is seven
