"""Convolutions of images of any size: on the image itself or on rows rearranged for the kernel's width.

`calls` is what people call. On this processor `decision` says which kernel runs, `choice` its tile, `strips`
and bands (or `channels_last` its own), `native` holds weights and `tables`. For other devices the `planner`
makes a `plan` by `costs`: `lanes` and `rearranging` are its kernels, `emitting` and `hosting` their texts.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.convolution.calls import Conv2d, conv2d
    from regweave.convolution.forms import unroll_rows
    from regweave.convolution.native import DenseConvolution
    from regweave.convolution.opencl_running import OpenCLConvolution, opencl_machine
    from regweave.convolution.plan import ConvPlan
    from regweave.convolution.planner import plan_conv

__all__ = [
    "Conv2d",
    "ConvPlan",
    "DenseConvolution",
    "OpenCLConvolution",
    "conv2d",
    "opencl_machine",
    "plan_conv",
    "unroll_rows",
]

__getattr__ = lazy_names(
    __name__,
    calls=("Conv2d", "conv2d"),
    forms=("unroll_rows",),
    native=("DenseConvolution",),
    opencl_running=("OpenCLConvolution", "opencl_machine"),
    plan=("ConvPlan",),
    planner=("plan_conv",),
)
