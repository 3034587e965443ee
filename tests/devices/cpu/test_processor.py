"""The choice of a machine, and the caches as the system tells them."""

import pytest

from regweave.devices.cpu import Caches, caches, chosen_machine
from regweave.errors import DeviceError, InputError
from regweave.machines.x86 import AVX2, AVX512, detect
from regweave.settings import ISA_VARIABLE, ISAS, forced_isa

FULL = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma", "bmi2"})


@pytest.fixture
def features(monkeypatch):
    def pretend(present):
        for module in ("regweave.devices.cpu.processor", "regweave.machines.x86.features"):
            monkeypatch.setattr(f"{module}.processor_features", lambda *_: present)

    monkeypatch.delenv(ISA_VARIABLE, raising=False)
    return pretend


def test_the_best_machine_by_default(features):
    features(FULL)
    assert chosen_machine() is AVX512
    features(FULL - {"avx512dq"})
    assert chosen_machine() is AVX2
    features(frozenset())
    assert chosen_machine() is None


def test_the_environment_and_the_caller_can_force_one(features, monkeypatch):
    features(FULL)
    monkeypatch.setenv(ISA_VARIABLE, "avx2")
    assert chosen_machine() is AVX2
    assert chosen_machine("avx512") is AVX512
    assert chosen_machine("portable") is None
    monkeypatch.setenv(ISA_VARIABLE, "")
    assert chosen_machine() is AVX512


def test_forcing_what_cannot_run_is_a_device_error(features):
    features(FULL - {"avx512dq", "avx512vl"})
    with pytest.raises(DeviceError, match="it has no avx512dq, avx512vl; leave the choice"):
        chosen_machine("avx512")


def test_unknown_names_are_input_errors(monkeypatch):
    monkeypatch.setenv(ISA_VARIABLE, "avx1024")
    with pytest.raises(
        InputError, match=r"'avx1024' \(at REGWEAVE_ISA\); expected one of avx512, avx2, portable"
    ):
        forced_isa()
    with pytest.raises(InputError, match="at isa"):
        chosen_machine("sse")
    assert [forced_isa(isa) for isa in ISAS] == list(ISAS)


def test_this_machine_is_detected_as_something():
    assert detect() in (AVX512, AVX2, None)


def _cache(folder, index, kind, level, size, line="64"):
    entry = folder / f"index{index}"
    entry.mkdir()
    for name, value in (("type", kind), ("level", level), ("size", size), ("coherency_line_size", line)):
        (entry / name).write_text(f"{value}\n")


def test_caches_are_read(tmp_path):
    _cache(tmp_path, 0, "Data", "1", "48K")
    _cache(tmp_path, 1, "Instruction", "1", "64K")
    _cache(tmp_path, 2, "Unified", "2", "2M", "128")
    _cache(tmp_path, 3, "Unified", "3", "36864K")
    assert caches(tmp_path) == Caches(48 * 1024, 2 * 1024**2, 36 * 1024**2, 64)


def test_caches_fall_back_where_the_system_is_silent(tmp_path):
    assert caches(tmp_path / "missing") == Caches()
    _cache(tmp_path, 0, "Data", "1", "much")
    assert caches(tmp_path) == Caches()


def test_this_machines_caches_are_plausible():
    found = caches()
    assert 8 * 1024 <= found.l1 <= found.l2 <= found.last
    assert found.line in (32, 64, 128, 256)
