"""Products of pairs of matrices against float64: any sizes, strides of the left one, parts."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels.tensors.pairs import PairArguments, pair_kernel
from regweave.machines.x86 import AVX2, AVX512, supports

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor runs no native kernels")


def run(machine, a, b, alpha, parts, transposed):
    pairs, rows, depth = a.shape
    columns = b.shape[2]
    given = np.ascontiguousarray(a.transpose(0, 2, 1) if transposed else a)
    room = np.full(pairs * rows * columns + 2, 7, np.float32)
    arguments = PairArguments(
        a=given.ctypes.data, b=b.ctypes.data, y=room[1:].ctypes.data, pairs=pairs, rows=rows, depth=depth,
        columns=columns, a_row=4 if transposed else 4 * depth, a_column=4 * rows if transposed else 4,
        b_row=4 * columns, y_row=4 * columns, a_pitch=4 * rows * depth, b_pitch=4 * depth * columns,
        y_pitch=4 * rows * columns, parts=parts, alpha=alpha,
    )  # fmt: skip
    function = cpu.load(pair_kernel(machine))
    for part in range(parts):
        function(ctypes.addressof(arguments), part)
    assert (room[[0, -1]] == 7).all(), "nothing is written beside the result"
    return room[1:-1].reshape(pairs, rows, columns)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize("transposed", [False, True])
def test_sizes(machine, transposed):
    random = np.random.default_rng(5)
    for rows in (1, 2, 3, 4, 5, 8, 11):
        for columns in (1, 7, 8, 15, 16, 17, 32, 33, 41, 65):
            pairs, depth = int(random.integers(1, 4)), int(random.integers(0, 20))
            a = random.standard_normal((pairs, rows, depth)).astype(np.float32)
            b = random.standard_normal((pairs, depth, columns)).astype(np.float32)
            found = run(machine, a, b, 0.25, 1 + columns % 3, transposed)
            expected = 0.25 * a.astype(np.float64) @ b.astype(np.float64)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=f"{a.shape} {b.shape}")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_what_is_not_finite_stays_in_its_row_and_column(machine):
    a, b = np.ones((1, 6, 5), np.float32), np.ones((1, 5, 19), np.float32)
    a[0, 4, 2], b[0, 1, 18] = np.nan, np.inf
    found = run(machine, a, b, 1.0, 1, False)[0]
    assert np.isnan(found[4]).all()
    assert np.isinf(found[[0, 1, 2, 3, 5], 18]).all()
    assert (np.delete(found, 4, 0)[:, :18] == 5).all()
