"""Image products on AMD machines: blocks of pixels and of the matrix through LDS, on a GPU or emulated.

Pixels become rows of whole 32-bit words in the precision's type (`kernels.amd`), band by band; a band is a
whole number of workgroups. Constants are added, int8 sums given their scale, and results rounded, here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from regweave.assembly.amd import FinishedKernel
from regweave.errors import UnsupportedError
from regweave.images.finishing import Progress, finish
from regweave.images.precision import centred, quantise
from regweave.kernels.amd import block_product, product_kernel

#: Workgroups along the rows of a band: what the emulator does at a time, and a GPU.
_EMULATED, _REAL = 64, 4096
_WORD = 4
#: Rows of a workgroup times this stay below 2 GiB.
_MOST_PITCH = 4 << 20
_TYPES = {"f32": np.float32, "f16": np.float16, "i8": np.int8}
Run = Callable[..., Any]


def multiply_on(
    machine: str,
    rows: np.ndarray,
    factors: np.ndarray,
    constants: np.ndarray | None,
    precision: str,
    out: np.ndarray,
    progress: Progress | None,
) -> str:
    """The product of rows [M, K] to out [M, N]; the device's name. The arguments are checked.

    DeviceError as of the device.
    """
    product = block_product(machine, precision, columns=len(factors))
    run, device, groups = _device(machine, product_kernel(product))
    quantised = quantise(factors) if precision == "i8" else None
    b = _words(quantised.steps if quantised else factors, precision)
    band = groups * product.rows
    for start in range(0, len(rows), band):
        part = rows[start : start + band]
        a = _words(centred(part) if quantised else part, precision)
        sums = np.empty((len(part), len(factors)), np.int32 if quantised else np.float32)
        grid = (-(-len(part) // product.rows), -(-len(factors) // product.columns), 1)
        run(grid=grid, arguments=product_arguments(a, b, sums))
        values = quantised.finish(sums) if quantised else sums
        if constants is not None:
            values = values + constants
        out[start : start + band] = finish(values, out.dtype)
        if progress is not None:
            progress(min(start + band, len(rows)), len(rows))
    return device


def product_arguments(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Mapping[str, Any]:
    """The arguments of a product kernel: a [M, K] and b [N, K] in rows of whole words, c [M, N].

    UnsupportedError for rows of more bytes than the offsets of a workgroup's rows can tell apart.
    """
    if max(a.strides[0], b.strides[0], c.strides[0]) > _MOST_PITCH:
        raise UnsupportedError(
            f"rows of {a.shape[1]} and {c.shape[1]} elements", expected=f"at most {_MOST_PITCH} bytes"
        )
    return {
        "a": a,
        "b": b,
        "c": c,
        "m": len(a),
        "n": len(b),
        "depth": a.shape[1] * a.itemsize,
        "a_pitch": a.strides[0],
        "b_pitch": b.strides[0],
        "c_pitch": c.strides[0],
    }


def _words(rows: np.ndarray, precision: str) -> np.ndarray:
    """Rows in the precision's type, zeros up to whole words behind each."""
    dtype = np.dtype(_TYPES[precision])
    elements = _WORD // dtype.itemsize
    found = np.zeros((len(rows), -(-rows.shape[1] // elements) * elements), dtype)
    found[:, : rows.shape[1]] = rows
    return found


def _device(machine: str, kernel: FinishedKernel) -> tuple[Run, str, int]:
    """What runs the kernel, its name, and workgroups per run."""
    from regweave.devices import emulator, hip

    if hip.device_reason(machine) is None:
        return partial(hip.run, kernel), f"hip ({machine})", _REAL
    return partial(emulator.run, emulator.read_kernel(kernel)), f"emulator ({machine})", _EMULATED
