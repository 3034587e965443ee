"""The bounds: loops that do what they say, figures of a plausible size."""

import numpy as np
import pytest

from regweave.benchmarks.bounds import copy_loop, machine_bounds, peak_loop
from regweave.benchmarks.memory import keep_freed_memory
from regweave.devices import cpu
from regweave.machines.x86 import AVX2, AVX512, supports


@pytest.fixture(params=[AVX512, AVX2], ids=lambda machine: machine.name)
def machine(request):
    if not supports(request.param):
        pytest.skip(f"this processor has no {request.param.name}")
    return request.param


def test_the_peak_loop_is_nothing_but_multiply_adds(machine):
    lines = [line.strip() for line in peak_loop(machine, 8).text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.endswith(":") and "round" in line)
    assert sum("vfmadd" in line for line in lines) == 8
    assert sum("vfmadd" in line for line in lines[start:]) == 8
    cpu.load(peak_loop(machine, 8))(3)


def test_the_copy_loop_copies(machine):
    size = 4 * machine.vector_bytes * 5
    block = np.zeros(2 * size + 64, np.uint8)
    start = -block.ctypes.data % 64
    source, target = block[start : start + size], block[start + size : start + 2 * size]
    source[:] = np.arange(size) % 251
    cpu.load(copy_loop(machine))(source.ctypes.data, target.ctypes.data, 5)
    assert np.array_equal(source, target)


def test_bounds_have_a_plausible_size():
    bounds = machine_bounds(1)
    assert 0.1 < bounds["copy_gb_per_s"] < 10_000
    assert bounds["fma_peak_gflops"] is None or 1 < bounds["fma_peak_gflops"] < 10_000


def test_keeping_memory_never_fails():
    assert keep_freed_memory() in (True, False)
