"""Buffers of a device; on a processor they are memory of the process, in large pages.

    >>> x, y = buffer(runtime, 64 << 20), buffer(runtime, 64 << 20, start=HALF_PAGE)

A runtime's own memory has pages of 4096 bytes, each to be looked up by the processor on its way down an
image: a copy of 64 MB took 8 ms there and 5 ms in NumPy's memory, for which large pages are asked for. And
what begins at the same place of a page as what is being written looks to a processor like the same memory
until the upper bits of the addresses are compared: a result starts half a page from where its image does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.devices.opencl.runtime import Runtime
from regweave.errors import DeviceError

_PAGE = 4096
HALF_PAGE = _PAGE // 2


def buffer(runtime: Runtime, content: np.ndarray | int, *, start: int = 0) -> Any:
    """A buffer that holds a copy of an array, or so many bytes of anything; on a processor it starts `start`
    bytes into a page. DeviceError where there is no room."""
    import pyopencl

    flags = pyopencl.mem_flags
    if isinstance(content, int):
        size, given = content, None
    else:
        given = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        size = given.size
    try:
        if runtime.device.type & pyopencl.device_type.CPU:
            memory = np.empty(size + 2 * _PAGE, np.uint8)
            first = (start - memory.ctypes.data) % _PAGE
            held = memory[first : first + size]  # which the buffer keeps
            if given is not None:
                held[:] = given
            return pyopencl.Buffer(runtime.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=held)
        if given is None:
            return pyopencl.Buffer(runtime.context, flags.READ_WRITE, size=size)
        return pyopencl.Buffer(runtime.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=given)
    except (pyopencl.Error, MemoryError) as error:
        raise DeviceError(f"the device has no room: {error}", where="opencl") from error
