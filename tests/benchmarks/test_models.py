"""Whole models: the document, and that a wrong output never becomes a figure."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from regweave import InputError, VerificationError, engine
from regweave.benchmarks import MODELS, compare_models
from regweave.benchmarks.models import free_dimensions, sample_inputs
from regweave.views import models_table

SMALL = "ch_ppocr_mobile_v2.0_cls_mobile"


@pytest.mark.models
def test_the_document():
    document = compare_models((SMALL,), rounds=2)
    (model,) = document["models"]
    assert model["name"] == SMALL
    assert model["speedup"] == pytest.approx(model["baseline_ms"] / model["fused_ms"])
    assert model["max_rel_error"] < 1e-4
    other = model["openvino_ms"]
    if other is None:
        assert document["missing"][f"openvino ({SMALL})"]
    else:
        assert model["openvino_speedup"] == pytest.approx(other / model["fused_ms"])
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(models_table(document))
    assert SMALL in console.export_text()


@pytest.mark.models
def test_another_library_s_wrong_output_is_no_figure_either(monkeypatch):
    def wrong(path, inputs, threads):
        return lambda: {"save_infer_model/scale_0.tmp_1": np.ones((1, 2))}

    openvino = pytest.importorskip("regweave.benchmarks.openvino_peer", reason="the package openvino")
    monkeypatch.setattr(openvino, "whole_model", wrong)
    document = compare_models((SMALL,), rounds=1)
    assert document["models"][0]["openvino_ms"] is None
    assert "off by" in document["missing"][f"openvino ({SMALL})"]


@pytest.mark.models
def test_a_wrong_output_is_a_failed_check(monkeypatch):
    def wrong(path, **settings):
        return SimpleNamespace(run=lambda inputs: {"save_infer_model/scale_0.tmp_1": np.ones((1, 2))})

    monkeypatch.setattr(engine, "fuse", wrong)
    with pytest.raises(VerificationError, match="off by"):
        compare_models((SMALL,), rounds=1)


def test_inputs_have_the_shapes_and_only_open_axes_are_set():
    inputs = sample_inputs("plcmos_v2")
    assert {name: x.shape for name, x in inputs.items()} == MODELS["plcmos_v2"]
    declared = [
        SimpleNamespace(name="degraded_audio", shape=["N", 1, "frames", 257]),
        SimpleNamespace(name="rater_embed", shape=[None, 64]),
    ]
    session = SimpleNamespace(get_inputs=lambda: declared)
    sizes = {"degraded_audio[0]": 1, "degraded_audio[2]": 900, "rater_embed[0]": 1}
    assert free_dimensions(session, inputs) == sizes


@pytest.mark.parametrize("settings", [{"threads": 0}, {"rounds": 0}, {"names": ("no_such_model",)}])
def test_bad_settings(settings):
    with pytest.raises(InputError):
        compare_models(**{"names": (SMALL,), **settings})
