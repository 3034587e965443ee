"""Running kernels on an AMD GPU that is here, through HIP (extra `hip`: hip-python, and ROCm's runtime).

    >>> x = np.arange(256, dtype=np.float32)
    >>> if device_reason("gfx90a") is None:
    ...     run(kernel, grid=4, arguments={"x": x})       # as in the emulator; x is changed in place

The call is the emulator's: a kernel that runs there runs here, and what differs is only who finds its faults.
Buffers are copied to the device before and back afterwards.

Facts: hip-python's user guide and the HIP runtime API reference (modules).
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from regweave.assembly.amd import FinishedKernel
from regweave.devices.hip.objects import assemble
from regweave.devices.launch import check_arguments, check_grid
from regweave.errors import DeviceError

#: What an argument is for the runtime, by its kind; pointers are the runtime's own objects.
_NUMBERS = {
    "u32": (ctypes.c_uint32, "<I"), "i32": (ctypes.c_int32, "<i"), "f32": (ctypes.c_float, "<f"),
    "u64": (ctypes.c_uint64, "<Q"), "i64": (ctypes.c_int64, "<q"), "f64": (ctypes.c_double, "<d"),
}  # fmt: skip


def device_reason(machine: str) -> str | None:
    """None if a GPU is here that runs kernels for `machine` (`gfx90a`), else why not."""
    if importlib.util.find_spec("hip") is None:
        return "hip-python is not installed: pip install 'regweave[hip]'"
    try:
        found = _devices()
    except DeviceError as error:
        return str(error)
    if machine not in found.values():
        return f"no GPU here is a {machine}; there are {', '.join(found.values()) or 'none'}"
    return None


def run(kernel: FinishedKernel, *, grid: int | Sequence[int], arguments: Mapping[str, Any]) -> None:
    """Run `grid` workgroups (along x, or x, y, z) of a kernel on the first GPU that it was written for.

    `arguments` has an array for every pointer, which is changed in place, and a number for every other
    argument. InputError for arguments that do not fit; DeviceError if there is no such GPU, or the runtime
    refuses something, with its words.
    """
    extents = check_grid(grid)
    demands = kernel.demands
    given = check_arguments(kernel.name, demands.arguments, arguments, ())
    reason = device_reason(kernel.machine.name)
    if reason is not None:
        raise DeviceError(reason, where="hip", fix="or run it in the emulator: regweave.devices.emulator.run")
    hip = _library()
    number = next(number for number, name in _devices().items() if name == kernel.machine.name)
    code = assemble(kernel.text, kernel.machine.target_id)
    with ExitStack() as stack:
        _call(hip, "hipSetDevice", number)
        module = _call(hip, "hipModuleLoadData", code)
        stack.callback(_call, hip, "hipModuleUnload", module)
        function = _call(hip, "hipModuleGetFunction", module, kernel.name.encode())
        kinds = {name: kind for name, kind, _ in demands.arguments}
        words, copies = [], []
        for name, _, value in given:
            if not isinstance(value, np.ndarray):
                word, form = _NUMBERS[kinds[name]]
                words.append(word(struct.unpack(form, value)[0]))
                continue
            memory = _call(hip, "hipMalloc", value.nbytes)
            stack.callback(_call, hip, "hipFree", memory)
            _call(hip, "hipMemcpy", memory, value, value.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice)
            words.append(memory)
            copies.append((value, memory))
        launch = {"sharedMemBytes": 0, "stream": None, "kernelParams": None, "extra": tuple(words)}
        _call(hip, "hipModuleLaunchKernel", function, *extents, *demands.workgroup, **launch)
        _call(hip, "hipDeviceSynchronize")
        for value, memory in copies:
            _call(hip, "hipMemcpy", value, memory, value.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost)


def _library() -> Any:
    from hip import hip

    return hip


def _devices() -> dict[int, str]:
    """The GPUs by number, each with its processor's name. DeviceError if the runtime cannot be asked."""
    hip = _library()
    count = _call(hip, "hipGetDeviceCount")
    return {number: _processor(hip, number) for number in range(count)}


def _processor(hip: Any, number: int) -> str:
    try:
        properties = _call(hip, "hipGetDeviceProperties", number)
    except TypeError:  # before hip-python 10 the caller made the structure
        properties = hip.hipDeviceProp_t()
        _call(hip, "hipGetDeviceProperties", properties, number)
    name = properties.gcnArchName
    return (name.decode() if isinstance(name, bytes) else name).partition(":")[0]


def _call(hip: Any, name: str, *values: Any, **named: Any) -> Any:
    """Call the runtime: what it returns beside its error code. DeviceError if the code is one."""
    try:
        status, *found = getattr(hip, name)(*values, **named)
    except RuntimeError as error:  # the library itself is missing
        raise DeviceError(f"the HIP runtime cannot be used: {error}", where=name) from None
    if status != hip.hipError_t.hipSuccess:
        raise DeviceError(f"the HIP runtime refuses: {status}", where=name)
    return found[0] if found else None
