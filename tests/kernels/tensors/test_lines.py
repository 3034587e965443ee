"""Means, largest elements, softmax and layer norms of lines, against float64, for every length and part."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels.tensors.lines import (
    LargestOfLine,
    LayerNorm,
    LineWork,
    Mean,
    Softmax,
    line_arguments,
    line_kernel,
)
from regweave.machines.x86 import AVX2, AVX512, VectorMachine, supports

LENGTHS = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40, 63, 64, 65, 128, 150, 257, 1030, 4099, 4200]
WORKS: list[LineWork] = [Mean(), LargestOfLine(), Softmax(), LayerNorm(1e-5)]


@pytest.fixture(params=[AVX512, AVX2], ids=lambda machine: machine.name)
def machine(request):
    if not supports(request.param):
        pytest.skip(f"this processor is no {request.param.name}")
    return request.param


def run(work, machine: VectorMachine, x, parts=1, scale=None, bias=None):
    lines, length = x.shape
    function = cpu.load(line_kernel(work, machine))
    small = isinstance(work, (Mean, LargestOfLine))
    y = np.full(lines + 3 if small else (lines + 1) * length, 77, np.float32)
    extras = (ctypes.c_int64 * 2)(*(0 if a is None else a.ctypes.data for a in (scale, bias)))
    arguments = line_arguments()(
        x=x.ctypes.data, y=y.ctypes.data, rows=length, batch=lines, parts=parts, extras=extras
    )
    for part in range(parts):
        function(ctypes.addressof(arguments), part)
    done = lines if small else lines * length
    assert (y[done:] == 77).all(), "nothing is written behind the result"
    return y[:done].reshape(lines, 1 if small else length)


def truth(work, x, scale=None, bias=None):
    x = x.astype(np.float64)
    if isinstance(work, Mean):
        return x.mean(1, keepdims=True)
    if isinstance(work, LargestOfLine):
        return x.max(1, keepdims=True)
    if isinstance(work, Softmax):
        power = np.exp(x - x.max(1, keepdims=True))
        return power / power.sum(1, keepdims=True)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + work.epsilon) * scale + bias


@pytest.mark.parametrize("work", WORKS, ids=lambda work: type(work).__name__)
def test_lines(work, machine):
    random = np.random.default_rng(0)
    for length in LENGTHS:
        for lines, parts in ((1, 1), (5, 3), (2, 4)):
            x = random.standard_normal((lines, length)).astype(np.float32) * 3 + 2
            scale, bias = (random.standard_normal(length).astype(np.float32) for _ in range(2))
            expected = truth(work, x, scale, bias)
            tolerance = {"rtol": 4e-6, "atol": 4e-6} if isinstance(work, LayerNorm) else {"rtol": 3e-6}
            np.testing.assert_allclose(run(work, machine, x, parts, scale, bias), expected, **tolerance)


def test_no_lines_are_no_work(machine):
    assert run(Mean(), machine, np.empty((0, 5), np.float32), parts=2).size == 0


def test_means_of_long_lines_are_exact(machine):
    x = np.random.default_rng(1).standard_normal((2, 400_000)).astype(np.float32) + 3
    np.testing.assert_allclose(run(Mean(), machine, x), truth(Mean(), x), rtol=2.5e-7)


def test_values_that_are_not_finite(machine):
    x = np.zeros((6, 21), np.float32)
    x[0, 5], x[1, 20], x[2, 0], x[3, 7], x[4] = np.nan, np.nan, np.nan, np.inf, -np.inf
    assert np.isnan(run(Mean(), machine, x)).ravel().tolist() == [True, True, True, False, False, False]
    largest = run(LargestOfLine(), machine, x).ravel()
    assert np.isnan(largest[2])
    assert largest[[0, 1, 3, 4, 5]].tolist() == [0, 0, np.inf, -np.inf, 0]
    shares = run(Softmax(), machine, x)
    assert np.isnan(shares[:5]).any(1).all()
    np.testing.assert_allclose(shares[5], 1 / 21, rtol=1e-6)


def test_softmax_of_large_and_infinitely_small_elements(machine):
    x = np.array([[1e4, 1e4 - 1, -np.inf, -3e38, 3.0]], np.float32)
    np.testing.assert_allclose(run(Softmax(), machine, x), truth(Softmax(), x), rtol=1e-6, atol=1e-30)
