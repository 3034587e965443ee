"""`regweave.image_gemm`: every pixel (or patch) of an image times a matrix.

    >>> grey = regweave.image_gemm(photo, [[0.299, 0.587, 0.114]], result="image")
    >>> grey.pixels.shape, grey.device
    ((2160, 3840, 1), 'cpu (avx512)')

The image's last axis is what is contracted; all other axes are rows of the product:

    result[..., n] = sum over k of matrix[n, k] * image[..., k]  (+ matrix[n, K])

A matrix with one column more than the image has channels adds that column, as OpenCV's transform does. On a
CPU small matrices run in a kernel that reads and writes the image's own types, larger ones as a GEMM in f32.
For AMD machines the blocks of both matrices are staged in LDS and multiplied there (`kernels.amd`), on a GPU
if there is one, else in the emulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.errors import InputError, unknown_name
from regweave.images.finishing import Progress, check_progress
from regweave.images.taking import check_out, real_matrix
from regweave.memory import room
from regweave.values import frozen

#: Where an image product can run, and the types that the products may be formed in.
MACHINES = ("cpu", "gfx906", "gfx90a", "gfx942")
PRECISIONS = ("f32", "f16", "i8")
_RESULTS = {np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.uint16)}


@frozen(eq=False)
class ImageProduct:
    """The result: `pixels` [..., N], the `machine` that the kernel was made for, the `device` that ran it,
    and the type that products were formed in. NumPy takes it as an array."""

    pixels: np.ndarray
    machine: str
    device: str
    precision: str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.pixels, dtype=dtype, copy=copy)


def image_gemm(
    image: Any,
    matrix: Any,
    *,
    machine: str = "cpu",
    precision: str = "f32",
    result: Any = None,
    out: np.ndarray | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ImageProduct:
    """Multiply every pixel of `image` [..., K] by `matrix` [N, K], or [N, K + 1] with constants.

    `image` holds u8, u16 or floats; [height, width] is an image of one channel. `result` is the type of the
    result: None for f32, "image" for the image's own, or u8, u16, f32; integers are rounded to even and
    clamped. `out` is a contiguous array of that type to write to. `machine` is "cpu", "gfx906", "gfx90a" or
    "gfx942". `precision` says what products are formed of: "f32"; "f16" (numbers rounded to f16, sums in
    f32); "i8" (u8 images only: the matrix in 255 steps per row, sums exact). `threads` at most work on the
    CPU; `progress(done, rows)` is called now and then.

    Errors: InputError for shapes that do not meet, other types, unknown names; DeviceError as of the device.
    """
    pixels, factors, constants = _take(image, matrix)
    wanted = _result_type(result, pixels.dtype)
    shape = (*pixels.shape[:-1], len(factors))
    if out is None:
        out = room(shape, wanted, fix="multiply a part of the image at a time")
    else:
        check_out(out, shape, wanted, pixels)
        if not out.flags.c_contiguous:
            raise InputError("out has gaps, or another order", where="out", expected="a contiguous array")
    rows, results = np.ascontiguousarray(pixels).reshape(-1, pixels.shape[-1]), out.reshape(-1, len(factors))
    check_progress(progress)
    _check(machine, MACHINES, "machine")
    _check(precision, PRECISIONS, "precision")
    if precision == "i8" and pixels.dtype != np.uint8:
        raise InputError(
            f"products of i8 on pixels of {pixels.dtype}",
            where="precision",
            expected="a u8 image",
            fix="give precision='f32' or 'f16', or convert the image",
        )
    if precision == "i8" and not np.isfinite(factors).all():
        raise InputError("not all elements are finite numbers", where="matrix")
    if machine == "cpu":
        from regweave.images.native import multiply

        device = multiply(rows, factors, constants, precision, results, threads, progress)
    else:
        from regweave.images.gpu import multiply_on

        device = multiply_on(machine, rows, factors, constants, precision, results, progress)
    return ImageProduct(out, machine, device, precision)


def _take(image: Any, matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Pixels [..., K], factors [N, K] and constants [N] or None, both f32."""
    factors = real_matrix(matrix, "matrix")
    if factors.ndim == 1:
        factors = factors[None]
    if factors.ndim != 2 or 0 in factors.shape:
        raise InputError(
            f"the shape is {list(factors.shape)}", where="matrix", expected="[results, channels]"
        )
    pixels = np.asarray(image)
    if pixels.dtype == np.bool_ or pixels.dtype.kind not in "uf" or pixels.dtype.itemsize > 8:
        raise InputError(
            f"pixels of type {pixels.dtype}",
            where="image",
            expected="uint8, uint16, float16, float32 or float64",
            fix="convert with image.astype(...)",
        )
    if pixels.dtype not in _RESULTS:
        if pixels.dtype.kind == "u":
            raise InputError(
                f"pixels of type {pixels.dtype}", where="image", expected="8 or 16 bits for whole numbers"
            )
        pixels = pixels.astype(np.float32)
    if pixels.ndim >= 2 and pixels.shape[-1] == 0:
        raise InputError("an image without channels", where="image", expected="one or more on its last axis")
    columns = factors.shape[1]
    if pixels.ndim == 2 and columns in (1, 2) and pixels.shape[1] not in (columns, columns - 1):
        pixels = pixels[..., None]
    if pixels.ndim < 2 or columns not in (pixels.shape[-1], pixels.shape[-1] + 1):
        channels = pixels.shape[-1] if pixels.ndim >= 2 else 1
        raise InputError(
            f"the matrix has {columns} columns and the image {channels} channels",
            where="image, matrix",
            expected=f"{channels} columns, or {channels + 1} with a constant",
            fix="the image's last axis holds its channels",
        )
    if columns == pixels.shape[-1]:
        return pixels, np.ascontiguousarray(factors), None
    return pixels, np.ascontiguousarray(factors[:, :-1]), np.ascontiguousarray(factors[:, -1])


def _result_type(result: Any, own: np.dtype) -> np.dtype:
    if isinstance(result, str) and result == "image":
        return own
    try:
        wanted = np.dtype(np.float32 if result is None else result)
        if wanted not in _RESULTS:
            raise TypeError
    except (TypeError, ValueError):  # of text that is none
        raise InputError(
            f"result {result!r}", where="result", expected="None, 'image', uint8, uint16 or float32"
        ) from None
    return wanted


def _check(word: str, known: tuple[str, ...], where: str) -> None:
    if not isinstance(word, str) or word not in known:
        raise unknown_name(where, word, known, where=where)
