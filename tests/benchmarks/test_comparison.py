"""The comparison's document, and that a wrong result never becomes a figure."""

import numpy as np
import pytest

from regweave import InputError, VerificationError
from regweave.benchmarks import CascadeCase, ProductCase, compare, comparison, same_size_case
from regweave.benchmarks.cases import CascadeData
from regweave.devices.cpu import chosen_machine

SMALL = (CascadeCase(64, (16, 16, 16)), ProductCase(48))


@pytest.fixture(autouse=True)
def quick_bounds(monkeypatch):
    bounds = {"fma_peak_gflops": 100.0, "copy_gb_per_s": 10.0}
    monkeypatch.setattr(comparison, "machine_bounds", lambda threads: bounds)


def correct(kind, data, threads):
    return lambda: data.expected.astype(np.float32)


def test_the_document(monkeypatch):
    monkeypatch.setattr(comparison, "_our_runner", correct)
    document = compare(SMALL, threads=1, rounds=2, peers=("onnxruntime",))
    assert [case["name"] for case in document["cases"]] == ["64x16-16-16", "48x48x48"]
    for case in document["cases"]:
        assert case["peers"].keys() == {"onnxruntime"}
        assert case["ratio_best_peer"] == pytest.approx(case["peers"]["onnxruntime"] / case["ours_ms"])
        assert case["times"] == 1
        if chosen_machine() is None:  # whose peak nobody knows
            assert case["of_peak"] is case["of_bound"] is None
            continue
        assert case["of_peak"] == pytest.approx(case["ours_gflops"] / case["fma_peak_gflops"])
        assert case["of_bound"] >= case["of_peak"] * (1 - 1e-9)
    assert document["missing"] == {}


@pytest.mark.skipif(chosen_machine() is None, reason="nobody knows the portable device's peak")
def test_what_bounds_a_case_that_moves_much_and_computes_little(monkeypatch):
    monkeypatch.setattr(comparison, "_our_runner", correct)
    monkeypatch.setattr(comparison, "peak_runner", lambda machine, threads: (lambda: None, 10**12))
    case = same_size_case(1, 1, 3, 50, 60)
    (result,) = compare([case], rounds=2, peers=("opencv", "numpy"))["cases"]
    # the arithmetic is free here, 10 GB/s are not
    assert result["of_bound"] * result["ours_ms"] == pytest.approx(case.bytes / 1e7, rel=1e-6)
    assert "numpy" not in result["peers"]


def test_a_missing_peer_is_named_and_left_out(monkeypatch):
    monkeypatch.setattr(comparison, "_our_runner", correct)
    monkeypatch.setitem(comparison.PEER_CLASSES, "torch", ("no_such_module", "NoPeer"))
    document = compare(SMALL[:1], rounds=1, peers=("torch",))
    assert "not installed" in document["missing"]["torch"]
    assert document["cases"][0]["ratio_best_peer"] is None


@pytest.mark.parametrize("offset", [1.0, np.nan])
def test_a_wrong_result_of_ours_is_a_failed_check(monkeypatch, offset):
    def wrong(kind, data: CascadeData, threads):
        return lambda: data.expected + offset

    monkeypatch.setattr(comparison, "_our_runner", wrong)
    with pytest.raises(VerificationError, match="regweave is wrong"):
        compare(SMALL[:1], rounds=1, peers=())


@pytest.mark.parametrize("settings", [{"threads": 0}, {"rounds": 0}, {"peers": ("nunpy",)}])
def test_bad_settings(settings):
    with pytest.raises(InputError):
        compare(SMALL[:1], **settings)


def test_a_mistyped_peer_gets_a_suggestion():
    with pytest.raises(InputError, match="nearest: numpy"):
        compare(SMALL[:1], peers=("nunpy",))
