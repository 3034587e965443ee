"""`regweave doctor`: what this machine and this installation can do, and what to do about what they cannot.

    $ regweave doctor
    $ regweave doctor --json | jq .capabilities

Every capability is tried, not guessed: a kernel is assembled and run, a custom operator is loaded.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from regweave import __version__
from regweave.cli.output import print_answer, print_document, talk_of
from regweave.errors import InputError, UnsupportedError

BASE = ("numpy", "llvmlite", "onnx", "onnxruntime", "rustworkx")
EXTRAS = {
    "bench": ("torch", "openvino", "opencv-python-headless", "threadpoolctl", "triton"),
    "amdgpu": ("ziglang",),
    "opencl": ("pyopencl", "intel-opencl-rt", "intel-cmplr-lib-rt"),
    "cuda": ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"),
    "hip": ("hip-python",),
    "images": ("pillow", "tifffile"),
}


def doctor_command(*, json: bool = False) -> None:
    """Say what this machine and this installation can do.

    Parameters
    ----------
    json:
        Print the findings as one JSON document on stdout.
    """
    with talk_of("doctor") as say:
        document = examine(say)
    if json:
        print_document(document)
        return
    from regweave.views import health_table

    print_answer(health_table(document))


def examine(say: Callable[[str], None] = lambda message: None) -> dict[str, Any]:
    """All findings as one JSON-like document."""
    from regweave.benchmarks import machine_bounds

    say("the processor")
    processor = describe_processor()
    say("what it can do")
    extras = {extra: _extra(extra, names) for extra, names in EXTRAS.items()}
    capabilities = {name: _tried(attempt) for name, attempt in ATTEMPTS.items()}
    for name, (extra, attempt) in EXTRA_ATTEMPTS.items():
        fix = extras[extra]["fix"]
        capabilities[name] = (
            _tried(attempt) if fix is None else {"works": None, "detail": f"to have it: {fix}"}
        )
    capabilities["AMD GPU"] = _amd_gpu()
    say("how fast it is")
    return {
        "regweave": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor,
        "bounds": machine_bounds(1),
        "capabilities": capabilities,
        "packages": {name: version_of(name) for name in BASE},
        "extras": extras,
        "cache": _cache(),
        "code": _code(),
    }


def describe_processor() -> dict[str, Any]:
    """Name, cores this process may use, the machine that kernels are built for, bytes of its caches."""
    from regweave.devices import cpu

    machine, caches = cpu.chosen_machine(), cpu.caches()
    return {
        "name": _processor_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": None if machine is None else machine.name,
        "vector_lanes": None if machine is None else machine.lanes,
        "caches": {"L1": caches.l1, "L2": caches.l2, "last": caches.last},
    }


def version_of(package: str) -> str | None:
    """The installed version of a distribution, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extra(extra: str, names: tuple[str, ...]) -> dict[str, Any]:
    versions = {name: version_of(name) for name in names}
    complete = None not in versions.values()
    return {"packages": versions, "fix": None if complete else f"pip install 'regweave[{extra}]'"}


def _cache() -> str:
    from regweave.settings import cache_folder

    try:
        return str(cache_folder())
    except InputError as error:
        return str(error)


def _code() -> dict[str, Any]:
    """Where machine code is kept between processes, and how much."""
    from regweave.devices.cpu.store import used

    try:
        folder, entries, size = used()
    except InputError as error:
        folder, entries, size = str(error), 0, 0
    return {"folder": folder, "entries": entries, "bytes": size}


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _tried(attempt: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"works": True, "detail": attempt()}
    except Exception as error:  # the doctor reports what ails, whatever it is
        return {"works": False, "detail": f"does not work: {error or type(error).__name__}"}


def _try_cascade() -> str:
    import numpy as np

    from regweave import cascade
    from regweave.devices.cpu import assemble

    weights = [np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32)]
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    compiled = cascade(weights, [None, None], [None, None])
    if not np.array_equal(compiled(x), x):
        raise ArithmeticError("the product with the identity is not the input")
    if compiled.plan.listing is not None:
        assemble(compiled.plan.listing.text)  # the cascade's own code may have been on disk already
    return f"works: two chained products as one kernel, {compiled.plan.device}"


def _try_operators() -> str:
    from regweave.devices.onnxruntime import unsupported_reason

    reason = unsupported_reason()
    if reason is not None:
        raise UnsupportedError(reason)
    return "works: native kernels run inside an onnxruntime session"


def _try_opencl() -> str:
    import numpy as np

    from regweave import rearrange
    from regweave.devices import opencl

    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="exchange")
    assert plan.chosen.program is not None
    words = plan.source.table.astype(np.uint32)
    if not np.array_equal(opencl.execute(plan.chosen.program, words), plan.destination.table):
        raise ArithmeticError("an exchange between lanes went wrong")
    return f"works: 32 lanes exchanged words on {opencl.open_runtime().device_name}"


def _try_cuda() -> str:
    from regweave.devices import cuda

    cuda.inspect('extern "C" __global__ void trial() {}', "sm_90a", "trial")
    return "works: CUDA C++ is compiled and read back"


def _try_hip() -> str:
    from regweave.devices import hip

    hip.inspect('extern "C" __global__ void trial() {}', "gfx942", "trial")
    return "works: HIP C++ is compiled for AMD's GPUs"


def _amd_gpu() -> dict[str, Any]:
    """Whether a GPU is here that runs the kernels of assembly; to have none is no fault."""
    from regweave.devices import hip
    from regweave.machines.amd.assembly import TARGETS

    reasons = {name: hip.device_reason(name) for name in TARGETS}
    found = [name for name, reason in reasons.items() if reason is None]
    if found:
        return {"works": True, "detail": f"works: kernels for {', '.join(found)} run on a GPU that is here"}
    reason = next(iter(reasons.values()))
    return {"works": None, "detail": f"kernels run in the emulator only: {reason}"}


def _try_images() -> str:
    import tempfile

    import numpy as np

    from regweave.images import Picture, image_gemm, read_image, write_image

    picture = Picture(np.arange(192, dtype=np.uint16).reshape(8, 8, 3))
    with tempfile.TemporaryDirectory() as folder:
        write_image(Path(folder, "trial.png"), picture)
        back = read_image(Path(folder, "trial.png"))
    product = image_gemm(back.pixels, np.eye(3), result="image")
    if not np.array_equal(product.pixels, picture.pixels):
        raise ArithmeticError("a picture is not what it was")
    return f"works: pictures are read and written, products run on {product.device}"


ATTEMPTS: dict[str, Callable[[], str]] = {"cascades": _try_cascade, "whole models": _try_operators}
# what needs an extra
EXTRA_ATTEMPTS: dict[str, tuple[str, Callable[[], str]]] = {
    "OpenCL": ("opencl", _try_opencl),
    "CUDA": ("cuda", _try_cuda),
    "HIP": ("amdgpu", _try_hip),
    "images": ("images", _try_images),
}
