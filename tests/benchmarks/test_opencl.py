"""Kernels in OpenCL C beside ours: right results, one document, every plan of a sweep, senseless requests."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from regweave import VerificationError, benchmarks, settings
from regweave.benchmarks import OPENCL_PEERS, opencl_sweep, peers, same_size_case, sweep_tiles
from regweave.benchmarks.cases import relative_error
from regweave.benchmarks.convolution_cases import ConvolutionCase
from regweave.cli import main
from regweave.devices import opencl
from regweave.devices.opencl import kept
from regweave.operators import convolution_of
from regweave.views import tile_sweep_table

needs_device = pytest.mark.skipif(
    opencl.unsupported_reason() is not None, reason=str(opencl.unsupported_reason())
)
CASES = (
    same_size_case(3, 9, 3, 17, 20),
    same_size_case(2, 4, 5, 30, 31, stride=2),
    ConvolutionCase(
        convolution_of(
            (1, 6, 12, 40), (10, 3, 2, 3), strides=(1, 2), padding=(1, 0, 2, 3), dilations=2, groups=2
        )
    ),
)


@needs_device
@pytest.mark.parametrize("name", OPENCL_PEERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_computes_the_convolution(name, case):
    data = case.data()
    run = peers.peer_named(name).convolution(data, 1)
    for _ in range(2):
        assert relative_error(np.asarray(run()), data.expected) < 1e-6
    halves = replace(case, dtype="f16").data()
    found = np.asarray(peers.peer_named(name).convolution(halves, 1)())
    assert found.dtype == np.float16
    assert 1e-5 < relative_error(found, halves.expected) < 1e-3


def test_halves_are_cases_of_their_own():
    case = replace(CASES[0], dtype="f16")
    assert case.name == "3x3 3->9 17x20, f16"
    assert case.bytes == 2 * 17 * 20 * (3 + 9) + 4 * 9 * 27
    data = case.data()
    assert np.array_equal(data.x.astype(np.float16), data.x)
    assert not np.array_equal(data.weights.astype(np.float16), data.weights)
    assert CASES[0].data().tolerance is None


@needs_device
def test_several_strips_of_columns(monkeypatch):
    monkeypatch.setattr("regweave.benchmarks.opencl_peers._STRIP", 20000)
    data = CASES[0].data()
    run = peers.peer_named("opencl.im2col").convolution(data, 1)
    assert relative_error(np.asarray(run()), data.expected) < 1e-6


@needs_device
def test_the_verb_compares_them_on_one_device(monkeypatch, capfd):
    monkeypatch.setattr(benchmarks, "CONVOLUTIONS", CASES[:1])
    assert main(["bench", "conv", "--opencl", "--rounds", "1", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    case, halves = document["cases"]
    assert set(case["peers"]) == set(halves["peers"]) == set(OPENCL_PEERS)
    assert case["ours_ms"] > 0
    assert max(case["relative_errors"].values()) < 1e-6
    assert halves["name"] == case["name"] + ", f16"
    assert all(1e-5 < error < 1e-3 for error in halves["relative_errors"].values())


@needs_device
def test_a_sweep_times_every_plan(monkeypatch, capfd):
    case = same_size_case(1, 2, 3, 6, 20)
    plan = opencl_sweep.own_plan(case)
    few = [plan, *(other for other in opencl_sweep.every_plan(plan) if other.outputs_per_thread[1] == 1)][:5]
    monkeypatch.setattr(opencl_sweep, "every_plan", lambda own: few)
    monkeypatch.setattr(benchmarks, "CONVOLUTIONS", (case,))
    assert main(["bench", "conv", "--opencl", "--sweep", "--rounds", "1", "--case", case.name, "--json"]) == 0
    (told,) = json.loads(capfd.readouterr().out)["cases"]
    assert told["plans"] == len(told["all"]) == 5
    assert told["own"]["form"] == plan.form
    assert told["own_over_best"] >= 1
    assert told["best"]["ms"] == min(each["ms"] for each in told["finalists"])
    table = tile_sweep_table({"rounds": 1, "cases": [told]})
    assert [column.header for column in table.columns][-1] == "chosen / fastest"
    assert table.row_count == 1


@needs_device
def test_a_sweep_compiles_in_other_processes_and_only_once(monkeypatch, tmp_path):
    case = same_size_case(1, 2, 3, 5, 20)
    plan = opencl_sweep.own_plan(case)
    few = [plan, *(other for other in opencl_sweep.every_plan(plan) if other.form == "unrolled")][:3]
    assert few[1].workspace_bytes
    monkeypatch.setattr(opencl_sweep, "every_plan", lambda own: few)
    monkeypatch.setenv(settings.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(settings.CODE_VARIABLE, "on")
    monkeypatch.setattr(kept, "build", None)  # nothing is compiled in this process
    said = []
    for _ in range(2):
        (told,) = sweep_tiles([case], rounds=1, say=said.append)["cases"]
        assert told["plans"] == 3
    assert [words for words in said if "compiled," in words][
        -1
    ] == f"{case.name}: 3 of 3 texts compiled, 0 s left"
    assert sum("compiled," in words for words in said) == 3


@needs_device
def test_slow_plans_have_a_single_turn(monkeypatch):
    calls = []

    def runner(number):
        return lambda: (calls.append(number), time.sleep(0.001 * number))

    quick = opencl_sweep._quickest([runner(1), runner(30)], lambda words: None)
    assert quick[0] < quick[1]
    assert calls == [1, 30, 1, 1, 1, 1]


@needs_device
def test_a_wrong_plan_is_found_by_the_sweep(monkeypatch):
    monkeypatch.setattr(opencl_sweep, "relative_error", lambda *arrays: 1.0)
    with pytest.raises(VerificationError, match="off by"):
        sweep_tiles([same_size_case(1, 2, 3, 6, 20)], rounds=1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["gemm", "--opencl"], "--opencl"),
        (["conv", "--sweep"], "--opencl"),
        (["conv", "--opencl", "--sweep", "--peer", "opencl.naive"], "--peer"),
        (["conv", "--opencl", "--peer", "opencl.naiv"], "opencl.naive"),
        (["conv", "--opencl", "--peer", "torch"], "opencl.naive"),
        (["conv", "--peer", "opencl.naive"], "--opencl"),
        (["conv", "--opencl", "--threads", "2"], "--threads"),
        (["conv", "--model", "nope"], "PP-OCRv6_rec_small"),
        (["gemm", "--model", "plcmos_v2"], "--model"),
    ],
)
def test_requests_that_make_no_sense(words, complaint, capfd):
    assert main(["bench", *words]) == 2
    assert complaint in capfd.readouterr().err
