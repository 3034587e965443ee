"""An operation on a picture, and where its results go: what `regweave image` does between its two files.

    outcome = apply_operation(read_image("photo.jpg"), operation("sepia"))
    write_outcome("photo-sepia.jpg", outcome)

One or three results per pixel are a picture again, with the alpha of the first. Others (a bank of filters, a
matrix of more rows) are planes of floats, and are written as

    name.npy             the numbers, [height, width, planes]
    name.tif             one page of floats per plane
    name-{}.png          one picture per plane; {} becomes its number
    name.png, .jpg ...   a contact sheet, all planes in one picture
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from regweave.errors import InputError
from regweave.files import write_bytes
from regweave.images.deep_tiff import write_pages
from regweave.images.files import Picture, write_image
from regweave.images.finishing import Progress
from regweave.images.operations import Operation
from regweave.images.planes import contact_sheet, show_planes
from regweave.images.product import ImageProduct, image_gemm
from regweave.images.targets import ARRAY, check_holds, check_target, keeps_alpha
from regweave.images.windows import filter_bank
from regweave.values import frozen

_COLOURS = 3


@frozen(eq=False)
class Outcome:
    """What an operation made of a picture: a `picture`, or None and `planes` [height, width, N] of f32, with
    the machine, the device and the precision of the product."""

    picture: Picture | None
    planes: np.ndarray
    product: ImageProduct


def apply_operation(
    picture: Picture,
    operation: Operation,
    *,
    stride: int = 1,
    machine: str = "cpu",
    precision: str = "f32",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Apply it to the colours; a grey picture counts as three equal colours where three are wanted.

    `stride` is for banks of filters. InputError for other numbers of channels, and as of `image_gemm`.
    """
    pixels = picture.pixels
    if operation.bank:
        product = filter_bank(
            pixels,
            operation.matrix,
            stride=stride,
            machine=machine,
            precision=precision,
            threads=threads,
            progress=progress,
        )
        return Outcome(None, product.pixels, product)
    if stride != 1:
        raise InputError(
            f"a stride of {stride} for single pixels", where="stride", expected="a bank of filters"
        )
    if pixels.shape[2] == 1 and operation.matrix.shape[1] in (_COLOURS, _COLOURS + 1):
        pixels = np.repeat(pixels, _COLOURS, axis=2)
    matrix = operation.fitted(pixels).for_range(picture.most)
    if matrix.shape[1] not in (pixels.shape[2], pixels.shape[2] + 1):
        raise InputError(
            f"{operation.name!r} has {matrix.shape[1]} columns, the picture {pixels.shape[2]} channels",
            expected=f"{pixels.shape[2]} columns, or {pixels.shape[2] + 1} with a constant",
        )
    whole = operation.colours
    product = image_gemm(
        pixels,
        matrix,
        machine=machine,
        precision=precision,
        result="image" if whole else None,
        threads=threads,
        progress=progress,
    )
    made = Picture(product.pixels, picture.alpha, picture.profile) if whole else None
    return Outcome(made, product.pixels, product)


def check_outcome(path: str | Path, operation: Operation, pixels: np.ndarray | None = None) -> None:
    """InputError or UnsupportedError if the outcome of an operation (on such pixels) cannot be written there,
    before work begins."""
    path = Path(path)
    check_target(path)
    if pixels is not None and operation.colours:
        check_holds(path, pixels.dtype, len(operation.matrix))
    if "{}" in path.name and operation.colours:
        raise InputError(
            f"{operation.name!r} makes one picture", where=str(path), fix="leave {} out of the file's name"
        )


def write_outcome(path: str | Path, outcome: Outcome) -> list[Path]:
    """Write what an operation made; the files, in order of the planes where there are several."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending == ARRAY:
        data = io.BytesIO()
        np.save(data, outcome.planes)
        write_bytes(path, data.getvalue())
        return [path]
    if outcome.picture is not None:
        write_image(path, outcome.picture)
        return [path]
    count = outcome.planes.shape[2]
    if "{}" in path.name:
        digits = len(str(count - 1))
        paths = [path.with_name(path.name.replace("{}", f"{n:0{digits}}")) for n in range(count)]
        for own, plane in zip(paths, show_planes(outcome.planes), strict=True):
            write_image(own, Picture(plane[..., None]))
        return paths
    if ending in (".tif", ".tiff"):
        write_bytes(path, write_pages([outcome.planes[..., n] for n in range(count)]))
        return [path]
    write_image(path, Picture(contact_sheet(show_planes(outcome.planes))[..., None]))
    return [path]


def loses_alpha(path: str | Path, outcome: Outcome) -> bool:
    """Whether the file's format has no place for the picture's alpha."""
    made = outcome.picture
    return made is not None and made.alpha is not None and not keeps_alpha(path)
