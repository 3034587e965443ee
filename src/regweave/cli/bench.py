"""`regweave bench cascade|conv|filter|gemm|image|models|planning|rearrange|seams`: beside other libraries.

$ regweave bench cascade --threads 1 --case 4096x64-512-64 --peer onnxruntime
$ regweave bench conv --threads 2 --peer onnxruntime --peer torch.channels_last
$ regweave bench conv --model PP-OCRv6_det_small
$ regweave bench conv --order nhwc --peer torch.channels_last --peer regweave.nchw
$ regweave bench conv --opencl --case '5x5 1->1 4096x4096'
$ regweave bench conv --scaling --rounds 5 --case '3x3 1->1 8192x8192'
$ regweave bench gemm --json | jq '.cases[].ratio_best_peer'
$ regweave bench rearrange --case 'tf32 C -> A'

What is timed is timed in one process, in turns; rearrangements are compiled and their instructions counted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any, Literal

from regweave.cli.failures import CHECK_FAILED, OK
from regweave.cli.output import print_answer, print_document, talk_console, talk_of
from regweave.errors import InputError, unknown_name


def bench_command(
    what: Literal["cascade", "conv", "filter", "gemm", "image", "models", "planning", "rearrange", "seams"],
    /,
    *,
    threads: int = 1,
    rounds: int = 30,
    case: tuple[str, ...] = (),
    peer: tuple[str, ...] = (),
    model: str | None = None,
    opencl: bool = False,
    sweep: bool = False,
    order: Literal["nchw", "nhwc"] = "nchw",
    scaling: bool = False,
    json: bool = False,
) -> int:
    """Measure regweave and the libraries that are installed, in turns, and compare medians.

    Parameters
    ----------
    what:
        cascade: chains of products with bias and ReLU. conv: convolutions of images, weights packed
        beforehand. filter: filters of photographs by name, from and to bytes. gemm: single products, packing
        included. image: colours of photographs. models: real models, onnxruntime and OpenVINO against fused.
        planning: milliseconds to plan rearrangements, for the pairs of each machine, a sample of all, and the
        largest; the exit code is 1 where they take more than they should.
        rearrange: instructions of conversions between layouts, compiled, beside Triton's; the exit code is 1
        where one takes more than it should. seams: whole kernels of two products, folded and swapped against
        exchanged; the exit code is 1 where these take more.
    threads:
        Threads for every library that is timed.
    rounds:
        Every library that is timed has its turn in each round.
    case:
        Only this case or model, as the table names it; may be given many times.
    peer:
        Only this library: numpy, onnxruntime, torch, torch.compile, torch.channels_last, openvino, opencv,
        opencv.separable, opencv.named, pillow or regweave.nchw, or with --opencl opencl.naive, opencl.padded
        or opencl.im2col; may be given many times.
    model:
        conv: the convolutions of this sample model, each once, and their sum as often as the model does them.
    opencl:
        conv: kernels on the OpenCL device, with all of its processors, beside a naive kernel, one on a padded
        image, and im2col with a product.
    sweep:
        With --opencl: every form and tile against the one that the planner takes. Takes minutes a case, and
        can be interrupted: what was compiled is kept.
    order:
        conv: with nhwc ours reads and writes images whose channels lie side by side, also in layers of
        networks; regweave.nchw in the table is ours on planes of channels.
    scaling:
        conv: nanoseconds that a pixel takes at 64 megapixels and at one, in turns of 64 megapixels each,
        beside a copy of as many bytes at both sizes. The small image is the same one again, as a caller
        in a loop has it, and stays in a large cache; apart: 64 small images in turn, which come from memory.
        The exit code is 1 where a pixel of the large image takes more than 1.15 times as long as one of the
        same small image. Up to 3.3 GB of memory.
    json:
        Print the figures as one JSON document on stdout.
    """
    if model is not None and what != "conv":
        raise InputError(
            f"{what} measures no convolutions of a model",
            where="--model",
            fix="say bench conv, or leave it out",
        )
    if order != "nchw" and (what != "conv" or opencl):
        raise InputError(
            "OpenCL kernels read planes of channels" if opencl else f"{what} has no order of images",
            where="--order",
            fix="say bench conv without --opencl, or leave it out",
        )
    if scaling and (what != "conv" or model is not None or opencl or sweep or order != "nchw"):
        raise InputError(
            "sizes are compared for a few convolutions of planes of channels, on the processor",
            where="--scaling",
            fix="say bench conv without --model, --opencl, --sweep and --order, or leave it out",
        )
    _check_opencl(what, opencl=opencl, sweep=sweep, peers=peer, threads=threads)
    from regweave import benchmarks, views

    made = _SUBJECTS.get("scaling" if scaling else what)
    subject = None if made is None else made(benchmarks, views)
    table = views.comparison_table
    with talk_of(f"bench {what}") as say, stdout_kept_clean():
        if subject is not None:
            timing = {"threads": threads, "rounds": rounds} if subject.timed else {}
            document = subject.measure(subject.chosen(case, peer), **timing, say=say)
            table = subject.table
        elif sweep:
            cases = _chosen(_cases(what, model, opencl, order), case)
            document, table = benchmarks.sweep_tiles(cases, rounds=rounds, say=say), views.tile_sweep_table
        else:
            cases = _chosen(_cases(what, model, opencl, order), case)
            settings = {"threads": threads, "rounds": rounds, "opencl": opencl, "say": say}
            document = _comparison(cases, peer, **settings)
            if model is not None:
                document |= {"model": model, "sum": benchmarks.summed(document["cases"])}
    code = OK if document.get("reached", True) else CHECK_FAILED
    if json:
        print_document(document)
        return code
    print_answer(table(document))
    names: dict[str, list[str]] = {}
    for name, reason in document.get("missing", {}).items():
        names.setdefault(reason, []).append(name)
    for reason, alike in names.items():
        talk_console().print(f"without {', '.join(alike)}: {reason}", markup=False)
    return code


@dataclass(frozen=True)
class _Subject:
    """What is measured beside `others` alone: its cases, who measures them, and the table of the document.

    `timed`: it takes threads and rounds.
    """

    cases: Iterable[Any]
    measure: Callable[..., dict[str, Any]]
    table: Callable[[Mapping[str, Any]], Any]
    others: str
    timed: bool = False

    def chosen(self, names: tuple[str, ...], peers: tuple[str, ...]) -> list[Any]:
        """The cases of these names, or all. InputError for an unknown one, or for any peer."""
        if peers:
            raise InputError(self.others, where="--peer", fix="leave --peer out")
        return _chosen(self.cases, names)


_SUBJECTS: dict[str, Callable[[Any, Any], _Subject]] = {
    "models": lambda benchmarks, views: _Subject(
        benchmarks.MODELS,
        benchmarks.compare_models,
        views.models_table,
        "models are compared with onnxruntime and OpenVINO",
        timed=True,
    ),
    "planning": lambda benchmarks, views: _Subject(
        benchmarks.planning_rows(),
        benchmarks.time_planning,
        views.planning_table,
        "planning is compared with nothing",
    ),
    "rearrange": lambda benchmarks, views: _Subject(
        benchmarks.ROWS,
        benchmarks.compare_rearrangements,
        views.rearrangements_table,
        "rearrangements are compared with Triton alone",
    ),
    "scaling": lambda benchmarks, views: _Subject(
        benchmarks.SCALED,
        benchmarks.time_scaling,
        views.scaling_table,
        "sizes are compared with one another",
        timed=True,
    ),
    "seams": lambda benchmarks, views: _Subject(
        benchmarks.SEAM_CASES,
        benchmarks.compare_seams,
        views.seams_table,
        "kernels are compared with one another",
    ),
}


def _cases(what: str, model: str | None, opencl: bool, order: str) -> Sequence[Any]:
    from regweave.benchmarks import (
        CASCADES,
        CONVOLUTIONS,
        FILTERS,
        IMAGES,
        MODELS,
        PRODUCTS,
        channels_last_cases,
        model_convolutions,
    )

    if opencl and model is None:  # where nothing looks for a column times a row
        cases = [case for case in CONVOLUTIONS if not case.separable]
        return [*cases, *(replace(case, dtype="f16") for case in cases)]
    if model is None and order == "nhwc":
        return channels_last_cases()
    if model is None:
        return {
            "cascade": CASCADES,
            "conv": CONVOLUTIONS,
            "filter": FILTERS,
            "gemm": PRODUCTS,
            "image": IMAGES,
        }[what]
    from regweave.benchmarks.models import sample_graph

    cases = model_convolutions(sample_graph(_named(model, {name: name for name in MODELS}, "model")))
    return [replace(case, order=order) for case in cases]


def _comparison(cases: Sequence[Any], peers: tuple[str, ...], **settings: Any) -> dict[str, Any]:
    from regweave.benchmarks import OPENCL_PEERS, PEER_CLASSES, compare

    default = PEER_CLASSES
    if settings["opencl"]:
        from regweave.devices.opencl import open_runtime

        # bounds are those of the processor, on all that its device uses
        default, settings["threads"] = OPENCL_PEERS, open_runtime().device.max_compute_units
    return compare(cases, peers=peers or tuple(default), **settings)


def _chosen(cases: Iterable[Any], names: tuple[str, ...]) -> list[Any]:
    """The cases of these names, or all; a case has a name, or is one."""
    known = {getattr(case, "name", case): case for case in cases}
    return [_named(name, known) for name in names or known]


def _check_opencl(what: str, *, opencl: bool, sweep: bool, peers: tuple[str, ...], threads: int) -> None:
    from regweave.benchmarks import OPENCL_PEERS

    other = next((name for name in peers if (name in OPENCL_PEERS) != opencl), None)
    if opencl and what != "conv":
        raise InputError(
            f"{what} has no kernels in OpenCL C to measure",
            where="--opencl",
            fix="say bench conv, or leave it out",
        )
    if sweep and not opencl:
        raise InputError("tiles are swept on the OpenCL device", where="--sweep", fix="add --opencl")
    if opencl and threads != 1:
        raise InputError(
            "an OpenCL device works with all its processors", where="--threads", fix="leave it out"
        )
    if what == "conv" and other is not None and (opencl or other in OPENCL_PEERS):
        raise InputError(
            f"{other} is no kernel in OpenCL C" if opencl else f"{other} runs on the OpenCL device",
            where="--peer",
            expected="one of " + ", ".join(OPENCL_PEERS) if opencl else None,
            fix=None if opencl else "add --opencl",
        )
    if sweep and peers:
        raise InputError("plans are compared with one another", where="--peer", fix="leave --peer out")


def _named(name: str, known: dict[str, Any], what: str = "case") -> Any:
    if name not in known:
        raise unknown_name(what, name, known, where=f"--{what}")
    return known[name]


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """What other libraries print meanwhile, even from C, goes to stderr: stdout is for our answer."""
    sys.stdout.flush()
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(answer, 1)
        os.close(answer)
