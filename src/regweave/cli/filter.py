"""`regweave filter IMAGE --kernel NAME -o OUT`: an image convolved with a small kernel.

$ regweave filter photo.jpg --kernel gaussian5 -o soft.jpg
$ regweave filter sky.tif --kernel sobel --stride 2 -o edges.tif --json
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.completion import CompletionContext

from regweave.cli.output import print_document, talk_console, talk_of


def _complete_filters(context: CompletionContext) -> Iterator[str]:
    from regweave.images import filter_names

    names = (name.replace("N", size) for name in filter_names() for size in ("3", "5", "9"))
    return (name for name in dict.fromkeys(names) if name.startswith(context.incomplete))


_Filter: TypeAlias = Annotated[str, Parameter(completer=_complete_filters)]


def filter_command(
    image: Path,
    /,
    *,
    kernel: _Filter,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    stride: int = 1,
    border: str = "edge",
    threads: int | None = None,
    json: bool = False,
) -> None:
    """Convolve an image with a small kernel, channel by channel, and write the result.

    Parameters
    ----------
    image:
        PNG, JPEG, TIFF, WebP, BMP; grey or colour, 8 or 16 bits; alpha is kept (thinned by the stride). An
        .npy or an uncompressed TIFF is mapped: written to .npy or .tif it may be larger than memory.
    kernel:
        gaussian5 (or another odd size), box9 (or another), sobel, laplacian, unsharp; or a file: .npy, or
        text with one row per line.
    out:
        The file to write.
    stride:
        Take every so-many-th pixel of every so-many-th row.
    border:
        How the image goes on beyond its edges: edge, mirror or zero.
    threads:
        Threads; default: all processors.
    json:
        Print one JSON document on stdout.
    """
    from regweave.images import image_filter
    from regweave.images.mapped import map_image
    from regweave.images.targets import check_target

    quieten_libraries()
    chosen = image_filter(kernel)
    check_target(out)
    options: dict[str, Any] = {"stride": stride, "border": border, "threads": threads}
    with talk_of("filter") as say:
        say(f"reading {image}")
        started = time.perf_counter()
        mapped = map_image(image)
        options["progress"] = lambda done, rows: say(f"{chosen.name}, {done / rows:.0%}")
        work = _through_memory if mapped is None else _mapped
        shape, bits, pages, seconds = work(image, mapped, chosen, out, options, say)
    tell_pages(image, pages)
    document = {
        "image": str(image),
        "kernel": chosen.name,
        "width": shape[1],
        "height": shape[0],
        "channels": shape[2],
        "bits": bits,
        "pages": pages,
        "stride": stride,
        "border": border,
        "mapped": mapped is not None,
        "files": [str(out)],
        "seconds": {"filter": seconds, "total": time.perf_counter() - started},
    }
    if json:
        print_document(document)
        return
    print(f"{chosen.name}: {shape[1]} x {shape[0]} pixels, {seconds * 1e3:.0f} ms")
    print(f"written to {out}")


def tell_pages(image: Path, pages: int) -> None:
    """Where an image's file has several pages, that the first was taken is said."""
    if pages > 1:
        talk_console().print(f"{image} has {pages} pages: the first was taken", markup=False)


def quieten_libraries() -> None:
    """What tifffile logs of damaged files, our own words say."""
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)


def _through_memory(
    image: Path, _: Any, chosen: Any, out: Path, options: dict[str, Any], say: Callable[[str], None]
) -> tuple[tuple[int, ...], int, int, float]:
    """Read, filter, write."""
    from regweave.images import Picture, filter_image, read_image, write_image
    from regweave.images.targets import check_holds, keeps_alpha

    picture = read_image(image)
    check_holds(out, picture.pixels.dtype, picture.pixels.shape[2])
    started = time.perf_counter()
    found = filter_image(picture.pixels, chosen, **options)
    seconds = time.perf_counter() - started
    say(f"writing {out}")
    step = options["stride"]
    alpha = None if picture.alpha is None else picture.alpha[::step, ::step]
    write_image(out, Picture(found, alpha, picture.profile))
    if alpha is not None and not keeps_alpha(out):
        talk_console().print(f"{out.suffix} has no alpha: it was left out", markup=False)
    return picture.pixels.shape, 8 * picture.pixels.itemsize, picture.pages, seconds


def _mapped(
    image: Path, mapped: Any, chosen: Any, out: Path, options: dict[str, Any], say: Callable[[str], None]
) -> tuple[tuple[int, ...], int, int, float]:
    """Filter from file to file, or through memory into a format that is written at once."""
    from regweave.images import Picture, filter_image, write_image
    from regweave.images.filters import filtered_shape
    from regweave.images.mapped import MAPPED, mapped_output
    from regweave.images.targets import check_holds

    pixels = mapped.pixels
    check_holds(out, pixels.dtype, pixels.shape[2])
    started = time.perf_counter()
    if out.suffix.lower() in MAPPED:
        shape = filtered_shape(pixels.shape, options["stride"])
        with mapped_output(out, shape, pixels.dtype, mapped.profile) as target:
            filter_image(pixels, chosen, out=target, **options)
    else:
        found = filter_image(pixels, chosen, **options)
        say(f"writing {out}")
        write_image(out, Picture(found, None, mapped.profile))
    return pixels.shape, 8 * pixels.itemsize, mapped.pages, time.perf_counter() - started
