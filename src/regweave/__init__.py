"""regweave keeps data in registers.

    >>> import regweave
    >>> layers = regweave.cascade(weights, biases, "relu", threads=2)   # one native kernel for the chain
    >>> y = layers(x)
    >>> fused = regweave.fuse("model.onnx", threads=2)                  # a whole model
    >>> outputs = fused.run({"x": image})
    >>> plan = regweave.rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A")

Importing this package imports nothing heavy: a name's module is loaded when the name is first used.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from regweave.cascades import cascade, gemm
    from regweave.engine import fuse
    from regweave.rearrangement import layout, rearrange

__version__ = "0.1.0"
#: When this process began to load regweave, in nanoseconds since 1970.
LOADED_AT = time.time_ns()

__all__ = [
    "AssemblyError",
    "DeviceError",
    "InputError",
    "ModelError",
    "RegisterError",
    "RegweaveError",
    "UnsupportedError",
    "VerificationError",
    "__version__",
    "cascade",
    "fuse",
    "gemm",
    "layout",
    "rearrange",
]

# public name -> the package that holds it
_LAZY = {
    "cascade": "regweave.cascades",
    "gemm": "regweave.cascades",
    "fuse": "regweave.engine",
    "layout": "regweave.rearrangement",
    "rearrange": "regweave.rearrangement",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'regweave' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
