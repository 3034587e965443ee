"""What a pixel takes at 64 megapixels beside one, and what memory alone would make of it.

    >>> time_scaling(SCALED[:1], rounds=5)["rows"][0]
    {'name': '3x3 1->1 8192x8192', 'ours_ns': {'same': 0.15, 'apart': 0.23, 'large': 0.23}, 'ratio': 1.5,
     'ratio_apart': 1.0, 'copy_ns': {'same': 0.11, 'large': 0.17}, 'copy_ratio': 1.5, 'copy_exceeds': True,
     'missed': ['1.50 times as long as at 1 MP, more than 1.15']}

Every turn is 64 megapixels: `large` is one image; `same` an image of one megapixel 64 times, as a caller in
a loop has it, so that image and result stay in the last cache where it is large enough; `apart` the memory of
the large image and its result taken as 64 images, which come from memory as the large one does. The limit is
on large / same. Where that is missed, `apart` tells two reasons from one another: large / apart is what the
size costs, the rest is the way to memory. A copy that reads and writes as many bytes as image and result have
together, in the faster of two ways for each size, shows what that way costs who computes nothing.

The large image is the small one eight times eight times, so its result is known but for the seams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regweave.benchmarks.bounds import copy_runners, written_block
from regweave.benchmarks.cases import relative_error
from regweave.benchmarks.comparison import TOLERANCE
from regweave.benchmarks.convolution_cases import SCALED, ConvolutionCase, ConvolutionData, same_size_case
from regweave.benchmarks.interleave import best_seconds, check_counts, interleaved_times
from regweave.convolution import Conv2d
from regweave.devices import cpu
from regweave.errors import InputError, VerificationError
from regweave.memory import free_memory

#: What a pixel of the large image may take, in units of what one of the small image takes.
LIMIT = 1.15
SAME, APART, LARGE = "same", "apart", "large"
SIDE = 8
"""The large image is so many times as high and as wide as the small one."""
PARTS = SIDE * SIDE
_COPY, _GRAIN = "copy ", 256  # bytes that copies are whole multiples of

Say = Callable[[str], None]
Runners = dict[str, Callable[[], object]]


def time_scaling(
    cases: Sequence[ConvolutionCase] = SCALED,
    *,
    threads: int = 1,
    rounds: int = 30,
    say: Say = lambda message: None,
) -> dict[str, Any]:
    """Measure `cases`, images of the large size, and return the document that `regweave bench conv --scaling
    --json` prints: nanoseconds for each place of the result, medians.

    Errors: InputError for counts below 1 and for less free memory than images, results and copies take;
    VerificationError for a wrong result.
    """
    check_counts(threads, rounds)
    rows = [_row(case, threads, rounds, say) for case in cases]
    reached = not any(row["missed"] for row in rows)
    return {"threads": threads, "rounds": rounds, "limit": LIMIT, "rows": rows, "reached": reached}


def _row(case: ConvolutionCase, threads: int, rounds: int, say: Say) -> dict[str, Any]:
    _check_memory(case)
    say(f"{case.name}: preparing")
    turns = _convolutions(case, threads) | _copies(case, threads)
    times = interleaved_times(
        turns, rounds=rounds, threads=threads, say=lambda words: say(f"{case.name}: {words}")
    )
    places = case.out_shape[-2] * case.out_shape[-1]
    ns = {name: 1e6 * ms / places for name, ms in times.items()}
    ours = {name: ns[name] for name in (SAME, APART, LARGE)}
    copy = {name: ns[_COPY + name] for name in (SAME, LARGE)}
    ratio, copy_ratio = ours[LARGE] / ours[SAME], copy[LARGE] / copy[SAME]
    return {
        "name": case.name,
        "ours_ns": ours,
        "ratio": ratio,
        "ratio_apart": ours[LARGE] / ours[APART],
        "copy_ns": copy,
        "copy_ratio": copy_ratio,
        "copy_exceeds": copy_ratio > LIMIT,
        "missed": [f"{ratio:.2f} times as long as at 1 MP, more than {LIMIT}"] * (ratio > LIMIT),
    }


def _convolutions(case: ConvolutionCase, threads: int) -> Runners:
    """Ours by name, each checked; a layer for each size."""
    c = case.convolution
    data = _part(case).data()
    *_, height, width = data.x.shape
    x = cpu.aligned_empty(c.image_shape)
    x.reshape(c.channels, SIDE, height, SIDE, width)[...] = data.x.reshape(c.channels, 1, height, 1, width)
    one = cpu.aligned_empty(data.x.shape)
    one[...] = data.x
    small, large = (Conv2d(data.weights, padding=c.pads, threads=threads) for _ in range(2))
    y_one, y = small(one), large(x)
    _check(case, data, y_one, y)
    assert y.flags.c_contiguous, "parts of the result would be copies"
    parts = list(zip(x.reshape(PARTS, *one.shape), y.reshape(PARTS, *y_one.shape), strict=True))
    return {
        SAME: lambda: [small(one, out=y_one) for _ in range(PARTS)],
        APART: lambda: [small(part, out=result) for part, result in parts],
        LARGE: lambda: large(x, out=y),
    }


def _copies(case: ConvolutionCase, threads: int) -> Runners:
    """The faster way to copy at each size, by name: each thread has a share, a whole number of grains."""
    share = _bytes(case) // 2 // threads
    blocks = [(written_block(share), written_block(share)) for _ in range(threads)]
    machine = cpu.chosen_machine()
    chosen: Runners = {}
    for name, times in ((SAME, PARTS), (LARGE, 1)):
        size = share // times // _GRAIN * _GRAIN
        ways = copy_runners(machine, [(source[:size], target[:size]) for source, target in blocks], times)
        chosen[_COPY + name] = min(ways, key=lambda run: best_seconds(run, 3))
    return chosen


def _part(case: ConvolutionCase) -> ConvolutionCase:
    c = case.convolution
    height, width = (axis.size // SIDE for axis in c.axes)
    return same_size_case(c.channels, c.filters, c.vertical.kernel, height, width)


def _bytes(case: ConvolutionCase) -> int:
    return 4 * sum(int(np.prod(shape)) for shape in (case.convolution.image_shape, case.out_shape))


def _check(case: ConvolutionCase, data: ConvolutionData, y_one: np.ndarray, y: np.ndarray) -> None:
    """Compare with float64: the small result, and what lies within each part of the large one."""
    *_, height, width = data.expected.shape
    margin = case.convolution.vertical.kernel // 2
    inside = (..., slice(margin, height - margin), slice(margin, width - margin))
    found = y.reshape(case.convolution.filters, SIDE, height, SIDE, width)
    results = {f"{height} x {width}": (y_one, data.expected)} | {
        f"part {row}, {column}": (found[:, row, :, column][inside], data.expected[0][inside])
        for row, column in np.ndindex(SIDE, SIDE)
    }
    for what, (result, expected) in results.items():
        error = relative_error(result, expected)
        if not error <= TOLERANCE:  # also catches NaN
            raise VerificationError(
                f"the result is wrong ({what}): off by {error:.1e} of the largest element",
                where=case.name,
                expected=f"at most {TOLERANCE:.0e}, against float64",
            )


def _check_memory(case: ConvolutionCase) -> None:
    needed, there = 2 * _bytes(case), free_memory()
    if needed > there:
        raise InputError(
            f"images, results and copies take {needed / 1e9:.1f} GB",
            where=case.name,
            expected=f"at most {there / 1e9:.1f} GB, the memory that is free",
            fix="name cases of fewer channels with --case",
        )
