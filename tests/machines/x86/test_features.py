"""Which machine a processor is: from the kernel's list, never by trying an instruction."""

from pathlib import Path

import pytest

from regweave.machines.x86 import AVX2, AVX512, CALLER_SAVED, CONDITIONS, detect, processor_features, supports

FULL = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma", "bmi2"})


@pytest.mark.parametrize(
    ("missing", "machine"),
    [
        ((), AVX512),
        (("avx512vl",), AVX2),
        (("avx512dq",), AVX2),
        (("avx512f", "fma"), None),
        (("avx2", "avx512f"), None),
    ],
)
def test_detection_needs_every_feature(missing, machine):
    assert detect(FULL - set(missing)) is machine


def test_supports_asks_the_processor_by_default():
    assert supports(AVX2) == supports(AVX2, processor_features())
    assert not supports(AVX512, frozenset())


def test_the_list_is_read_from_the_first_processor(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor : 0\nflags\t\t: fpu avx2 fma bmi2\n\nprocessor : 1\nflags : fpu\n")
    assert processor_features(listing) == {"fpu", "avx2", "fma", "bmi2"}


@pytest.mark.parametrize("text", [None, "", "Features : asimd\n"])
def test_no_list_means_no_features(tmp_path: Path, text):
    listing = tmp_path / "cpuinfo"
    if text is not None:
        listing.write_text(text)
    assert processor_features(listing) == frozenset()


def test_other_architectures_have_none(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    listing = tmp_path / "cpuinfo"
    listing.write_text("flags : avx2 fma bmi2\n")
    assert processor_features(listing) == frozenset()


def test_the_machines_describe_their_registers():
    assert (AVX512.lanes, AVX512.vector_bytes, AVX512.register_class("vector").count) == (16, 64, 32)
    assert (AVX2.lanes, AVX2.vector_bytes, AVX2.register_class("vector").count) == (8, 32, 16)
    assert AVX512.register_class("mask").registers == tuple(f"k{i}" for i in range(1, 8))
    assert "rsp" not in AVX512.register_class("general").registers
    assert AVX512.views["d"]["rax"] == "eax"
    assert AVX512.views["b"]["rsi"] == "sil"
    assert AVX512.views["w"]["r9"] == "r9w"
    assert AVX512.views["x"]["zmm17"] == "xmm17"


def test_the_calling_convention():
    general = AVX512.register_class("general")
    assert set(CALLER_SAVED) | general.saved == set(general.registers)
    assert set(AVX512.arguments) <= set(CALLER_SAVED)


def test_every_condition_has_its_jump_and_its_move():
    for condition in CONDITIONS:
        assert f"jump_{condition}" in AVX2.table
        assert f"mov_if_{condition}" in AVX2.table
