"""HIP C++ to assembly with the clang in ziglang's wheel (extra `amdgpu`); neither ROCm nor a GPU is needed.

    >>> (code,) = inspect(text, "gfx942", "trial")
    >>> code.count("exchange")
    2

HIP's headers are not there, so the words that a generated function takes from them are given as macros.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from regweave.devices.compiled_code import CompiledCode
from regweave.devices.hip.gcn import read_gcn
from regweave.errors import DeviceError

_MACROS = {
    "__device__": "__attribute__((device))",
    "__global__": "__attribute__((global))",
    "__shared__": "__attribute__((shared))",
    "__forceinline__": "inline __attribute__((always_inline))",
    "__launch_bounds__(threads)": "__attribute__((amdgpu_flat_work_group_size(1, threads)))",
}
_OPTIONS = (
    "-x",
    "hip",
    "-",
    "--cuda-device-only",
    "-nogpuinc",
    "-nogpulib",
    "-std=c++17",
    "-O3",
    "-S",
    "-o",
    "-",
)


def unsupported_reason() -> str | None:
    """None if HIP C++ can be compiled here, else why it cannot."""
    if importlib.util.find_spec("ziglang") is None:
        return str(_missing())
    return None


def inspect(text: str, target: str, *names: str) -> tuple[CompiledCode, ...]:
    """The instructions of the kernels of these names. DeviceError if the compiler is missing or refuses."""
    assembly = compile_text(text, target)
    return tuple(read_gcn(assembly, name) for name in names)


def compile_text(text: str, target: str) -> str:
    """HIP C++ as assembly for a target like `gfx942`, or `gfx1100_w64` for waves of 64 lanes.

    DeviceError with clang's words if it is refused.
    """
    if unsupported_reason() is not None:
        raise _missing()
    macros = [f"-D{name}={value}" for name, value in _MACROS.items()]
    architecture, _, wave = target.partition("_w")
    waves = ["-mwavefrontsize64"] if wave == "64" else []
    clang = [sys.executable, "-m", "ziglang", "clang"]
    command = [*clang, *_OPTIONS, f"--offload-arch={architecture}", *waves, *macros]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if run.returncode:
        raise DeviceError(f"clang refuses the text: {run.stderr.strip()}", where=f"hip, {target}")
    return run.stdout


def _missing() -> DeviceError:
    return DeviceError("clang for AMD's GPUs is missing", where="hip", fix="pip install 'regweave[amdgpu]'")
