"""Kernels on a GPU: with a runtime that keeps its memory here and lets the emulator compute."""

import ctypes
import sys
import types

import numpy as np
import pytest

from regweave.assembly.amd.text import parse_kernel
from regweave.devices import emulator, hip
from regweave.errors import DeviceError, InputError
from regweave.machines.amd.assembly import GFX90A

pytest.importorskip("ziglang")

TEXT = """
kernel scale
workgroup 64
argument x pointer
argument factor f32
argument count u64
scalar base x2, factor
vector at, value
`s_load_dwordx2 %0, %kernarg, argument(x)` base
`s_load_dword %0, %kernarg, argument(factor)` factor
v_lshlrev_b32 at, 2, thread
global_load_dword value, at, base
v_mul_f32 value, factor, value
global_store_dword at, value, base
"""


class Runtime(types.ModuleType):
    """The functions of `hip.hip` that are used, with what was called."""

    def __init__(self, kernel, name="gfx90a:sramecc+:xnack-", old=False, fails=""):
        super().__init__("hip.hip")
        self.kernel, self.name, self.old, self.fails, self.calls = kernel, name, old, fails, []
        self.answers = {
            "hipGetDeviceCount": self.count,
            "hipGetDeviceProperties": self.properties,
            "hipModuleLoadData": self.load,
            "hipModuleGetFunction": self.function,
            "hipMalloc": self.allocate,
            "hipMemcpy": self.copy,
            "hipModuleLaunchKernel": self.launch,
        }
        self.hipError_t = types.SimpleNamespace(hipSuccess=0)
        self.hipMemcpyKind = types.SimpleNamespace(hipMemcpyHostToDevice=1, hipMemcpyDeviceToHost=2)
        self.hipDeviceProp_t = types.SimpleNamespace

    def __getattr__(self, name):
        if not name.startswith("hip"):
            raise AttributeError(name)

        def call(*values, **named):
            self.calls.append(name)
            if name == self.fails:
                return (719,)
            return (0, *self.answers.get(name, lambda *_: ())(*values, **named))

        return call

    def count(self):
        return (1,)

    def properties(self, *values):
        if not self.old:
            (_,) = values
            return (types.SimpleNamespace(gcnArchName=self.name),)
        if len(values) == 1:
            raise TypeError("takes 2 positional arguments")
        structure, _ = values
        structure.gcnArchName = self.name.encode()
        return ()

    def load(self, code):
        assert code[:4] == b"\x7fELF"
        return ("module",)

    def function(self, module, name):
        assert (module, name) == ("module", b"scale")
        return ("function",)

    def allocate(self, size):
        return (np.zeros(size, np.uint8),)

    def copy(self, target, source, size, kind):
        assert kind in (1, 2)
        assert target.nbytes == source.nbytes == size
        target.view(np.uint8)[:] = source.view(np.uint8)
        return ()

    def launch(self, function, *sizes, extra, **named):
        assert (function, sizes) == ("function", (1, 1, 1, 64, 1, 1))
        assert named == {"sharedMemBytes": 0, "stream": None, "kernelParams": None}
        memory, factor, count = extra
        assert isinstance(factor, ctypes.c_float)
        assert isinstance(count, ctypes.c_uint64)
        arguments = {"x": memory, "factor": factor.value, "count": count.value}
        emulator.run(self.kernel, grid=sizes[:3], arguments=arguments)
        return ()


def present(monkeypatch, **settings):
    kernel = parse_kernel(TEXT, GFX90A).finish()
    runtime = Runtime(kernel, **settings)
    package = types.ModuleType("hip")
    package.hip, package.__spec__ = runtime, types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "hip", package)
    monkeypatch.setitem(sys.modules, "hip.hip", runtime)
    return kernel, runtime


@pytest.mark.parametrize("old", [False, True])
def test_a_kernel_runs(monkeypatch, old):
    kernel, runtime = present(monkeypatch, old=old)
    x = np.arange(64, dtype=np.float32)
    hip.run(kernel, grid=1, arguments={"x": x, "factor": 1.5, "count": 2**40})
    assert np.array_equal(x, np.arange(64, dtype=np.float32) * 1.5)
    assert runtime.calls[-2:] == ["hipFree", "hipModuleUnload"]


@pytest.mark.parametrize("fails", ["hipModuleLaunchKernel", "hipDeviceSynchronize", "hipMalloc"])
def test_what_the_runtime_refuses(monkeypatch, fails):
    kernel, runtime = present(monkeypatch, fails=fails)
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(DeviceError, match=f"refuses: 719 \\(at {fails}\\)"):
        hip.run(kernel, grid=1, arguments={"x": x, "factor": 1.5, "count": 0})
    assert runtime.calls[-1] == "hipModuleUnload"


def test_another_device(monkeypatch):
    kernel, _ = present(monkeypatch, name="gfx1030")
    assert hip.device_reason("gfx90a") == "no GPU here is a gfx90a; there are gfx1030"
    assert hip.device_reason("gfx1030") is None
    with pytest.raises(DeviceError, match=r"there are gfx1030.*emulator"):
        hip.run(kernel, grid=1, arguments={"x": np.zeros(4), "factor": 1, "count": 0})


def test_no_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "hip", None)
    kernel = parse_kernel(TEXT, GFX90A).finish()
    with pytest.raises(DeviceError, match=r"hip-python is not installed: pip install 'regweave\[hip\]'"):
        hip.run(kernel, grid=1, arguments={"x": np.zeros(4), "factor": 1, "count": 0})


def test_wrong_arguments_are_found_first():
    kernel = parse_kernel(TEXT, GFX90A).finish()
    with pytest.raises(InputError, match=r"'factor' .* is missing"):
        hip.run(kernel, grid=1, arguments={"x": np.zeros(4)})
