"""Ready matrices for images: what `regweave image --op NAME` applies, and how a matrix is read from a file.

    >>> operation("grey").matrix
    array([[0.299, 0.587, 0.114]], dtype=float32)

Colour operations work on red, green, blue as they are stored (sRGB values, not light), 0 to 1 where constants
are concerned; `constants` are given for that range and scaled to 8 or 16 bits when they are applied. Banks
are filters for `filter_bank`.

Facts: ITU-R BT.601 (grey, YCbCr, full range as in JPEG) and BT.709 (grey709); the sepia matrix of the W3C's
filter effects; the orthonormal DCT-II of JPEG.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from regweave.errors import InputError, nearest_names
from regweave.files import path_of, read_file
from regweave.images.taking import real_matrix, whole_number
from regweave.values import frozen

_MOST_TEXT = 1 << 20
#: Rows that principal components are worked out from.
_SAMPLE = 1 << 20


@frozen(eq=False)
class Operation:
    """A matrix for pixels [N, K] with constants [N] (for values 0 to 1), or a bank [N, height, width].

    With `fit` the matrix is made from the image it is applied to; it has as many columns as `matrix`.
    """

    name: str
    matrix: np.ndarray
    constants: np.ndarray | None = None
    fit: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def bank(self) -> bool:
        """Whether it is a bank of filters."""
        return self.matrix.ndim > 2

    @property
    def colours(self) -> bool:
        """Whether its results are a picture again: one brightness, or three colours."""
        return not self.bank and self.fit is None and len(self.matrix) in (1, 3)

    def fitted(self, pixels: np.ndarray) -> Operation:
        """The operation for these pixels."""
        return self if self.fit is None else replace(self, matrix=self.fit(pixels))

    def for_range(self, most: float) -> np.ndarray:
        """The matrix with its constants as one more column, for pixels of 0 to `most`."""
        if self.constants is None:
            return self.matrix
        return np.concatenate([self.matrix, most * self.constants[:, None]], axis=1).astype(np.float32)


_GREY = (0.299, 0.587, 0.114)
_SEPIA = ((0.393, 0.769, 0.189), (0.349, 0.686, 0.168), (0.272, 0.534, 0.131))
_YCBCR = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


def _ycbcr_back() -> Operation:
    back = np.linalg.inv(np.array(_YCBCR))
    return _pixels("rgb", back, -back @ (0, 0.5, 0.5))


def _pixels(name: str, matrix: object, constants: object = None) -> Operation:
    return Operation(
        name,
        np.atleast_2d(np.asarray(matrix, np.float32)),
        None if constants is None else np.asarray(constants, np.float32),
    )


def dct_bank(size: int = 8) -> np.ndarray:
    """The orthonormal DCT-II basis [size * size, size, size], lowest frequencies first, row by row."""
    k, x = np.mgrid[:size, :size]
    basis = (
        np.cos(np.pi * (2 * x + 1) * k / (2 * size)) * np.where(k == 0, np.sqrt(0.5), 1) * np.sqrt(2 / size)
    )
    return np.einsum("ux,vy->uvxy", basis, basis).reshape(size * size, size, size).astype(np.float32)


def gabor_bank(size: int = 15, directions: int = 8, wavelength: float = 6.0) -> np.ndarray:
    """Even Gabor filters [directions, size, size] of sum 0 and absolute sum 1, from 0 degrees on."""
    middle = (size - 1) / 2
    y, x = np.mgrid[:size, :size] - middle
    found = []
    for angle in np.arange(directions) * np.pi / directions:
        along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        spread = wavelength / 2
        window = np.exp(-(along**2 + (across / 2) ** 2) / (2 * spread**2))
        wave = window * np.cos(2 * np.pi * along / wavelength)
        wave -= window * (wave.sum() / window.sum())
        found.append(wave / np.abs(wave).sum())
    return np.array(found, np.float32)


def principal_matrix(rows: np.ndarray, count: int | None = None) -> np.ndarray:
    """The `count` (default: all) strongest principal components of rows [..., K], as [count, K + 1] of f32.

    The last column takes the mean off, so that the product is the projection; a component's largest element
    is positive. Of many rows a million are looked at, evenly spread; those with elements that are no finite
    numbers are left out. InputError if no others are there.
    """
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "fiub":
        rows = real_matrix(rows, "rows")
    if rows.ndim < 1 or 0 in rows.shape:
        raise InputError(f"the shape is {list(rows.shape)}", where="rows", expected="[..., channels]")
    count = rows.shape[-1] if count is None else whole_number(count, "count")
    flat = rows.reshape(-1, rows.shape[-1])
    sample = flat[:: max(1, len(flat) // _SAMPLE)].astype(np.float64)
    sample = sample[np.isfinite(sample).all(axis=1)]
    if not len(sample):
        raise InputError("no row of finite numbers to find components of", where="rows")
    mean = sample.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov(sample, rowvar=False, ddof=0).reshape(flat.shape[1], -1))
    components = vectors.T[::-1][:count]
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    components = components * np.where(largest < 0, -1, 1)
    return np.concatenate([components, -components @ mean[:, None]], axis=1).astype(np.float32)


_OPERATIONS: dict[str, tuple[str, Callable[[], Operation]]] = {
    "grey": ("brightness (BT.601)", lambda: _pixels("grey", _GREY)),
    "grey709": ("brightness (BT.709)", lambda: _pixels("grey709", (0.2126, 0.7152, 0.0722))),
    "sepia": ("the brown of old photographs", lambda: _pixels("sepia", _SEPIA)),
    "ycbcr": ("brightness and two colour differences", lambda: _pixels("ycbcr", _YCBCR, (0, 0.5, 0.5))),
    "rgb": ("back from ycbcr", _ycbcr_back),
    "invert": ("the negative", lambda: _pixels("invert", -np.eye(3), np.ones(3))),
    "swap": ("red and blue exchanged", lambda: _pixels("swap", np.eye(3)[::-1])),
    "pca": (
        "the image's own principal components",
        lambda: Operation("pca", np.eye(3, dtype=np.float32), fit=principal_matrix),
    ),
    "gabor": ("8 oriented Gabor filters, 15 x 15", lambda: Operation("gabor", gabor_bank())),
    "dct8": ("the 64 filters of an 8 x 8 DCT", lambda: Operation("dct8", dct_bank())),
}


def operation_names() -> dict[str, str]:
    """The ready operations, each with what it does."""
    return {name: text for name, (text, _) in _OPERATIONS.items()}


def operation(name: str | Path) -> Operation:
    """A ready operation by name, or the matrix in a file: .npy, or text with one row per line.

    A matrix has as many columns as an image has channels, or one more for constants (given for the image's
    own range); a bank [filters, height, width(, channels)] is an .npy. InputError for unknown names, and
    files that hold no such matrix.
    """
    if str(name) in _OPERATIONS:
        return _OPERATIONS[str(name)][1]()
    path = path_of(name)
    if not str(name) or (not path.suffix and not path.exists()):
        raise InputError(
            f"unknown operation {str(name)!r}",
            where="op",
            nearest=nearest_names(str(name), _OPERATIONS),
            expected=f"{', '.join(_OPERATIONS)}, or a file (.npy, or text with one row per line)",
        )
    matrix = read_matrix(path)
    if matrix.ndim not in (2, 3, 4):
        raise InputError(
            f"a matrix of shape {list(matrix.shape)}",
            where=str(path),
            expected="[results, channels], or a bank [filters, height, width(, channels)]",
        )
    return Operation(path.name, matrix)


def read_matrix(path: Path) -> np.ndarray:
    """The f32 array in a file: .npy, or text with one row per line. InputError for anything else, and for
    empty arrays and numbers that are not finite."""
    with np.errstate(over="ignore"):  # what is too large is found below
        matrix = _read_npy(path) if path.suffix == ".npy" else _read_text(path)
    if 0 in matrix.shape:
        raise InputError(f"a matrix of shape {list(matrix.shape)}", where=str(path), expected="no empty side")
    if not np.isfinite(matrix).all():
        raise InputError("not all elements are finite numbers of f32", where=str(path))
    return matrix


def _read_npy(path: Path) -> np.ndarray:
    with open(path, "rb") as file:
        try:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:  # NumPy would take it for a pickle
                raise ValueError("it does not begin as one")
            file.seek(0)
            matrix = np.load(file, allow_pickle=False)
            if matrix.dtype.kind not in "fiub":
                raise ValueError(f"elements of type {matrix.dtype}")
        except Exception as error:  # of damaged files NumPy raises anything
            raise InputError(f"no matrix: {error}", where=str(path), expected="an .npy of numbers") from None
    return np.asarray(matrix, np.float32)


def _read_text(path: Path) -> np.ndarray:
    rows = []
    for number, line in enumerate(io.StringIO(read_file(path, _MOST_TEXT)), 1):
        words = line.partition("#")[0].replace(",", " ").replace(";", " ").split()
        if not words:
            continue
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            raise InputError(
                f"{line.strip()!r} is no row of numbers",
                where=f"{path}, line {number}",
                expected="numbers parted by blanks, commas or semicolons",
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{len(rows[-1])} numbers",
                where=f"{path}, line {number}",
                expected=f"{len(rows[0])} as before",
            )
    if not rows:
        raise InputError("no matrix", where=str(path), expected="one row of numbers per line")
    return np.array(rows, np.float32)
