"""Find Intel's OpenCL runtime for processors and open it, once per process.

    >>> open_runtime().device_name
    'AMD EPYC'

The runtime is a wheel (`pip install 'regweave[opencl]'`); it executes sub-group shuffles of 32 and 64
lanes on any x86-64 processor with AVX2. An OpenCL loader finds runtimes through `.icd` files, each the
path of a library. The file in the wheel names a folder of the machine on which it was built, so one
with the right path is written into the cache folder, and OCL_ICD_VENDORS names that folder before the loader
is asked for the first time. A variable that is already set stays as it is. Where the loader was asked
before, by other code of the process, the platforms that it found then are all there are.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from regweave.errors import DeviceError, RegweaveError
from regweave.settings import cache_folder

VENDORS_VARIABLE = "OCL_ICD_VENDORS"
_DISTRIBUTION, _LIBRARY = "intel-opencl-rt", "libintelocl.so"
_NEEDED_EXTENSIONS = ("cl_intel_required_subgroup_size", "cl_khr_subgroup_shuffle")
_INSTALL = "pip install 'regweave[opencl]' (Linux, x86-64)"


@dataclass(frozen=True)
class Runtime:
    """An open device: pyopencl's device, context and an in-order queue."""

    device: Any
    context: Any
    queue: Any

    @property
    def device_name(self) -> str:
        """What the runtime calls the processor."""
        return self.device.name.strip()

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that one work-group can have."""
        return self.device.local_mem_size


def unsupported_reason() -> str | None:
    """None if OpenCL C can be run here, else why it cannot."""
    try:
        open_runtime()
    except RegweaveError as error:
        return str(error)
    return None


@cache
def open_runtime() -> Runtime:
    """The processor with sub-groups of chosen size. DeviceError if pyopencl or the runtime is missing."""
    load_runtime()
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError("pyopencl is not installed", where="opencl", fix=_INSTALL) from error
    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.Error as error:
        raise DeviceError(f"no OpenCL runtime was found: {error}", where=_searched(), fix=_INSTALL) from error
    for device in (device for platform in platforms for device in platform.get_devices()):
        known = device.extensions.split()
        if device.type & pyopencl.device_type.CPU and all(name in known for name in _NEEDED_EXTENSIONS):
            context = pyopencl.Context([device])
            return Runtime(device, context, pyopencl.CommandQueue(context))
    names = ", ".join(platform.name for platform in platforms) or "none"
    raise DeviceError(
        f"no processor with sub-groups of chosen size among the OpenCL platforms {names}",
        where=_searched(),
        fix=_INSTALL,
    )


def load_runtime() -> None:
    """Load this environment's runtime, if it has one, and tell OpenCL's loader of it.

    A process has one `libtbb.so.12`, and the runtime needs a newer one than OpenVINO brings: of the two, the
    runtime must be loaded first. DeviceError with the linker's words if it cannot be.
    """
    library = runtime_library()
    if library is None:
        return
    os.environ.setdefault(VENDORS_VARIABLE, str(vendors_folder(library)))
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise DeviceError(
            f"the OpenCL runtime cannot be loaded: {error}",
            where=str(library),
            fix="load it before OpenVINO or other code that brings an older libtbb (opencl.load_runtime())",
        ) from error


def runtime_library() -> Path | None:
    """The absolute path of the runtime's library in this environment; None if it is not installed."""
    try:
        files = metadata.distribution(_DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(file.locate()).resolve() for file in files if file.name == _LIBRARY)
    return next((path for path in found if path.exists()), None)


def vendors_folder(library: Path) -> Path:
    """A folder in the cache whose only `.icd` file names `library`; written whole or not at all.

    InputError if the cache folder cannot be made, DeviceError if the file cannot be written.
    """
    text = f"{library}\n"
    # one folder per path: environments share the cache folder, and each has its own runtime
    folder = cache_folder("opencl", hashlib.sha256(text.encode()).hexdigest()[:16])
    target = folder / "runtime.icd"
    try:
        if not target.exists() or target.read_text("utf-8") != text:
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as file:
                file.write(text)
            os.replace(file.name, target)
    except OSError as error:
        raise DeviceError(
            f"the runtime's .icd file cannot be written: {error.strerror}", where=str(target)
        ) from error
    return folder


def _searched() -> str:
    return f"{VENDORS_VARIABLE}={os.environ.get(VENDORS_VARIABLE, '')}"
