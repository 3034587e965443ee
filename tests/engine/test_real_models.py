"""Real models, fused: results unchanged on any size."""

from __future__ import annotations

import numpy as np
import pytest

import regweave
from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import NativeSession, unsupported_reason
from regweave.graphs.samples import sample_model

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(
        chosen_machine() is None or unsupported_reason() is not None,
        reason="no native kernels on this machine",
    ),
]


def compare(name, dims, *shapes):
    """Fuse a model of one image input and compare it with onnxruntime on inputs of other sizes too."""
    path = sample_model(name)
    fused = regweave.fuse(path, dims=dims)
    original = NativeSession(path)
    random = np.random.default_rng(3)
    for shape in shapes:
        x = random.standard_normal(shape).astype(np.float32)
        [input_name] = fused.input_names
        expected = original.run(None, {input_name: x})
        for ours, theirs in zip(fused.run(x).values(), expected, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4 * float(np.abs(theirs).max()))
    for piece in fused.report.fused:
        assert piece.accuracy is not None
        assert piece.measured is None or piece.measured.speedup >= 1.0
    return fused


def test_the_classifier_of_directions_keeps_its_output():
    fused = compare(
        "ch_ppocr_mobile_v2.0_cls_mobile",
        {"x[2]": 48, "x[3]": 192},
        (1, 3, 48, 192),
        (3, 3, 48, 192),
        (1, 3, 64, 100),
    )
    assert fused.report.fused


def test_the_recogniser_keeps_its_output():
    names = {"DynamicDimension.0": 1, "DynamicDimension.1": 320}
    fused = compare("PP-OCRv6_rec_small", names, (1, 3, 48, 320), (2, 3, 48, 200), (1, 3, 48, 704))
    chains = [piece for piece in fused.report.cascades if piece.decision == "fused"]
    assert chains
    assert any("gelu" in str(piece.activations) for piece in chains)


@pytest.mark.slow
def test_the_detector_keeps_its_output():
    names = {f"DynamicDimension.{index}": size for index, size in enumerate((1, 320, 320))}
    compare("PP-OCRv6_det_small", names, (1, 3, 320, 320), (2, 3, 160, 224))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plcmos_v2", "dnsmos_model_v8", "aecmos_1668423760"])
def test_models_of_sound_still_run(name):
    from regweave.engine.verifying.samples import sample_inputs, sized_model

    dims = {} if name.startswith("dnsmos") else {"frames": 120}
    path = sample_model(name)
    fused = regweave.fuse(path, dims=dims)
    feeds = sample_inputs(sized_model(path, dims), seed=5)
    expected = NativeSession(path).run(None, feeds)
    for ours, theirs in zip(fused.run(feeds).values(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
