"""OpenCL C text in, a callable kernel out.

    >>> library = build(text)
    >>> (x, y) = library.kernel("copy").run(x, y, groups=4, items=32)

Nothing is cached and nothing is written to disk: texts are small, and a test must not pass thanks to
what an earlier run compiled. A faulty text is a DeviceError with the compiler's log. The compiler
runs inside this process, and two kinds of text end it instead of being refused: a sub-group size that the
runtime lacks, and inline assembly. Both are refused here.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regweave.devices.opencl.runtime import Runtime, open_runtime
from regweave.errors import DeviceError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUB_GROUP_SIZES = (4, 8, 16, 32, 64)
_SIZE = re.compile(r"intel_reqd_sub_group_size\s*\(\s*([^)]*?)\s*\)")
_ASSEMBLY = re.compile(r"\b(__asm__|__asm|asm)\b")


@dataclass(frozen=True, eq=False)
class Library:
    """A compiled text."""

    program: Any
    runtime: Runtime

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. InputError if the text has none."""
        import pyopencl

        try:
            return Kernel(name, pyopencl.Kernel(self.program, name), self.runtime)
        except pyopencl.Error as error:
            raise InputError(f"the text has no kernel {name!r}", where="opencl") from error


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel of a compiled text, on arrays of the host."""

    name: str
    handle: Any
    runtime: Runtime

    def run(self, *arrays: NDArray[Any], groups: int, items: int) -> tuple[NDArray[Any], ...]:
        """Run `groups` work-groups of `items` work-items on copies of the arrays; return what became of them.

        DeviceError if the kernel has another number of arguments or cannot be started with this size.
        """
        import numpy as np
        import pyopencl

        flags = pyopencl.mem_flags
        results = tuple(np.array(array, order="C") for array in arrays)
        try:
            buffers = [
                pyopencl.Buffer(self.runtime.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array)
                for array in results
            ]
            for number, buffer in enumerate(buffers):
                self.handle.set_arg(number, buffer)
            queue = self.runtime.queue
            pyopencl.enqueue_nd_range_kernel(queue, self.handle, (groups * items,), (items,))
            for array, buffer in zip(results, buffers, strict=True):
                pyopencl.enqueue_copy(queue, array, buffer)
        except pyopencl.Error as error:
            raise DeviceError(f"the kernel cannot be run: {error}", where=f"opencl, {self.name}") from error
        return results


def build(text: str, *, optimised: bool = True, runtime: Runtime | None = None) -> Library:
    """Compile OpenCL C for the processor, or another open `runtime`: 3.0, or 1.2 where a device has no more.

    What runs once is sooner compiled if it is not `optimised`.

    DeviceError with the compiler's log if the text is refused, or without a runtime.
    """
    _refuse_what_ends_the_process(text)
    runtime = open_runtime() if runtime is None else runtime
    import pyopencl

    program = pyopencl.Program(runtime.context, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's remarks on a text that it accepts
            # a program that is looked at before it is built stays out of pyopencl's cache; compiling and
            # linking apart would not be either, but a failed link ends the process when it is released
            program.get_info(pyopencl.program_info.NUM_DEVICES)
            options = [_standard(runtime), *([] if optimised else ["-cl-opt-disable"])]
            return Library(program.build(options), runtime)
    except pyopencl.Error as error:
        log = str(program.get_build_info(runtime.device, pyopencl.program_build_info.LOG))
        faults = "\n".join(line for line in log.splitlines() if line and not line.startswith("remark:"))
        raise DeviceError(f"the compiler refuses the text: {faults or error}", where="opencl") from error


def _standard(runtime: Runtime) -> str:
    """The option for the device's newest OpenCL C; it calls that `OpenCL C 3.0 ...`."""
    return "-cl-std=CL3.0" if runtime.device.opencl_c_version.startswith("OpenCL C 3") else "-cl-std=CL1.2"


def _refuse_what_ends_the_process(text: str) -> None:
    for size in _SIZE.findall(text):
        if size not in map(str, SUB_GROUP_SIZES):
            raise DeviceError(
                f"the processor has no sub-groups of {size} lanes",
                where="opencl",
                expected="one of " + ", ".join(map(str, SUB_GROUP_SIZES)),
            )
    if _ASSEMBLY.search(text):
        raise DeviceError("inline assembly is not OpenCL C", where="opencl")
