"""Convolutions of enlarged images in regions: products on the small images, taps added up afterwards."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import Images

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import MOST_IMAGES, unsupported_reason
from regweave.engine.building.building import build
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.errors import DeviceError
from regweave.graphs import find_convolutions, find_regions, read_model
from regweave.graphs.regions.smaller import with_small_products
from regweave.operators import EnlargedTaps

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@pytest.fixture(params=[1 << 62, 0], ids=["whole", "banded"], autouse=True)
def room(request, monkeypatch):
    """Images between members as a whole, and in bands of four rows, however small they are."""
    monkeypatch.setattr("regweave.engine.regions.banded.BAND_BYTES", request.param)


def levels(
    scales: tuple[int, ...], kernel: int = 3, *, relu: bool = True, bias: bool = True, channels: int = 9
) -> onnx.ModelProto:
    """Images that are made smaller by `scales` (0: as it is), enlarged, joined if there are several; a
    convolution."""
    m = Images(channels=channels, size=("height", "width"))
    parts = []
    for index, scale in enumerate(scales):
        if not scale:
            parts.append(m.conv("x", f"whole{index}", channels, channels, 3))
            continue
        window = {"kernel_shape": [scale, scale], "strides": [scale, scale]}
        small = m.node("AveragePool", ["x"], f"small{index}", **window)
        factors = m.constant(f"factors{index}", np.array([1, 1, scale, scale], np.float32))
        parts.append(m.node("Resize", [small, "", factors], f"large{index}", **NEAREST))
    joined = m.node("Concat", parts, "joined", axis=1) if len(parts) > 1 else parts[0]
    y = m.conv(joined, "made" if relu else "y", channels * len(parts), 5, kernel, bias)
    if relu:
        m.node("Relu", [y], "y")
    return m.model(["y"])


def region_of(proto: onnx.ModelProto):
    model = read_model(proto, {"batch": 1, "height": 16, "width": 32})
    [piece] = find_regions(model, find_convolutions(model), (), MOST_IMAGES)
    return model, piece


def taps(region) -> list[EnlargedTaps]:
    return [member.work for member in region.members if isinstance(member.work, EnlargedTaps)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("scales", "settings"),
    [
        ((8, 4, 2, 0), {}), ((2,), {"relu": False}), ((0, 4, 0), {"kernel": 5}), ((2, 2), {"bias": False}),
        ((8, 4), {"relu": False, "kernel": 5}),
    ],
)  # fmt: skip
def test_any_levels_at_any_size(scales, settings, threads, run):
    proto = levels(scales, **settings)
    model, piece = region_of(proto)
    small = [scale for scale in scales if scale]
    found_taps = taps(with_small_products(piece.region))
    assert [work.scale for work in found_taps] == sorted(small, reverse=True)
    assert [work.added for work in found_taps] == [0 in scales or index > 0 for index in range(len(small))]
    assert not taps(piece.region)
    with Workshop() as shop:
        built = build(model, [piece], Natives(chosen_machine(), threads, block_size()), shop)
        session = built.open(shop, threads)
    for batch, height, width in ((1, 16, 32), (2, 8, 72), (1, 40, 8), (1, 8, 8), (1, 24, 144), (0, 8, 8)):
        x = np.random.default_rng(width).standard_normal((batch, 9, height, width)).astype(np.float32)
        [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
        assert found.shape == expected.shape
        scale = max(1, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 * scale)


def test_what_is_not_finite_stays_where_it_belongs(run):
    proto = levels((4, 0))
    model, piece = region_of(proto)
    with Workshop() as shop:
        session = build(model, [piece], Natives(chosen_machine(), 1, block_size()), shop).open(shop, 1)
    x = np.random.default_rng(1).standard_normal((1, 9, 16, 32)).astype(np.float32)
    x[0, 3, 7, 12], x[0, 1, 0, 0] = np.nan, np.inf
    [expected], [found] = run(proto, {"x": x}), session.run(None, {"x": x})
    assert not np.isfinite(expected).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    there = np.isfinite(expected)
    np.testing.assert_allclose(found[there], expected[there], rtol=1e-4, atol=1e-4)


def test_sizes_that_do_not_meet_are_an_error():
    model, piece = region_of(levels((4, 0)))
    with Workshop() as shop:
        session = build(model, [piece], Natives(chosen_machine(), 1, block_size()), shop).open(shop, 1)
    with pytest.raises(DeviceError, match="cannot be added"):
        session.run(None, {"x": np.zeros((1, 9, 16, 30), np.float32)})


@pytest.mark.parametrize("change", ["stride", "padding", "few channels", "read twice"])
def test_convolutions_that_stay_as_they_are(change):
    channels = 7 if change == "few channels" else 9
    proto = levels((4, 0), relu=False, channels=channels)
    conv = next(node for node in proto.graph.node if node.output[0] == "y")
    if change == "stride":
        conv.attribute.append(onnx.helper.make_attribute("strides", [2, 2]))
    if change == "padding":
        next(a for a in conv.attribute if a.name == "pads").ints[:] = [0, 1, 2, 1]
    if change == "read twice":
        second = onnx.NodeProto()
        second.CopyFrom(conv)
        second.name, second.output[0] = "second", "other"
        last = onnx.helper.make_node("Concat", ["y", "other"], ["both"], name="last", axis=1)
        weights = onnx.numpy_helper.from_array(np.ones((3, 10, 3, 3), np.float32), "w.end")
        proto.graph.initializer.append(weights)
        end = onnx.helper.make_node("Conv", ["both", "w.end"], ["end"], name="end", pads=[1] * 4)
        proto.graph.node.extend([second, last, end])
        proto.graph.output[0].name = "end"
        proto = onnx.shape_inference.infer_shapes(proto)
    _, piece = region_of(proto)
    assert with_small_products(piece.region) is piece.region
