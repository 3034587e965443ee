"""A convolution plan executed through OpenCL: weights packed once, memory kept on the device.

    >>> layer = OpenCLConvolution(plan, weights, bias)
    >>> y = layer(x)                                    # NumPy arrays, copied there and back
    >>> layer.load(x); layer.start(); layer.finish()    # or step by step, to time the kernels alone

Strips follow one another on an in-order queue: rows are rearranged, then convolved, in the same workspace.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.convolution.lanes.emitting import bare_text, grids, local_sizes
from regweave.convolution.lanes.packing import check_array, pack_weights
from regweave.convolution.plans.plan import ConvPlan
from regweave.devices.opencl import HALF_PAGE, Runtime, buffer, build_kept, open_gpu, open_runtime
from regweave.errors import DeviceError, InputError
from regweave.machines.compute import MACHINES

_DTYPES = {"f32": np.float32, "f16": np.float16}


class OpenCLConvolution:
    """A plan's kernels on an OpenCL device: `runtime`, or a GPU where the plan is for one and there is one,
    or the processor.

    `weights` and `bias` as the plan's convolution has them, f32. With `beside`, another plan of the same
    convolution, image and result are those of that one, and rearranged rows too if they have room. Errors:
    InputError for arrays of other shapes, UnsupportedError for plans without lane-level kernels, DeviceError
    if the device refuses.
    """

    def __init__(
        self,
        plan: ConvPlan,
        weights: np.ndarray,
        bias: np.ndarray | None = None,
        runtime: Runtime | None = None,
        *,
        beside: OpenCLConvolution | None = None,
    ) -> None:
        c = plan.convolution
        packed = pack_weights(plan, weights, bias)
        if beside is not None and (beside.plan.convolution, beside.plan.dtype) != (c, plan.dtype):
            raise InputError(
                f"a plan for {c}, {plan.dtype}",
                where="beside",
                expected=f"the same convolution as there, {beside.plan.convolution}, {beside.plan.dtype}",
            )
        self.plan = plan
        self.runtime = (
            runtime
            or (beside and beside.runtime)
            or (open_gpu() if plan.machine.kind == "gpu" else None)
            or open_runtime()
        )
        programs = plan.programs()
        library = build_kept(bare_text(plan, "opencl"), self.runtime)
        kernels = [library.kernel(program.name).handle for program in programs]
        outputs = int(np.prod(c.out_shape)) * plan.element
        image = int(np.prod(c.image_shape)) * plan.element
        if beside is None:
            self._image = buffer(self.runtime, image)
            self._result = buffer(self.runtime, outputs, start=HALF_PAGE)
        else:
            self._image, self._result = beside._image, beside._result
        self._rows = self._workspace(beside)
        self._weights = buffer(self.runtime, packed)
        strips = [buffer(self.runtime, np.array([first], np.uint32)) for first in plan.strip_starts]
        #: Kernel, its arguments, blocks and threads of a block, in the order of launching.
        self._launches: list[tuple[Any, tuple[Any, ...], tuple[int, ...], tuple[int, ...]]] = []
        vectors = plan.machine.kind == "vectors"
        sizes = list(zip(grids(plan), local_sizes(plan, self.runtime.device.max_compute_units), strict=True))
        for strip in strips:
            for kernel, program, (grid, local) in zip(kernels, programs, sizes, strict=True):
                named = {
                    "image": self._image,
                    "x": self._image if plan.form == "none" else self._rows,
                    "w": self._weights,
                    "strip": strip,
                    "y": self._result,
                }
                arguments = tuple(named[memory.name] for memory in program.memories)
                across = grid[0] if vectors else grid[0] * local[0]
                self._launches.append((kernel, arguments, (across, *grid[1:]), local))

    def _workspace(self, beside: OpenCLConvolution | None) -> Any:
        """Memory for rearranged rows: that of another plan if large enough; None where none is needed."""
        size = self.plan.workspace_bytes
        if beside is not None and beside._rows is not None and beside._rows.size >= size:
            return beside._rows
        return buffer(self.runtime, size) if size else None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The result for an image, in the plan's element type. InputError for an image of another shape."""
        self.load(x)
        self.start()
        return self.result()

    def load(self, x: np.ndarray) -> None:
        """Copy an image to the device."""
        import pyopencl

        check_array(x, self.plan.convolution.image_shape, "x")
        image = np.ascontiguousarray(x, _DTYPES[self.plan.dtype])
        pyopencl.enqueue_copy(self.runtime.queue, self._image, image)
        self.finish()

    def start(self) -> None:
        """Launch the kernels on what was loaded. DeviceError if the device refuses."""
        import pyopencl

        try:
            for kernel, arguments, sizes, local in self._launches:
                kernel.set_args(*arguments)
                pyopencl.enqueue_nd_range_kernel(self.runtime.queue, kernel, sizes, local)
        except pyopencl.Error as error:
            raise DeviceError(f"the kernels cannot be run: {error}", where="opencl") from error

    def finish(self) -> None:
        """Wait for what was started."""
        self.runtime.queue.finish()

    def result(self) -> np.ndarray:
        """The result, copied from the device."""
        import pyopencl

        y = np.empty(self.plan.convolution.out_shape, _DTYPES[self.plan.dtype])
        pyopencl.enqueue_copy(self.runtime.queue, y, self._result)
        self.finish()
        return y


def opencl_machine() -> str:
    """The machine to plan for on the OpenCL device here: that of its GPU if there is one, else `opencl-cpu`.

    A GPU that no machine describes is planned for as the one with the fewest registers. DeviceError if
    pyopencl is missing.
    """
    gpu = open_gpu()
    return "opencl-cpu" if gpu is None else machine_of(gpu.device)


def machine_of(device: Any) -> str:
    """The machine that describes an OpenCL GPU, by its name (`gfx90a:sramecc+`, `Mali-G76 r0p0`), for
    NVIDIA's by its compute capability: the newest that is not newer."""
    names = [machine.name for machine in MACHINES.values() if machine.kind == "gpu"]
    if "nvidia" in device.vendor.lower():
        had = 10 * device.compute_capability_major_nv + device.compute_capability_minor_nv
        known = {int(name[3:].rstrip("a")): name for name in names if name.startswith("sm_")}
        return known[max((number for number in known if number <= had), default=min(known))]
    called = device.name.lower()
    found = next((name for name in names if name.rsplit("-", 1)[-1] in called), None)
    return found or ("valhall" if "mali" in called else "adreno-630" if "adreno" in called else "bifrost-g76")
