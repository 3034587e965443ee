"""`regweave fuse MODEL.onnx`: find the cascades of a model, fuse those that pay, verify, report.

    $ regweave fuse recogniser.onnx --threads 1 --dim width=320 --out fused/
    $ regweave fuse recogniser.onnx --json | jq '.whole.speedup'

The verb turns words into values, calls `regweave.fuse` and shows the report; every decision is the
library's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regweave.cli.names import MachineName, StrategyName
from regweave.cli.output import plain_values, print_answer, print_document, talk_console, talk_of
from regweave.errors import InputError
from regweave.files import folder_failure

MOST_DIGITS = 18


def fuse_command(
    model: Path,
    /,
    *,
    threads: int = 1,
    dim: tuple[str, ...] = (),
    fuse: tuple[str, ...] = (),
    apart: tuple[str, ...] = (),
    strategy: StrategyName | None = None,
    tune: bool = False,
    machine: MachineName | None = None,
    dtype: str | None = None,
    out: Path | None = None,
    all: bool = False,
    json: bool = False,
) -> None:
    """Find the cascades in an ONNX model, fuse those that pay, verify the result and report.

    Parameters
    ----------
    model:
        The ONNX file.
    threads:
        Threads for the whole model.
    dim:
        NAME=VALUE fixes a dynamic dimension, under its own name or as INPUT[AXIS]; may be given many times.
    fuse:
        NODE,NODE,... names a chain to fuse, whatever the cost model says; may be given many times.
    apart:
        NODE must stay out of every chain; may be given many times.
    strategy:
        Force this strategy at every seam: identity or refuse; with --machine also auto, fold, swap, exchange
        or shared, or a form: producer, consumer (of swap); direct, lean, steps, picks (of exchange);
        whole-warp, grouped, single-lane (of shared).
    tune:
        Decide by measuring both forms of each candidate, not by the cost model alone.
    machine:
        Also show each seam's rearrangement on this GPU, for example sm_80 or gfx942; needs --dtype.
    dtype:
        Data type of the products on --machine: tf32, f16, bf16, f64, s8, fp8, or another that it multiplies.
    out:
        Write the kernels' assembly with register maps, report.json and report.html into this folder.
    all:
        Show every refused candidate; otherwise those with something between the products are counted.
    json:
        Print the report as one JSON document on stdout.
    """
    from regweave.engine import fuse as fuse_model

    with tried_folder(out), talk_of(f"fusing {model.name or model}") as say:
        fused = fuse_model(
            model,
            threads=threads,
            dims=dimensions(dim),
            fuse=fuse,
            apart=[name for names in apart for name in node_names(names)],
            strategy=strategy,
            tune=tune,
            machine=machine,
            dtype=dtype,
            progress=say,
        )
    report = plain_values(fused.report.to_dict())
    if out is not None:
        fused.save(out)
        talk_console().print(f"kernels and report written to {out}", markup=False)
    if json:
        print_document(report)
        return
    from regweave.views import report_table

    print_answer(report_table(report, every=all))


def dimensions(settings: Iterable[str]) -> dict[str, int]:
    """`("N=4", "width=320")` as `{"N": 4, "width": 320}`; InputError for anything else."""
    sizes: dict[str, int] = {}
    for setting in settings:
        name, _, value = setting.rpartition("=")
        if not name or not value.isascii() or not value.isdigit() or len(value) > MOST_DIGITS:
            raise InputError(
                f"{setting!r} does not set a dimension",
                where="--dim",
                expected="NAME=VALUE with a whole number VALUE >= 0",
                fix="write it like --dim width=320",
            )
        if sizes.setdefault(name, int(value)) != int(value):
            raise InputError(f"'{name}' is given twice: {sizes[name]} and {value}", where="--dim")
    return sizes


@contextmanager
def tried_folder(folder: Path | None) -> Iterator[None]:
    """Make `folder` and try whether it can be written, before minutes are spent on what goes there.

    Folders that were made go again where nothing came of it.
    """
    if folder is None:
        yield
        return
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise folder_failure(error, folder, f"--out {folder}") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # one that is not empty stays
            for place in made:
                place.rmdir()
        raise


def node_names(words: str) -> tuple[str, ...]:
    """`"a,b"` as `("a", "b")`."""
    return tuple(name.strip() for name in words.split(",") if name.strip())
