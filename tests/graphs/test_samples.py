"""Fetching sample models: what comes is checked, and nothing half-written is ever taken for a model."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from regweave.errors import InputError, RegweaveError
from regweave.graphs import samples
from regweave.graphs.samples import SAMPLES, Sample, sample_model

CONTENT = b"a model"


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """A cache of its own, a sample of its own, and a pip that packs `pip.content` instead of downloading."""

    class Pip:
        content, calls, works = CONTENT, 0, True

        def run(self, command, **options):
            self.calls += 1
            folder = Path(command[command.index("--dest") + 1])
            if self.works:
                with zipfile.ZipFile(folder / "pack-1-py3-none-any.whl", "w") as wheel:
                    wheel.writestr("pack/m.onnx", self.content)
            return subprocess.CompletedProcess(command, 0 if self.works else 1, "", "note\nERROR: no network")

    fake = Pip()
    monkeypatch.setenv("REGWEAVE_CACHE", str(tmp_path))
    monkeypatch.setattr(samples.subprocess, "run", fake.run)
    sample = Sample("pack==1", "pack/m.onnx", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(samples, "SAMPLES", {"m": sample})
    return fake


def test_a_sample_is_fetched_once(pip):
    path = sample_model("m")
    assert path.read_bytes() == CONTENT
    assert sample_model("m") == path
    assert pip.calls == 1


def test_a_damaged_file_is_fetched_again(pip):
    path = sample_model("m")
    path.write_bytes(b"a modem")
    assert sample_model("m").read_bytes() == CONTENT
    assert pip.calls == 2


def test_what_is_not_expected_is_refused(pip):
    pip.content = b"another model"
    with pytest.raises(RegweaveError, match="is not the model that was expected"):
        sample_model("m")


def test_without_network(pip):
    pip.works = False
    with pytest.raises(RegweaveError, match="cannot download pack==1: ERROR: no network"):
        sample_model("m")


def test_unknown_samples():
    with pytest.raises(InputError, match=r"no sample model 'plcmos'.*nearest: plcmos_v2"):
        sample_model("plcmos")


def test_the_samples_are_described():
    assert len(SAMPLES) == 12
    assert all(len(sample.sha256) == 64 and sample.size > 0 for sample in SAMPLES.values())
