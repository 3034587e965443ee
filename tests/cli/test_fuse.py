"""`regweave fuse` on a small model: the document, the table, the folder, and every kind of bad input."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from regweave.cli import main
from regweave.cli.fuse import dimensions, node_names
from regweave.devices.cpu import chosen_machine
from regweave.errors import InputError
from regweave.graphs.samples import sample_model

FIELDS = {"nodes", "shape", "activations", "decision", "reason", "predicted", "measured"}
ERRORS = {"max_abs_error", "max_rel_error"}


def two_products(external=None):
    """x [N, 32] -> MatMul "first", Relu, MatMul "second" -> y [N, 16]."""
    random = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w1", (32, 64)), ("w2", (64, 16)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="middle"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "two.onnx"
    path.write_bytes(two_products().SerializeToString())
    return path


def document_of(words, capfd, code=0):
    assert main([*words, "--json"]) == code
    return json.loads(capfd.readouterr().out)


def test_the_document_has_every_field(model, capfd):
    report = document_of(["fuse", str(model), "--dim", "N=512"], capfd)
    assert report["model"]
    assert report["threads"] == 1
    (cascade,) = report["cascades"]
    assert cascade.keys() >= FIELDS | ERRORS
    assert cascade["shape"] == {"m": 512, "widths": [32, 64, 16]}
    assert cascade["nodes"] == ["first", "middle", "second"]
    assert cascade["decision"] in ("fused", "refused")
    assert cascade["reason"]
    assert cascade["predicted"]["bytes_unfused"] > cascade["predicted"]["bytes_fused"] > 0
    assert {"baseline_ms", "fused_ms", "speedup"} | ERRORS <= report["whole"].keys()


def field_names(value):
    if isinstance(value, dict):
        return set(value).union(*map(field_names, value.values()))
    return set().union(*map(field_names, value)) if isinstance(value, list) else set()


def test_every_field_is_documented(model, capfd):
    words = ["fuse", str(model), "--dim", "N=64", "--machine", "sm_80", "--dtype", "tf32"]
    page = (Path(__file__).parents[2] / "docs/report.md").read_text("utf-8")
    known = set(re.findall(r"\w+", page))
    assert field_names(document_of(words, capfd)) - known == set()


@pytest.mark.skipif(chosen_machine() is None, reason="no native kernels on this machine")
def test_a_chain_that_is_asked_for_is_fused_and_saved(model, tmp_path, capfd):
    out = tmp_path / "deep" / "out"
    words = ["fuse", str(model), "--dim", "N=64", "--fuse", "first,second", "--out", str(out)]
    report = document_of(words, capfd)
    (cascade,) = report["cascades"]
    assert cascade["decision"] == "fused"
    assert cascade["max_abs_error"] < 1e-4
    assert json.loads((out / "report.json").read_text("utf-8")) == report
    assert "first" in (out / "report.html").read_text("utf-8")
    assembly = next((out / "kernels").glob("*.s")).read_text("utf-8")
    assert "vfmadd" in assembly
    registers = next((out / "kernels").glob("*.registers.txt")).read_text("utf-8")
    assert "mm0" in registers


def test_what_is_kept_apart_is_not_fused(model, capfd):
    report = document_of(["fuse", str(model), "--dim", "N=64", "--apart", "second"], capfd)
    assert [c for c in report["cascades"] if c["decision"] == "fused"] == []


@pytest.mark.parametrize(
    ("machine", "dtype", "strategy"),
    [("sm_80", "tf32", "fold"), ("gfx942", "f16", "swap"), ("sm_89", "fp8", "fold")],
)
def test_seams_on_a_gpu(machine, dtype, strategy, model, capfd):
    words = ["fuse", str(model), "--dim", "N=64", "--machine", machine, "--dtype", dtype]
    (cascade,) = document_of(words, capfd)["cascades"]
    assert [seam["strategy"] for seam in cascade["seams"]] == [strategy]


def test_the_table_is_the_answer_and_the_talk_is_not(model, capfd):
    assert main(["fuse", str(model), "--dim", "N=64", "--tune"]) == 0
    streams = capfd.readouterr()
    assert "first .. second (3)" in streams.out
    assert "whole model" in streams.out
    assert "reading the model" in streams.err
    assert "reading the model" not in streams.out
    assert all(line == line.rstrip() for line in streams.out.splitlines())


@pytest.mark.models
def test_all_shows_every_refused_candidate(capfd):
    model = sample_model("ch_ppocr_mobile_v2.0_cls_mobile")
    words = ["fuse", str(model), "--dim", "x[2]=48", "--dim", "x[3]=192"]
    assert main(words) == 0
    short = capfd.readouterr().out
    assert main([*words, "--all"]) == 0
    long = capfd.readouterr().out
    assert "1 x  MaxPool 'MaxPool@0' pools neighbouring pixels" in short
    assert long.count("mixes neighbouring pixels") > 5 > short.count("mixes neighbouring pixels")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--threads", "0"], "threads"),
        (["--threads", "-3"], "threads"),
        (["--dim", "N"], "--dim"),
        (["--dim", "N=many"], "--dim"),
        (["--dim", "N=-1"], "--dim"),
        (["--dim", "M=4"], "N"),
        (["--fuse", "first,secnd"], "second"),
        (["--fuse", "first"], "first"),
        (["--apart", "frist"], "first"),
        (["--strategy", "glue"], "glue"),
        (["--machine", "sm_80"], "dtype"),
        (["--dtype", "tf32"], "machine"),
        (["--machine", "sm_81", "--dtype", "tf32"], "sm_80"),
        (["--machine", "sm_80", "--dtype", "tf23"], "tf32"),
    ],
)
def test_bad_arguments(model, words, complaint, capfd):
    assert main(["fuse", str(model), *words]) == 2
    streams = capfd.readouterr()
    assert streams.out == ""
    assert complaint in streams.err
    assert "Traceback" not in streams.err


def broken(kind, path):
    proto = two_products()
    if kind == "missing":
        return
    if kind == "folder":
        path.mkdir()
    elif kind == "truncated":
        path.write_bytes(proto.SerializeToString()[:200])
    elif kind == "text":
        path.write_text("this is no model\n" * 50)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "without its external data":
        for tensor in proto.graph.initializer:
            onnx.external_data_helper.set_external_data(tensor, "gone.bin", 0, len(tensor.raw_data))
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
        path.write_bytes(proto.SerializeToString())


@pytest.mark.parametrize(
    "kind", ["missing", "folder", "truncated", "text", "empty", "without its external data"]
)
def test_bad_files(kind, tmp_path, capfd):
    path = tmp_path / "bad.onnx"
    broken(kind, path)
    error = document_of(["fuse", str(path)], capfd, code=2)["error"]
    assert error["kind"] in ("ModelError", "InputError")
    assert "Traceback" not in error["what"]


def test_a_folder_that_cannot_be_made(model, tmp_path, capfd):
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert main(["fuse", str(model), "--dim", "N=8", "--out", str(blocker / "out")]) == 2
    assert "file" in capfd.readouterr().err


def test_dimensions_and_node_names():
    assert dimensions(("N=4", "x[3]=320", "odd=name=2")) == {"N": 4, "x[3]": 320, "odd=name": 2}
    assert node_names(" a, b ,") == ("a", "b")
    with pytest.raises(InputError, match="--dim"):
        dimensions(("=3",))
    for wrong in ("N=" + "9" * 5000, "N=-1", "N=²"):
        with pytest.raises(InputError, match="does not set a dimension"):
            dimensions((wrong,))


def test_a_dimension_has_one_size():
    assert dimensions(("N=4", "N=4")) == {"N": 4}
    with pytest.raises(InputError, match="'N' is given twice: 4 and 5"):
        dimensions(("N=4", "N=5"))


def test_the_folder_is_tried_before_the_work(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    (tmp_path / "some.onnx").write_text("no model")
    assert main(["fuse", str(tmp_path / "some.onnx"), "--out", str(tmp_path / "file")]) == 2
    assert "cannot write there" in capfd.readouterr().err
    for model in ("none.onnx", "some.onnx"):
        assert main(["fuse", str(tmp_path / model), "--out", str(tmp_path / "deep" / "folder")]) == 2
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "some.onnx"]
