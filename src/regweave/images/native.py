"""Image products on this CPU: the colour kernel for small matrices, the GEMM for large ones, in bands.

A band is as many rows as keep what stands between (pixels as f32, sums) in a few megabytes, so that an image
of any size needs little memory beside itself and its result.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from regweave.cascades import gemm, thread_count
from regweave.cascades.arrays import aligned_bytes
from regweave.cascades.device import choose_machine
from regweave.cascades.running import STREAM_BYTES
from regweave.cascades.threads import run_each
from regweave.devices import cpu
from regweave.images.finishing import Progress, finish
from regweave.images.precision import quantise
from regweave.kernels.colours.kernel import colour_kernel
from regweave.kernels.colours.structure import MOST_CHANNELS, ColourArguments, Colours
from regweave.machines.x86 import VectorMachine

#: The kernels' names of types.
TYPE_NAMES = {np.dtype(np.uint8): "u8", np.dtype(np.uint16): "u16", np.dtype(np.float32): "f32"}
#: Bytes that a band's pixels and sums take in f32, and pixels that are worth a thread of their own.
_BAND_BYTES, _PART_PIXELS = 8 << 20, 1 << 16
#: Products of int8 steps and pixels are exact in f32 up to here.
_EXACT = 1 << 24
#: Twice less than what a conversion to 32 bits takes, for sums that are rounded.
_MOST_SUM = 1 << 30


def multiply(
    rows: np.ndarray,
    factors: np.ndarray,
    constants: np.ndarray | None,
    precision: str,
    out: np.ndarray,
    threads: int | None,
    progress: Progress | None,
) -> str:
    """The product of rows [M, K] to out [M, N]; the device's name. The arguments are checked."""
    count, machine = thread_count(threads), choose_machine()
    small = max(factors.shape) <= MOST_CHANNELS and precision == "f32"
    if machine is not None and small and len(rows):
        _colours(rows, factors, constants, out, machine, count)
        if progress is not None:
            progress(len(rows), len(rows))
    else:
        _bands(rows, factors, constants, precision, out, count, progress)
    return f"cpu ({machine.name if machine else 'portable'})"


def _bands(
    rows: np.ndarray,
    factors: np.ndarray,
    constants: np.ndarray | None,
    precision: str,
    out: np.ndarray,
    threads: int,
    progress: Progress | None,
) -> None:
    """Band by band as a GEMM in f32, of numbers that were rounded to the precision before."""
    results, channels = factors.shape
    quantised = quantise(factors) if precision == "i8" else None
    if precision == "f16":
        factors = factors.astype(np.float16).astype(np.float32)
    if quantised is not None:
        factors = quantised.steps.astype(np.float32)
    turned = np.ascontiguousarray(factors.T)
    band = max(1, _BAND_BYTES // (4 * (channels + results)))
    for start in range(0, len(rows), band):
        part = rows[start : start + band]
        if quantised is not None:
            # 255 * 127 per product: so many channels at a time are exact
            most = _EXACT // (255 * 127)
            whole = np.zeros((len(part), results), np.float64)
            for k in range(0, channels, most):
                whole += gemm(part[:, k : k + most].astype(np.float32), turned[k : k + most], threads=threads)
            sums = (whole * quantised.scale).astype(np.float32)
            sums = sums if constants is None else sums + constants
        else:
            if precision == "f16":
                part = part.astype(np.float16)
            sums = gemm(part.astype(np.float32, copy=False), turned, constants, threads=threads)
        out[start : start + band] = finish(sums, out.dtype)
        if progress is not None:
            progress(min(start + band, len(rows)), len(rows))


@lru_cache(maxsize=64)
def loaded_colours(colours: Colours, machine: VectorMachine) -> cpu.Function:
    """The colour kernel, loaded; keep it while it runs."""
    return cpu.load_made(lambda: colour_kernel(colours, machine), repr(colours), machine)


def _colours(
    rows: np.ndarray,
    factors: np.ndarray,
    constants: np.ndarray | None,
    out: np.ndarray,
    machine: VectorMachine,
    threads: int,
) -> None:
    """The colour kernel on whole tiles of pixels, on those before and behind in filled up memory."""
    results, channels = factors.shape
    step = results * out.itemsize
    # pixels before the first vector that starts at a multiple of its size
    heads = [p for p in range(machine.lanes) if (out.ctypes.data + p * step) % machine.vector_bytes == 0]
    stream = bool(heads) and out.dtype == np.float32 and out.nbytes >= STREAM_BYTES
    colours = Colours(
        channels,
        results,
        TYPE_NAMES[rows.dtype],
        TYPE_NAMES[out.dtype],
        stream=stream,
        bounded=_bounded(rows.dtype, factors, constants),
    )
    lanes = colours.pixels(machine)
    kernel = loaded_colours(colours, machine)
    column = np.zeros(results, np.float32) if constants is None else constants
    matrix = np.ascontiguousarray(np.concatenate([factors, column[:, None]], axis=1), np.float32)
    begin = heads[0] if stream else 0
    tiles = (len(rows) - begin) // lanes
    end = begin + tiles * lanes
    parts = min(4 * threads, max(1, tiles * lanes // _PART_PIXELS)) if threads > 1 else 1
    edges = [begin + tiles * part // parts * lanes for part in range(parts + 1)]
    jobs = [(rows[first:], out[first:], (last - first) // lanes) for first, last in pairwise(edges)]
    jobs = [job for job in jobs if job[2]]
    ragged = [(first, last) for first, last in ((0, begin), (end, len(rows))) if last > first]
    padded = [(np.zeros((lanes, channels), rows.dtype), aligned_bytes(lanes * step), 1) for _ in ragged]
    for (first, last), (source, _, _) in zip(ragged, padded, strict=True):
        source[: last - first] = rows[first:last]
    blocks = (ColourArguments * (len(jobs) + len(padded)))(
        *(
            ColourArguments(source.ctypes.data, target.ctypes.data, matrix.ctypes.data, count)
            for source, target, count in (*jobs, *padded)
        )
    )
    run_each(kernel.address, blocks, threads)
    for (first, last), (_, target, _) in zip(ragged, padded, strict=True):
        out[first:last] = target.view(out.dtype).reshape(lanes, results)[: last - first]


def _bounded(dtype: np.dtype, factors: np.ndarray, constants: np.ndarray | None) -> bool:
    """Whether no sum of whole numbers times the matrix is as large as 2 ** 31."""
    if dtype.kind != "u":
        return False
    largest = np.abs(factors).astype(np.float64).sum(axis=1) * np.iinfo(dtype).max
    if constants is not None:
        largest = largest + np.abs(constants)
    return bool((largest < _MOST_SUM).all())
