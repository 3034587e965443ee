"""`regweave doctor`: finds what is there, says what is not, never fails."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from regweave.cli import doctor, main
from regweave.devices import hip


def test_json_is_one_document(capfd):
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["processor"]["cores"] >= 1
    assert document["packages"]["numpy"]
    assert set(document["extras"]) == {"amdgpu", "bench", "cuda", "hip", "images", "opencl"}
    capabilities = document["capabilities"]
    assert all(finding["works"] is not False for finding in capabilities.values()), capabilities
    assert capabilities["cascades"]["works"] is True
    for name, extra in (("OpenCL", "opencl"), ("CUDA", "cuda"), ("HIP", "amdgpu"), ("images", "images")):
        complete = document["extras"][extra]["fix"] is None
        assert capabilities[name]["works"] is (True if complete else None)
        assert complete or f"regweave[{extra}]" in capabilities[name]["detail"]
    assert document["cache"]
    assert document["code"] == {"folder": None, "entries": 0, "bytes": 0}


def test_the_table(capfd):
    assert main(["doctor"]) == 0
    out = capfd.readouterr().out
    for words in ("processor", "FMA peak", "cascades", "works", "numpy", "cache"):
        assert words in out


@pytest.mark.parametrize("present", [(), ("gfx90a",)])
def test_the_gpu_of_amd(present, monkeypatch):
    reason = "no GPU here is one; there are gfx1100"
    monkeypatch.setattr(hip, "device_reason", lambda machine: None if machine in present else reason)
    works, words = doctor._amd_gpu().values()
    assert works is (True if present else None)
    assert ("kernels for gfx90a run" in words) if present else words.endswith(reason)


def test_every_package_of_the_extras_is_named():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    asked = tomllib.loads(text)["project"]["optional-dependencies"]
    for extra, names in doctor.EXTRAS.items():
        assert {re.split(r"[^\w-]", line)[0] for line in asked[extra]} == set(names)


def test_a_capability_that_fails_is_told_not_raised(monkeypatch):
    def broken():
        raise OSError("no such luck")

    monkeypatch.setattr(doctor, "ATTEMPTS", {"cascades": broken})
    finding = doctor.examine()["capabilities"]["cascades"]
    assert finding == {"works": False, "detail": "does not work: no such luck"}


@pytest.mark.filterwarnings("ignore:regweave runs on its portable device")
def test_without_vector_instructions_the_portable_device_is_named(monkeypatch, capfd):
    monkeypatch.setenv("REGWEAVE_ISA", "portable")
    assert main(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "portable device" in out
    assert "FMA peak not measured" in out


def test_a_cache_that_cannot_be_made_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGWEAVE_CACHE", str(tmp_path / "file" / "cache"))
    assert "cannot be made" in doctor.examine()["cache"]


def test_kept_machine_code_is_counted(monkeypatch, tmp_path):
    monkeypatch.setenv("REGWEAVE_CACHE", str(tmp_path))
    monkeypatch.setenv("REGWEAVE_CODE_CACHE", "on")
    (tmp_path / "code").mkdir(mode=0o700)
    (tmp_path / "code" / "one.code").write_bytes(bytes(100))
    assert doctor._code() == {"folder": str(tmp_path / "code"), "entries": 1, "bytes": 4096}
    monkeypatch.setenv("REGWEAVE_CODE_CACHE", "of")
    assert "unknown word 'of'" in doctor._code()["folder"]


def test_a_missing_package_has_no_version():
    assert doctor.version_of("no-such-package-anywhere") is None
