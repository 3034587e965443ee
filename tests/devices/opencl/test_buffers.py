"""Buffers: what they hold, and where in a page those of a processor start."""

from types import SimpleNamespace

import numpy as np
import pytest

from regweave import DeviceError
from regweave.devices.opencl import HALF_PAGE, Runtime, buffer, build

pyopencl = pytest.importorskip("pyopencl", reason="buffers are pyopencl's")


def read(runtime, held, size):
    found = np.empty(size, np.uint8)
    pyopencl.enqueue_copy(runtime.queue, found, held)
    runtime.queue.finish()
    return found


@pytest.mark.parametrize("kind", ["processor", "GPU"])
def test_an_array_is_copied(device, kind):
    runtime = device
    if kind == "GPU":  # the processor, pretending
        runtime = Runtime(SimpleNamespace(type=pyopencl.device_type.GPU), device.context, device.queue)
    given = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::-1]
    held = buffer(runtime, given)
    expected, given = given.copy(), None
    assert np.array_equal(read(runtime, held, 48).view(np.float32).reshape(3, 4), expected)
    assert buffer(runtime, 4097).size == 4097


@pytest.mark.parametrize("start", [0, HALF_PAGE])
def test_a_processor_sees_where_it_starts(device, start):
    text = "kernel void place(global uchar *x, global ulong *y) { y[0] = (ulong)x % 4096; }"
    place, answer = buffer(device, 5000, start=start), buffer(device, 8)
    kernel = build(text, runtime=device).kernel("place").handle
    kernel.set_args(place, answer)
    pyopencl.enqueue_nd_range_kernel(device.queue, kernel, (1,), (1,))
    assert read(device, answer, 8).view(np.uint64)[0] == start


def test_no_room_is_an_error(device):
    with pytest.raises(DeviceError, match="no room"):
        buffer(device, 1 << 50)
