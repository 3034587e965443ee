"""Convolutions on one OpenCL device: ours, a naive kernel, one on a padded image, im2col and a product.

    >>> run = OpenclNaivePeer().convolution(data, threads=2)
    >>> np.asarray(run()).shape                 # what a run returns stays on the device until it is looked at

Everything that a call needs is counted: rearranging rows and writing columns are, packing weights is not.
`opencl.padded` is given more than the others: its image was padded beforehand, and nobody counts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.benchmarks.convolution_cases import ConvolutionCase, ConvolutionData
from regweave.benchmarks.opencl_kernels import COLUMNS, COUNT, ELEMENTS, NAIVE, PADDED, PRODUCT, SIZES
from regweave.benchmarks.peers import MissingPeerError, Peer, Runner
from regweave.errors import DeviceError

if TYPE_CHECKING:
    from regweave.convolution import ConvPlan

#: Bytes of columns that are written at a time: more would need gigabytes, less too many launches.
_STRIP = 64 << 20
_MOST_ITEMS = 64


class OpenclSide:
    """regweave's plan for the device, all kernels counted."""

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """The convolution by the plan's own choice."""
        from regweave.convolution import OpenCLConvolution

        return runner_of(OpenCLConvolution(own_plan(data.case), data.weights), data)


def own_plan(case: ConvolutionCase) -> ConvPlan:
    """What the planner takes for a case on the device."""
    from regweave.convolution import opencl_machine, plan_conv

    c = case.convolution
    return plan_conv(
        c.image_shape,
        c.weights_shape,
        c.strides,
        c.pads,
        c.dilations,
        c.groups,
        case.dtype,
        machine=opencl_machine(),
    )


def runner_of(layer: Any, data: ConvolutionData) -> Runner:
    """Calls of an `OpenCLConvolution` on the image of a case, loaded once."""
    layer.load(data.x)

    def run() -> Any:
        layer.start()
        layer.finish()
        return _OnDevice(layer.result)

    return run


class _OnDevice:
    """A result that is copied to the host when somebody looks at it."""

    def __init__(self, copy: Callable[[], np.ndarray]) -> None:
        self._copy = copy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._copy() if dtype is None else self._copy().astype(dtype)


class _OnOneDevice(Peer):
    """What the kernels below share: buffers, sizes, launches."""

    def __init__(self) -> None:
        from regweave.devices.opencl import open_gpu, open_runtime

        try:
            self._runtime = open_gpu() or open_runtime()
        except DeviceError as error:
            raise MissingPeerError(str(error)) from error

    def _buffer(self, content: np.ndarray | int) -> Any:
        from regweave.devices.opencl import HALF_PAGE, buffer

        return buffer(self._runtime, content, start=HALF_PAGE if isinstance(content, int) else 0)

    def _kernel(self, case: ConvolutionCase, text: str, name: str, **constants: int | str) -> Any:
        from regweave.devices.opencl import build

        lines = "".join(f"#define {key} {value}\n" for key, value in constants.items())
        lines += ELEMENTS[case.dtype]
        return build(lines + text, runtime=self._runtime).kernel(name).handle

    def _sized(
        self,
        case: ConvolutionCase,
        text: str,
        name: str,
        sizes: dict[str, int],
        run: Callable[[Any, Any], Any],
    ) -> Runner:
        """`run(kernel, arguments)` with the sizes as arguments or as constants, whichever is faster."""
        given = ", ".join(["", *(f"int {key}" for key in sizes)])
        ways: list[Runner] = []
        for constants, values in (({"SIZES": given}, sizes.values()), ({"SIZES": "", **sizes}, ())):
            kernel = self._kernel(case, text, name, **constants)
            arguments = [np.int32(value) for value in values]
            ways.append(lambda kernel=kernel, arguments=arguments: run(kernel, arguments))
        return min(ways, key=_milliseconds)

    def _launch(self, kernel: Any, sizes: tuple[int, int, int], arguments: list[Any]) -> None:
        import pyopencl

        local = next(size for size in range(_MOST_ITEMS, 0, -1) if sizes[0] % size == 0)
        kernel.set_args(*arguments)
        pyopencl.enqueue_nd_range_kernel(self._runtime.queue, kernel, sizes, (local, 1, 1))

    def _result(self, y: Any, case: ConvolutionCase) -> _OnDevice:
        import pyopencl

        def copied() -> np.ndarray:
            found = np.empty(case.out_shape, case.element_type)
            pyopencl.enqueue_copy(self._runtime.queue, found, y)
            self._runtime.queue.finish()
            return found

        return _OnDevice(copied)


def _sizes(data: ConvolutionData, height: int, width: int) -> dict[str, int]:
    """The sizes that kernels ask for, of an image of this height and width."""
    c = data.case.convolution
    down, along = c.axes
    values = (
        *(c.channels, height, width, c.filters, down.outputs, along.outputs, down.kernel, along.kernel),
        *(down.stride, along.stride, down.before, along.before, down.dilation, along.dilation, c.groups),
    )
    return dict(zip(SIZES, values, strict=True))


class OpenclNaivePeer(_OnOneDevice):
    """A work-item for each output, which asks for each tap whether the image has it."""

    text, name = NAIVE, "naive"

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """One launch."""
        c = data.case.convolution
        x, element = self._image(data), data.case.element_type
        y = self._buffer(element.itemsize * int(np.prod(c.out_shape)))
        arguments = [self._buffer(x.astype(element)), self._buffer(data.weights), y]
        grid = (c.horizontal.outputs, c.vertical.outputs, c.batch * c.filters)

        def run(kernel: Any, sizes: list[Any]) -> Any:
            self._launch(kernel, grid, [*arguments, *sizes])
            self._runtime.queue.finish()
            return self._result(y, data.case)

        return self._sized(data.case, self.text, self.name, _sizes(data, *x.shape[-2:]), run)

    def _image(self, data: ConvolutionData) -> np.ndarray:
        return data.x


class OpenclPaddedPeer(OpenclNaivePeer):
    """The same without the question, on an image that was padded beforehand."""

    text, name = PADDED, "padded"

    def _image(self, data: ConvolutionData) -> np.ndarray:
        ends = [(axis.before, axis.after) for axis in data.case.convolution.axes]
        return np.pad(data.x, ((0, 0), (0, 0), *ends))


class OpenclProductPeer(_OnOneDevice):
    """Columns of the image written to memory (im2col), multiplied by the weights in tiles of registers."""

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """Two launches for each strip of rows."""
        c = data.case.convolution
        rows, columns = c.vertical.outputs, c.horizontal.outputs
        taps = c.vertical.kernel * c.horizontal.kernel
        if c.batch > 1 or rows * columns < COUNT:
            raise self._lacks("several images, or results of less than a tile")
        strip = max(1, min(rows, _STRIP // (4 * c.channels * taps * columns)), -(-COUNT // columns))
        each = min(8, c.group_filters)
        blocks, depth = -(-c.group_filters // each), c.group_channels * taps
        starts = [min(block * each, c.group_filters - each) for block in range(blocks)]
        by_group = data.weights.reshape(c.groups, c.group_filters, depth)
        packed = np.stack([by_group[:, first : first + each].swapaxes(1, 2) for first in starts], axis=1)
        product = self._kernel(
            data.case,
            PRODUCT,
            "product",
            FILTERS=each,
            GROUP_FILTERS=c.group_filters,
            BLOCKS=blocks,
            DEPTH=depth,
            PLANE=rows * columns,
            COUNT=COUNT,
        )
        element = data.case.element_type
        x, w = self._buffer(data.x.astype(element)), self._buffer(packed)
        y = self._buffer(element.itemsize * int(np.prod(c.out_shape)))
        held = self._buffer(4 * c.channels * taps * strip * columns)
        firsts = [min(first, rows - strip) for first in range(0, rows, strip)]
        count = strip * columns

        def run(written: Any, sizes: list[Any]) -> Any:
            for first in firsts:
                self._launch(written, (columns, strip, c.channels * taps), [x, held, np.int32(first), *sizes])
                where = np.int32(first * columns), np.int32(count)
                self._launch(product, (-(-count // COUNT), blocks, c.groups), [w, held, y, *where])
            self._runtime.queue.finish()
            return self._result(y, data.case)

        return self._sized(
            data.case, COLUMNS, "columns_of", _sizes(data, c.vertical.size, c.horizontal.size), run
        )


def _milliseconds(run: Runner) -> float:
    run()
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)
