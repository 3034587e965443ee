"""Convolutions of images of any size: on the image itself or on rows rearranged for the kernel's width.

`calls` is what people call: `Conv2d` and `conv2d`; its `results` lie where loads need not wait for stores. On
this processor `preparing` makes code, tables and weights for a shape: the `decision` says which kernel runs,
`planes` and `channels_last` have what belongs to each, its choice of tile, strips and bands, and its tables.
Both cut into even `parts` and take memory from a `pool`. Images of `halves` and `separable` kernels are done
by way of others, and where there is no machine code NumPy does it all (`portable`). `forms` are the ways to
rearrange rows.

For other devices `plans` is what is decided, `lanes` the kernels and their texts.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.convolution.calls import Conv2d, conv2d
    from regweave.convolution.forms import unroll_rows
    from regweave.convolution.lanes.running import OpenCLConvolution, opencl_machine
    from regweave.convolution.planes.native import DenseConvolution
    from regweave.convolution.plans.plan import ConvPlan
    from regweave.convolution.plans.planner import plan_conv

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
    **{
        "lanes.running": ("OpenCLConvolution", "opencl_machine"),
        "planes.native": ("DenseConvolution",),
        "plans.plan": ("ConvPlan",),
        "plans.planner": ("plan_conv",),
    },
)
