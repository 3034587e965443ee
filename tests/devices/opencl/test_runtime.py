"""The runtime is found wherever its wheel lies, and its absence is an error that says what to do."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from regweave.devices.opencl import runtime
from regweave.devices.opencl.runtime import VENDORS_VARIABLE, runtime_library, vendors_folder
from regweave.errors import DeviceError, InputError
from regweave.settings import CACHE_VARIABLE

OPEN = "from regweave.devices import opencl; print(opencl.unsupported_reason())"


def in_fresh_process(code, **variables):
    settings = {key: value for key, value in os.environ.items() if key != VENDORS_VARIABLE}
    run = subprocess.run(
        [sys.executable, "-c", code], env=settings | variables, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_the_device_is_a_processor_with_local_memory(device):
    assert device.device_name
    assert device.device.local_mem_size >= 32 << 10


def test_the_library_is_found_in_its_wheel(device):
    library = runtime_library()
    assert library is not None
    assert library.is_absolute()
    assert library.name.startswith("libintelocl.so")


def test_an_empty_cache_is_enough(device, tmp_path):
    assert in_fresh_process(OPEN, **{CACHE_VARIABLE: str(tmp_path)}) == "None"
    written = list(tmp_path.rglob("*.icd"))
    assert [path.read_text().strip() for path in written] == [str(runtime_library())]


def test_openvino_may_come_second_but_not_first(device):
    pytest.importorskip("openvino")
    assert in_fresh_process("import openvino\n" + OPEN).startswith("the OpenCL runtime cannot be loaded: ")
    assert in_fresh_process(OPEN + "\nimport openvino; openvino.Core()") == "None"


def test_the_icd_file_appears_whole_and_once(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    first, other = vendors_folder(Path("/a/lib.so")), vendors_folder(Path("/b/lib.so"))
    assert first != other
    assert first == vendors_folder(Path("/a/lib.so"))
    assert [path.name for path in first.iterdir()] == ["runtime.icd"]
    assert (first / "runtime.icd").read_text() == "/a/lib.so\n"


def test_what_the_system_has_is_found_too(tmp_path, monkeypatch):
    system = tmp_path / "vendors"
    system.mkdir()
    for name, text in (("nvidia.icd", "libnvidia-opencl.so.1\n"), ("intel.icd", "/opt/libintelocl.so\n")):
        (system / name).write_text(text)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "SYSTEM_VENDORS", system)
    folder = vendors_folder(Path("/a/lib.so"))
    assert sorted(path.name for path in folder.iterdir()) == ["runtime.icd", "system-nvidia.icd"]
    assert (folder / "system-nvidia.icd").read_text() == "libnvidia-opencl.so.1\n"
    (system / "nvidia.icd").unlink()
    assert [path.name for path in vendors_folder(Path("/a/lib.so")).iterdir()] == ["runtime.icd"]


class Pretended:
    """A device that calls itself a GPU; all else is that of the processor."""

    def __init__(self, device, **pretended):
        self.device, self.pretended = device, pretended

    def __getattr__(self, name):
        return self.pretended[name] if name in self.pretended else getattr(self.device, name)


def test_a_gpu_is_opened_where_there_is_one(device, monkeypatch):
    import pyopencl

    gpu = Pretended(device.device, type=pyopencl.device_type.GPU, name="Mali-G76")
    broken = Pretended(device.device, type=pyopencl.device_type.GPU, name="broken")

    def opened(which):
        if which is broken:
            raise DeviceError("broken cannot be opened")
        return runtime.Runtime(which, device.context, device.queue)

    platform = SimpleNamespace(name="pretended", get_devices=lambda: [device.device, broken, gpu])
    monkeypatch.setattr(runtime, "_platforms", lambda: [platform])
    monkeypatch.setattr(runtime, "_opened", opened)
    assert runtime.open_gpu.__wrapped__().device_name == "Mali-G76"
    platform.get_devices = lambda: [device.device, broken]
    assert runtime.open_gpu.__wrapped__() is None


def test_a_damaged_icd_file_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    path = vendors_folder(Path("/a/lib.so")) / "runtime.icd"
    path.write_text("/a/li")
    vendors_folder(Path("/a/lib.so"))
    assert path.read_text() == "/a/lib.so\n"


def test_a_cache_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(InputError, match=CACHE_VARIABLE):
        vendors_folder(Path("/a/lib.so"))


def test_what_a_person_set_stays(device, tmp_path):
    reason = in_fresh_process(OPEN, **{VENDORS_VARIABLE: str(tmp_path)})
    assert str(tmp_path) in reason
    assert "pip install 'regweave[opencl]'" in reason


def test_without_the_packages_the_fix_is_named(monkeypatch):
    runtime.open_runtime.cache_clear()
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.setattr(runtime, "runtime_library", lambda: None)
    with pytest.raises(DeviceError, match=r"pyopencl is not installed.*pip install 'regweave\[opencl\]'"):
        runtime.open_runtime()


def test_without_the_wheel_there_is_no_library(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert runtime_library() is None
