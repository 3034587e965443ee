"""regweave keeps data in registers.

    >>> import regweave
    >>> layers = regweave.cascade(weights, biases, "relu", threads=2)   # one native kernel for the chain
    >>> y = layers(x)
    >>> fused = regweave.fuse("model.onnx", threads=2)                  # a whole model
    >>> outputs = fused.run({"x": image})
    >>> plan = regweave.rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A")
    >>> chain = regweave.chain_layouts(["f16", "f16"], "gfx942")        # the seams between products

Importing this package imports nothing heavy: a name's module is loaded when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.errors import (
    AssemblyError,
    DeviceError,
    InputError,
    ModelError,
    RegisterError,
    RegweaveError,
    UnsupportedError,
    VerificationError,
)
from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.cascades import cascade, gemm
    from regweave.convolution import Conv2d, conv2d, plan_conv, unroll_rows
    from regweave.engine import fuse
    from regweave.images import image_gemm, patches
    from regweave.rearrangement import chain_layouts, layout, rearrange

__version__ = "0.1.0"

__all__ = [
    "AssemblyError",
    "Conv2d",
    "DeviceError",
    "InputError",
    "ModelError",
    "RegisterError",
    "RegweaveError",
    "UnsupportedError",
    "VerificationError",
    "__version__",
    "cascade",
    "chain_layouts",
    "conv2d",
    "fuse",
    "gemm",
    "image_gemm",
    "layout",
    "patches",
    "plan_conv",
    "rearrange",
    "unroll_rows",
]

_LAZY = {
    "cascades": ("cascade", "gemm"),
    "convolution": ("Conv2d", "conv2d", "plan_conv", "unroll_rows"),
    "engine": ("fuse",),
    "images": ("image_gemm", "patches"),
    "rearrangement": ("chain_layouts", "layout", "rearrange"),
}
__getattr__ = lazy_names(__name__, **_LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for names in _LAZY.values() for name in names)})
