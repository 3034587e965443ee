"""Find Intel's OpenCL runtime for processors and open it, once per process; and a GPU, where there is one.

    >>> open_runtime().device_name
    'AMD EPYC'
    >>> open_gpu() is None                  # no GPU that OpenCL knows of
    True

The runtime is a wheel (`pip install 'regweave[opencl]'`); it executes sub-group shuffles of 32 and 64
lanes on any x86-64 processor with AVX2. An OpenCL loader finds runtimes through `.icd` files, each the
path of a library. The file in the wheel names a folder of the machine on which it was built, so one
with the right path is written into the cache folder, beside copies of the system's own, and
OCL_ICD_VENDORS names that folder before the loader is asked for the first time. A variable that is already
set stays as it is. Where the loader was asked before, by other code of the process, the platforms that it
found then are all there are.
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
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
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
    platforms = _platforms()
    kind = _device_types().CPU
    for device in (device for platform in platforms for device in platform.get_devices()):
        known = device.extensions.split()
        if device.type & kind and all(name in known for name in _NEEDED_EXTENSIONS):
            return _opened(device)
    names = ", ".join(platform.name for platform in platforms) or "none"
    raise DeviceError(
        f"no processor with sub-groups of chosen size among the OpenCL platforms {names}",
        where=_searched(),
        fix=_INSTALL,
    )


@cache
def open_gpu() -> Runtime | None:
    """The first GPU that OpenCL knows of and that can be opened; None where there is none.

    DeviceError if pyopencl is missing.
    """
    platforms = _platforms()
    kind = _device_types().GPU
    for device in (device for platform in platforms for device in platform.get_devices()):
        if device.type & kind:
            try:
                return _opened(device)
            except DeviceError:
                continue
    return None


def _platforms() -> list[Any]:
    load_runtime()
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError("pyopencl is not installed", where="opencl", fix=_INSTALL) from error
    try:
        return pyopencl.get_platforms()
    except pyopencl.Error as error:
        raise DeviceError(f"no OpenCL runtime was found: {error}", where=_searched(), fix=_INSTALL) from error


def _device_types() -> Any:
    import pyopencl

    return pyopencl.device_type


def _opened(device: Any) -> Runtime:
    import pyopencl

    try:
        context = pyopencl.Context([device])
        return Runtime(device, context, pyopencl.CommandQueue(context))
    except pyopencl.Error as error:
        raise DeviceError(f"{device.name} cannot be opened: {error}", where="opencl") from error


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
    """A folder in the cache with an `.icd` file that names `library`, and the system's for other libraries.

    Each file is written whole or not at all. InputError if the cache folder cannot be made, DeviceError if a
    file cannot be written.
    """
    files = {"runtime.icd": f"{library}\n", **_system_files()}
    # one folder per content: environments share the cache folder, and each has its own runtime
    content = "".join(f"{name}\0{text}\0" for name, text in sorted(files.items()))
    folder = cache_folder("opencl", hashlib.sha256(content.encode()).hexdigest()[:16])
    for name, text in files.items():
        target = folder / name
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


def _system_files() -> dict[str, str]:
    """The system's `.icd` files (GPUs, other runtimes), but for another copy of this library."""
    found = {}
    for path in sorted(SYSTEM_VENDORS.glob("*.icd")):
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if not Path(text.strip()).name.startswith(_LIBRARY):
            found[f"system-{path.name}"] = text
    return found


def _searched() -> str:
    return f"{VENDORS_VARIABLE}={os.environ.get(VENDORS_VARIABLE, '')}"
