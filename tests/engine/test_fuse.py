"""`fuse` from end to end on small models: results, decisions, requests, reports, and what can go wrong."""

from __future__ import annotations

import copy
import json
import pickle
import threading

import numpy as np
import onnx
import pytest

import regweave
from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import unsupported_reason
from regweave.errors import InputError, ModelError, UnsupportedError

native = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
SIZES = {"batch": 2, "height": 20, "width": 24}


def images(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def fused(recogniser):
    said = []
    result = regweave.fuse(recogniser, dims=SIZES, tune=True, progress=said.append)
    assert said[0] == "reading the model"
    return result


@native
def test_results_are_those_of_onnxruntime_for_any_sizes(fused, recogniser, run):
    for shape in ((2, 16, 20, 24), (1, 16, 7, 5), (3, 16, 1, 1), (2, 16, 33, 18)):
        x = images(*shape)
        np.testing.assert_allclose(
            fused.run({"x": x})["y"], run(recogniser, {"x": x})[0], rtol=1e-4, atol=1e-5
        )


@native
def test_what_runs_natively_is_measured_and_verified(fused):
    report = fused.report
    assert report.fused
    for piece in report.fused:
        assert piece.accuracy is not None
        assert piece.onnxruntime_error is not None
        assert piece.accuracy.max_abs_error <= 2 * piece.onnxruntime_error + 1e-5
        assert piece.measured is None or piece.measured.speedup >= 1.0
    for piece in (*report.cascades, *report.others):
        assert piece.reason
    assert report.whole is not None
    assert report.whole.speedup > 0


@native
def test_a_broken_chain_is_refused_with_its_reason(fused):
    reasons = [piece.reason for piece in fused.report.cascades if piece.decision == "refused"]
    assert any("kernel 3x3" in reason for reason in reasons)


@native
def test_the_report_is_the_document_that_was_promised(fused):
    document = json.loads(json.dumps(fused.report.to_dict()))
    assert {"model", "threads", "cascades", "whole"} <= document.keys()
    assert document["whole"].keys() == {
        "baseline_ms", "fused_ms", "speedup", "max_abs_error", "max_rel_error",
    }  # fmt: skip
    for entry in document["cascades"]:
        assert {
            "nodes", "shape", "activations", "decision", "reason", "predicted", "measured", "max_abs_error",
            "max_rel_error",
        } <= entry.keys()  # fmt: skip
        assert entry["decision"] in ("fused", "refused")
        assert entry["predicted"].keys() == {"bytes_unfused", "bytes_fused"}
        assert entry["measured"].keys() == {"baseline_ms", "fused_ms", "speedup"}


@native
def test_kernels_and_report_are_written(fused, tmp_path):
    folder = fused.save(tmp_path / "out")
    listings = list((folder / "kernels").glob("*.s"))
    assert len(listings) == len(fused.natives)
    assert all(".globl" in path.read_text() for path in listings)
    assert all(path.with_suffix("").with_suffix("").name for path in listings)
    assert "<html" in (folder / "report.html").read_text()
    assert json.loads((folder / "report.json").read_text())["model"] == fused.report.model
    with pytest.raises(InputError, match="cannot write"):
        fused.save(folder / "report.json")


@native
def test_several_threads_may_run_it_at_once(fused, recogniser, run):
    inputs = [images(1, 16, 9 + seed, 12, seed=seed) for seed in range(4)]
    expected = [run(recogniser, {"x": x})[0] for x in inputs]
    faults = []

    def work(x, y):
        for _ in range(10):
            if not np.allclose(fused.run(x)["y"], y, rtol=1e-4, atol=1e-5):
                faults.append(x.shape)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@native
def test_nan_and_infinity_propagate_as_in_onnxruntime(perceptron, run):
    fused = regweave.fuse(perceptron, dims={"rows": 40}, tune=True)
    x = images(1, 40, 64)
    x[0, 3, 5], x[0, 7, 0] = np.nan, np.inf
    ours, theirs = fused.run(x)["a2"], run(perceptron, {"x": x})[0]
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    clean = [row for row in range(40) if row not in (3, 7)]
    np.testing.assert_allclose(ours[0, clean], theirs[0, clean], rtol=1e-4, atol=1e-5)


@native
@pytest.mark.parametrize("threads", [1, 2])
def test_a_chain_asked_for_by_name_is_fused_whatever_it_costs(perceptron, run, threads):
    names = ("product0", "product1")
    fused = regweave.fuse(perceptron, threads=threads, dims={"rows": 2}, fuse=[names], apart=["product2"])
    [chain] = [piece for piece in fused.report.cascades if set(names) <= set(piece.nodes)]
    assert chain.decision == "fused"
    assert "product2" not in chain.nodes
    for rows in (0, 1, 2, 77):
        x = images(1, rows, 64)
        np.testing.assert_allclose(fused.run(x)["a2"], run(perceptron, {"x": x})[0], rtol=1e-4, atol=1e-5)


@native
def test_apart_keeps_products_apart(perceptron):
    fused = regweave.fuse(perceptron, dims={"rows": 64}, apart=["product1"], tune=True)
    assert not any(
        piece.decision == "fused" and "product1" in piece.nodes and len(piece.shape.widths) > 2
        for piece in fused.report.cascades
    )


def test_refusal_on_request_leaves_everything_to_onnxruntime(perceptron, run):
    fused = regweave.fuse(perceptron, dims={"rows": 8}, strategy="refuse")
    assert not fused.report.fused
    assert all("on request" in piece.reason for piece in fused.report.cascades)
    x = images(1, 8, 64)
    np.testing.assert_array_equal(fused.run(x)["a2"], run(perceptron, {"x": x})[0])


def test_without_native_kernels_everything_still_runs(perceptron, monkeypatch):
    monkeypatch.setenv("REGWEAVE_ISA", "portable")
    fused = regweave.fuse(perceptron, dims={"rows": 8})
    assert not fused.report.fused
    assert "no native kernels" in fused.report.cascades[0].reason
    assert fused.run(images(1, 8, 64))["a2"].shape == (1, 8, 8)


def test_seams_on_a_gpu_are_shown_on_request(perceptron):
    fused = regweave.fuse(perceptron, dims={"rows": 8}, machine="sm_80", dtype="tf32", strategy="refuse")
    seams = [seam.strategy for piece in fused.report.cascades for seam in piece.seams]
    assert seams
    assert set(seams) == {"refuse"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"threads": 0}, "0 threads"),
        ({"threads": -1}, "-1 threads"),
        ({"threads": 100_000}, "100000 threads for .*at most"),
        ({"strategy": "magic"}, "unknown strategy 'magic'"),
        ({"strategy": "fold"}, "lanes of a warp"),
        ({"machine": "sm_80"}, "both a machine and a data type"),
        ({"machine": "sm_80", "dtype": "tf33"}, "no instruction for 'tf33'"),
        ({"dims": {}}, "rows.*--dim rows=SIZE"),
        ({"dims": {"row": 3}}, "row"),
        ({"fuse": [("product0",)]}, "one layer is not a cascade"),
        ({"fuse": [("product0", "nothing")]}, "no node 'nothing'"),
        ({"fuse": 3}, "not a list of node names"),
        ({"fuse": [(1, 2)]}, "no node '1'"),
        ({"apart": ["produkt1"]}, "product1"),
        ({"dims": ["rows"]}, "not a mapping"),
        ({"machine": 5, "dtype": "tf32"}, "5 is no machine"),
        ({"progress": 5}, "progress is 5.*expected a function"),
        ({"dims": {"rows": 10**30}}, "whole number from 0"),
        ({"dims": {"rows": 10**9, "batch": 1000}}, "more than this machine can hold.*smaller sizes"),
    ],
)
def test_bad_arguments_are_clear_errors(perceptron, arguments, words):
    with pytest.raises(InputError, match=words):
        regweave.fuse(perceptron, **{"dims": {"rows": 8}, **arguments})


def test_a_model_that_onnxruntime_does_not_take_is_named(tmp_path):
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 5]) for name in "xy")
    node = helper.make_node("MatMul", ["x", "x"], ["y"])  # 4 x 5 by 4 x 5
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), ir_version=8)
    (tmp_path / "wrong.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"cannot load the model.*wrong\.onnx.*check_model"):
        regweave.fuse(tmp_path / "wrong.onnx")


def test_sizes_that_memory_cannot_hold_are_refused_before_anything_runs(perceptron, monkeypatch):
    monkeypatch.setattr("regweave.engine.verifying.samples.free_memory", lambda: 10_000_000)
    told = []
    with pytest.raises(InputError, match=r"(?s)tensors would take .* GB.*at dims .*at most 0.01 GB"):
        regweave.fuse(perceptron, dims={"rows": 8, "batch": 30_000}, progress=told.append)
    assert told == ["reading the model", "making inputs"]


@pytest.mark.parametrize("thing", [None, 3, b"model.onnx", ["model.onnx"]])
def test_things_that_are_no_models(thing):
    with pytest.raises(InputError, match="is not a model"):
        regweave.fuse(thing)


def test_sizes_that_the_model_does_not_run_with(recogniser):
    with pytest.raises(InputError, match=r"does not run with these sizes.*give sizes"):
        regweave.fuse(recogniser, dims={**SIZES, "width": 0})


@native
def test_an_input_that_is_also_an_output(perceptron, run):
    model = onnx.ModelProto()
    model.CopyFrom(perceptron)
    model.graph.output.append(model.graph.input[0])
    fused = regweave.fuse(model, dims={"rows": 8}, fuse="product0,product1")
    x = images(1, 8, 64)
    found = fused.run(x)
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_allclose(found["a2"], run(perceptron, {"x": x})[0], rtol=1e-4, atol=1e-5)


@native
def test_names_that_files_cannot_have(perceptron, tmp_path):
    model = onnx.ModelProto()
    model.CopyFrom(perceptron)
    names = (" <b>/1,", "p" * 3000, " <b>:1,")
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    for node, name in zip(products, names, strict=True):
        node.name = name
    fused = regweave.fuse(model, dims={"rows": 8}, fuse=[names])
    fused.save(tmp_path)
    assert len(list((tmp_path / "kernels").glob("*.s"))) == len(fused.natives) > 0
    assert "<b>" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_kernels_of_like_names_get_files_of_their_own():
    from regweave.engine.fused import _stems

    stems = _stems(dict.fromkeys(("a/b", "a:b", "A:B", "x" * 300, "x" * 301)))  # type: ignore[arg-type]
    assert len({stem.lower() for stem in stems}) == 5
    assert max(map(len, stems)) < 120


def test_a_fused_model_has_a_short_name_and_is_not_copied(perceptron):
    fused = regweave.fuse(perceptron, dims={"rows": 8}, strategy="refuse")
    assert repr(fused) == "<Fused perceptron: 0 native pieces, 1 thread(s)>"
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(UnsupportedError, match="cannot be copied or pickled"):
            attempt(fused)


def test_files_that_are_no_models(tmp_path, perceptron):
    with pytest.raises(ModelError, match="no such file"):
        regweave.fuse(tmp_path / "none.onnx")
    (tmp_path / "half.onnx").write_bytes(perceptron.SerializeToString()[:900])
    with pytest.raises(ModelError):
        regweave.fuse(tmp_path / "half.onnx", dims={"rows": 3})


@native
def test_an_empty_batch_can_be_planned_for(perceptron):
    fused = regweave.fuse(perceptron, dims={"batch": 0, "rows": 8}, tune=True)
    assert fused.run(images(0, 8, 64))["a2"].shape == (0, 8, 8)


@native
def test_old_models_declare_their_constants_as_inputs(perceptron, run):
    """Equal constants, which onnxruntime shares: the second one's input must not have to be fed."""
    model = onnx.ModelProto()
    model.CopyFrom(perceptron)
    model.ir_version = 3
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    weights["b2"].CopyFrom(onnx.numpy_helper.from_array(np.ones(8, np.float32), "b2"))
    twin = onnx.numpy_helper.from_array(np.ones(8, np.float32), "twin")
    model.graph.initializer.append(twin)
    model.graph.node.append(onnx.helper.make_node("Add", ["a2", "twin"], ["z"], "last"))
    model.graph.output[0].name = "z"
    for tensor in model.graph.initializer:
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    x = images(2, 8, 64)
    fused = regweave.fuse(model, dims={"rows": 8})
    assert fused.input_names == ("x",)
    np.testing.assert_allclose(fused.run(x)["z"], run(model, {"x": x})[0], rtol=1e-4, atol=1e-5)


@native
def test_weights_in_another_file(tmp_path, perceptron, run):
    path, model = tmp_path / "model.onnx", onnx.ModelProto()
    model.CopyFrom(perceptron)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    fused = regweave.fuse(path, dims={"rows": 32}, fuse=[("product0", "product1", "product2")])
    x = images(2, 32, 64)
    np.testing.assert_allclose(fused.run(x)["a2"], run(perceptron, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_other_types_are_left_to_onnxruntime(perceptron):
    double = onnx.ModelProto()
    double.CopyFrom(perceptron)
    for tensor in double.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for value in (*double.graph.input, *double.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    fused = regweave.fuse(double, dims={"rows": 8})
    assert not fused.report.fused
    assert any("float64" in piece.reason or "double" in piece.reason for piece in fused.report.cascades)
    x = np.zeros((1, 8, 64))
    assert fused.run(x)["a2"].dtype == np.float64
