"""CUDA C++ to a cubin and back to instructions, with the wheels of the extra `cuda`; no GPU is needed.

>>> (code,) = inspect(text, "sm_80", "trial")
>>> code.count("exchange")
16
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from regweave.devices.compiled_code import CompiledCode
from regweave.devices.cuda.sass import read_sass
from regweave.errors import DeviceError

_INSTALL = "pip install 'regweave[cuda]'"


def unsupported_reason() -> str | None:
    """None if CUDA C++ can be compiled and read back here, else why it cannot."""
    try:
        _compiler()
        _disassembler()
    except DeviceError as error:
        return str(error)
    return None


def inspect(text: str, target: str, *names: str) -> tuple[CompiledCode, ...]:
    """The instructions of the kernels of these names. DeviceError if a tool is missing or refuses."""
    assembly = disassemble(compile_text(text, target))
    return tuple(read_sass(assembly, name) for name in names)


def compile_text(text: str, target: str) -> bytes:
    """CUDA C++ as a cubin for a target like `sm_90a`. DeviceError with the compiler's log if refused."""
    core = _compiler()
    try:
        program = core.Program(text, "c++", core.ProgramOptions(arch=target))
        return bytes(program.compile("cubin").code)
    except Exception as error:  # nvrtc's errors, of several types; the log is in their text
        raise DeviceError(f"nvrtc refuses the text: {error}", where=f"cuda, {target}") from error


def disassemble(cubin: bytes) -> str:
    """What nvdisasm says about a cubin."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        run = subprocess.run([_disassembler(), "-c", str(path)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise DeviceError(f"nvdisasm refuses the cubin: {run.stderr.strip()}", where="cuda")
    return run.stdout


@cache
def _compiler() -> Any:
    try:
        import cuda.core as core
    except ImportError as error:
        raise DeviceError(f"the CUDA compiler is missing: {error}", where="cuda", fix=_INSTALL) from error
    return core


@cache
def _disassembler() -> str:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError as error:
        raise DeviceError(f"nvdisasm is missing: {error}", where="cuda", fix=_INSTALL) from error
    found = find_nvidia_binary_utility("nvdisasm")
    if found is None:
        raise DeviceError("nvdisasm is missing", where="cuda", fix=_INSTALL)
    return found
