"""`regweave bench`: one document, talk on stderr, small cases in place of the real ones."""

import json
from dataclasses import replace

import pytest

from regweave import benchmarks
from regweave.benchmarks import CascadeCase, ProductCase
from regweave.cli import main


@pytest.fixture(autouse=True)
def small_cases(monkeypatch):
    monkeypatch.setattr(benchmarks, "CASCADES", (CascadeCase(40, (16, 32, 8)), CascadeCase(9, (8, 8, 8))))
    monkeypatch.setattr(benchmarks, "PRODUCTS", (ProductCase(40),))


@pytest.mark.parametrize(("what", "names"), [("cascade", ["40x16-32-8", "9x8-8-8"]), ("gemm", ["40x40x40"])])
def test_json_is_one_document(what, names, capfd):
    assert main(["bench", what, "--rounds", "2", "--peer", "onnxruntime", "--json"]) == 0
    streams = capfd.readouterr()
    document = json.loads(streams.out)
    assert [case["name"] for case in document["cases"]] == names
    for case in document["cases"]:
        assert case["peers"]["onnxruntime"] > 0
        assert case["ours_ms"] > 0
        assert case["ratio_best_peer"] > 0
        assert case["relative_errors"]["regweave"] < 1e-5
    assert document["machine"]["copy_gb_per_s"] > 0
    assert f"bench {what}" in streams.err


def test_the_table_and_a_missing_library(capfd, monkeypatch):
    for name in ("torch", "torch.compile"):
        monkeypatch.setitem(benchmarks.PEER_CLASSES, name, ("no_such_module", "NoPeer"))
    peers = ["--peer", "torch", "--peer", "torch.compile", "--peer", "onnxruntime"]
    words = ["--case", "9x8-8-8", "--rounds", "1", *peers]
    assert main(["bench", "cascade", *words]) == 0
    streams = capfd.readouterr()
    assert "9x8-8-8" in streams.out
    assert "40x16" not in streams.out
    assert "without torch, torch.compile: regweave.benchmarks.no_such_module is not installed" in streams.err


def test_channels_last_beside_planes(capfd, monkeypatch):
    case = benchmarks.same_size_case(8, 16, 3, 12, 14)
    monkeypatch.setattr(benchmarks, "channels_last_cases", lambda: (replace(case, order="nhwc"),))
    words = ["--order", "nhwc", "--rounds", "1", "--peer", "onnxruntime", "--peer", "regweave.nchw"]
    assert main(["bench", "conv", *words, "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["cases"]
    assert found["name"] == "3x3 8->16 12x14, nhwc"
    assert set(found["relative_errors"]) == {"regweave", "onnxruntime", "regweave.nchw"}
    # ours on planes has its turn, but is no peer
    assert found["ratio_best_peer"] == found["peers"]["onnxruntime"] / found["ours_ms"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["cascade", "--threads", "0"], "--threads"),
        (["gemm", "--rounds", "0"], "--rounds"),
        (["cascade", "--case", "9x8-8-9"], "9x8-8-8"),
        (["cascade", "--peer", "tensorflow"], "--peer"),
        (["models", "--case", "PP-OCRv6_rec_smal"], "PP-OCRv6_rec_small"),
        (["models", "--peer", "numpy"], "--peer"),
        (["models", "--threads", "-1"], "--threads"),
        (["gemm", "--order", "nhwc"], "--order"),
        (["conv", "--opencl", "--order", "nhwc"], "--order"),
    ],
)
def test_bad_input(words, complaint, capfd):
    assert main(["bench", *words]) == 2
    streams = capfd.readouterr()
    assert streams.out == ""
    assert complaint in streams.err


def test_what_libraries_print_does_not_reach_stdout(capfd, monkeypatch):
    import os

    from regweave.benchmarks import compare

    def noisy(*arguments, **settings):
        print("from Python")
        os.write(1, b"from C\n")
        return compare(*arguments, **settings)

    monkeypatch.setattr(benchmarks, "compare", noisy)
    assert main(["bench", "gemm", "--rounds", "1", "--peer", "onnxruntime", "--json"]) == 0
    streams = capfd.readouterr()
    json.loads(streams.out)
    assert "from C" in streams.err
    assert "from Python" in streams.err
