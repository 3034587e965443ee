"""`regweave image IMAGE --op NAME -o OUT`: an image's pixels or patches times a matrix.

$ regweave image photo.jpg --op sepia -o old.jpg
$ regweave image photo.jpg --op gabor -o responses.png --machine gfx90a --json
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.completion import CompletionContext

from regweave.cli.output import print_document, talk_console, talk_of


def _complete_operations(context: CompletionContext) -> Iterator[str]:
    from regweave.images import operation_names

    return (name for name in operation_names() if name.startswith(context.incomplete))


def _complete_machines(context: CompletionContext) -> Iterator[str]:
    from regweave.images.product import MACHINES

    return (name for name in MACHINES if name.startswith(context.incomplete))


_Operation: TypeAlias = Annotated[str, Parameter(completer=_complete_operations)]
_Machine: TypeAlias = Annotated[str, Parameter(completer=_complete_machines)]


def image_command(
    image: Path,
    /,
    *,
    op: _Operation,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    machine: _Machine = "cpu",
    precision: str = "f32",
    stride: int = 1,
    threads: int | None = None,
    json: bool = False,
) -> None:
    """Multiply an image's pixels (or patches) by a matrix and write the result.

    Parameters
    ----------
    image:
        PNG, JPEG, TIFF, WebP, BMP; grey or colour, 8 or 16 bits; alpha is kept as it is. An .npy holds
        [height, width(, 1 or 3)] of uint8, uint16 or float32.
    op:
        grey, grey709, sepia, ycbcr, rgb (back from ycbcr), invert, swap (red and blue), pca (the image's own
        principal components); the banks gabor and dct8; or a file with a matrix: .npy, or text with one row
        per line, as many columns as the image has channels or one more for a constant. Colours are taken as
        they are stored (sRGB values).
    out:
        The file to write. Of more than three results per pixel: .npy and .tif hold the numbers, -{}.png is
        one picture per plane, .png or .jpg a contact sheet.
    machine:
        cpu; or gfx906, gfx90a, gfx942: a GPU of that kind if there is one, else the emulator.
    precision:
        What products are formed of: f32, f16, or i8 (8-bit images).
    stride:
        Pixels from patch to patch, for banks.
    threads:
        Threads on the CPU; default: all processors.
    json:
        Print one JSON document on stdout.
    """
    from regweave.cli.filter import quieten_libraries, tell_pages
    from regweave.images import Picture, operation, read_image
    from regweave.images.applying import apply_operation, check_outcome, loses_alpha, write_outcome
    from regweave.images.mapped import map_image

    quieten_libraries()
    chosen = operation(op)
    check_outcome(out, chosen)
    with talk_of("image") as say:
        say(f"reading {image}")
        started = time.perf_counter()
        mapped = map_image(image)
        picture = (
            read_image(image)
            if mapped is None
            else Picture(mapped.pixels, profile=mapped.profile, pages=mapped.pages)
        )
        read = time.perf_counter()
        check_outcome(out, chosen, picture.pixels)
        say(f"{chosen.name} on {machine}")
        outcome = apply_operation(
            picture,
            chosen,
            stride=stride,
            machine=machine,
            precision=precision,
            threads=threads,
            progress=lambda done, rows: say(f"{chosen.name} on {machine}, {done / rows:.0%}"),
        )
        made = time.perf_counter()
        say(f"writing {out}")
        files = write_outcome(out, outcome)
    if loses_alpha(out, outcome):
        talk_console().print(f"{out.suffix} has no alpha: it was left out", markup=False)
    document = _document(image, chosen.name, picture, outcome, files)
    tell_pages(image, picture.pages)
    document["seconds"] = {
        "read": read - started,
        "product": made - read,
        "write": time.perf_counter() - made,
    }
    if json:
        print_document(document)
        return
    high, wide, channels = picture.pixels.shape
    print(
        f"{chosen.name}: {wide} x {high} pixels, {channels} channels to {document['results']}, "
        f"{(made - read) * 1e3:.0f} ms on {document['device']}"
    )
    print(f"written to {files[0]}" + (f" ... {files[-1]}" if len(files) > 1 else ""))


def _document(image: Path, name: str, picture: Any, outcome: Any, files: list[Path]) -> dict[str, Any]:
    high, wide, channels = picture.pixels.shape
    product = outcome.product
    return {
        "image": str(image),
        "op": name,
        "width": wide,
        "height": high,
        "channels": channels,
        "bits": 8 * picture.pixels.itemsize,
        "alpha": picture.alpha is not None,
        "pages": picture.pages,
        "results": product.pixels.shape[-1],
        "machine": product.machine,
        "device": product.device,
        "precision": product.precision,
        "files": [str(file) for file in files],
    }
