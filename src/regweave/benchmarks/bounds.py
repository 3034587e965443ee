"""What the machine itself can do: the fastest arithmetic and the fastest copy, measured on the spot.

*FMA peak.* A loop of nothing but fused multiply-adds on independent accumulators, so many that no one
waits for another; two operations per lane and instruction. It touches no memory. No kernel can be faster, and
how close one comes says how good it is, whatever the clock does today.

*Copy bandwidth.* A block far larger than the caches, once with ordinary and once with streaming stores (which
do not read the destination first); the faster one counts. Bytes read plus bytes written.

Both are the best of several short runs: a bound is what the machine can do, not what it does on average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from regweave.assembly import Builder, Listing
from regweave.benchmarks.interleave import best_seconds
from regweave.devices import cpu
from regweave.machines.x86 import VectorMachine

COPY_BYTES = 64 << 20  # per thread
PEAK_ROUNDS = 300_000
TRIES = 15
UNROLLED = 4  # vectors per turn of the copy loop


def machine_bounds(threads: int = 1) -> dict[str, Any]:
    """`fma_peak_gflops` (None without AVX2 or AVX-512) and `copy_gb_per_s` of `threads` threads."""
    machine = cpu.chosen_machine()
    return {
        "fma_peak_gflops": None if machine is None else fma_peak(machine, threads) / 1e9,
        "copy_gb_per_s": copy_bandwidth(machine, threads) / 1e9,
    }


def peak_runner(machine: VectorMachine, threads: int = 1) -> tuple[Callable[[], object], int]:
    """A call that only multiplies and adds, on `threads` threads, and its floating-point operations."""
    chains = machine.register_class("vector").count - 4
    function = cpu.load(peak_loop(machine, chains))
    flops = PEAK_ROUNDS * chains * machine.lanes * 2 * threads
    return _side_by_side([lambda: function(PEAK_ROUNDS)] * threads), flops


def fma_peak(machine: VectorMachine, threads: int = 1) -> float:
    """Floating-point operations per second of `peak_runner`, the best of several tries."""
    run, flops = peak_runner(machine, threads)
    return flops / best_seconds(run, TRIES)


def copy_bandwidth(machine: VectorMachine | None, threads: int = 1) -> float:
    """Bytes per second, read and written, of `threads` threads that copy large blocks."""
    blocks = [(written_block(COPY_BYTES), written_block(COPY_BYTES)) for _ in range(threads)]
    ways = copy_runners(machine, blocks)
    return 2 * COPY_BYTES * threads / min(best_seconds(copy, TRIES) for copy in ways)


def copy_runners(
    machine: VectorMachine | None, blocks: Sequence[tuple[np.ndarray, np.ndarray]], times: int = 1
) -> list[Callable[[], object]]:
    """The ways to copy: calls that copy every source of `blocks` to its target, each on a thread of its own,
    so many times.

    Blocks are arrays of bytes, of whole turns of `copy_loop` where there is a `machine`.
    """
    ways = [[_plain_copy(*pair) for pair in blocks]]
    if machine is not None:
        ways.append([_streaming_copy(machine, *pair) for pair in blocks])
    return [_side_by_side([_repeated(copy, times) for copy in copies]) for copies in ways]


def written_block(size: int) -> np.ndarray:
    """So many bytes, from a cache line on, whose pages exist."""
    block = cpu.aligned_empty(size, np.uint8)
    block.fill(1)
    return block


def peak_loop(machine: VectorMachine, chains: int) -> Listing:
    """A function (rounds): each round does one fused multiply-add on each of `chains` registers."""
    builder = Builder(machine, name="fma_peak", arguments=("rounds",))
    factor = builder.vector("factor")
    builder.emit("zero", factor)
    accumulators = builder.vectors("accumulator", chains)
    for accumulator in accumulators:
        builder.emit("zero", accumulator)
    builder.label("round")
    for accumulator in accumulators:
        builder.emit("fma", accumulator, factor, factor)
    builder.emit("dec", builder["rounds"])
    builder.emit("jump_nonzero", "round")
    builder.emit("return")
    return builder.finish()


def copy_loop(machine: VectorMachine) -> Listing:
    """A function (source, target, turns) that copies UNROLLED vectors a turn with streaming stores."""
    builder = Builder(machine, name="copy", arguments=("source", "target", "turns"))
    vectors = builder.vectors("v", UNROLLED)
    builder.label("turn")
    for number, vector in enumerate(vectors):
        builder.emit("load", vector, builder.at("source", number * machine.vector_bytes))
    for number, vector in enumerate(vectors):
        builder.emit("store_stream", builder.at("target", number * machine.vector_bytes), vector)
    for pointer in ("source", "target"):
        builder.emit("add", builder[pointer], UNROLLED * machine.vector_bytes)
    builder.emit("dec", builder["turns"])
    builder.emit("jump_nonzero", "turn")
    builder.emit("fence_stores")
    builder.emit("return")
    return builder.finish()


def _plain_copy(source: np.ndarray, target: np.ndarray) -> Callable[[], object]:
    return lambda: np.copyto(target, source)


def _streaming_copy(machine: VectorMachine, source: np.ndarray, target: np.ndarray) -> Callable[[], object]:
    function = cpu.load(copy_loop(machine))
    turns, rest = divmod(source.nbytes, UNROLLED * machine.vector_bytes)
    assert turns > 0 == rest, f"{source.nbytes} bytes are no whole turns"
    return lambda: function(source.ctypes.data, target.ctypes.data, turns)


def _repeated(action: Callable[[], object], times: int) -> Callable[[], object]:
    return action if times == 1 else lambda: [action() for _ in range(times)]


def _side_by_side(actions: list[Callable[[], object]]) -> Callable[[], object]:
    """One call that does all `actions` at once and returns when the last is done."""
    if len(actions) == 1:
        return actions[0]
    pool = ThreadPoolExecutor(len(actions))
    return lambda: list(pool.map(lambda action: action(), actions))
