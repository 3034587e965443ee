"""What all tests share: golden files, and the real models or a reason to skip.

    def test_the_drawing(golden):
        golden("tf32.txt", drawn)       # compares with golden/tf32.txt beside the test's file

`pytest --update-golden` writes the files instead; read the difference before you commit it.

No test finds machine code that an earlier run left on disk, unless it turns that on (tests of devices/cpu).

Tests with the marker `models` run on models that are fetched once into the cache. Where they cannot be
fetched (no network), those tests are skipped with pip's own words.
"""

import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from regweave import RegweaveError
from regweave.devices.opencl import load_runtime
from regweave.settings import CODE_VARIABLE

pytest_plugins = ("translator.plugin",)
# a busy machine's clock says nothing of the library
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
os.environ[CODE_VARIABLE] = "off"
# before a test loads OpenVINO, whose libtbb is too old for it
load_runtime()


@pytest.fixture(autouse=True)
def _width_of_a_pipe(monkeypatch):
    """Tables are as wide as in a pipe, whatever the terminal; workers of pytest-xdist set 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files")


def pytest_runtest_setup(item):
    if item.get_closest_marker("models"):
        reason = why_no_models()
        if reason is not None:
            pytest.skip(reason)


@cache
def why_no_models():
    """None if the sample models are there, else the reason."""
    from regweave.graphs.samples import SAMPLES, sample_model

    try:
        for name in SAMPLES:
            sample_model(name)
    except RegweaveError as error:
        return str(error)
    return None


@pytest.fixture
def golden(request):
    folder = Path(request.path).parent / "golden"

    def check(name, text):
        path = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden, read it, commit it"
        hint = f"{path} differs: run pytest --update-golden and read the difference"
        assert text == path.read_text("utf-8"), hint

    return check
