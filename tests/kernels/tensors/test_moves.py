"""Moves of elements: every order of axes, any strides, short and long runs, strips, nothing beside them."""

from __future__ import annotations

import ctypes
from itertools import permutations

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels.tensors.moves import AXES, LINE, by_vectors, move_arguments, move_kernel, strips, walk
from regweave.machines.x86 import AVX2, AVX512, supports

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor runs no native kernels")


def moved(machine, source: np.ndarray, to: np.ndarray, parts: int = 1) -> None:
    """`to[...] = source` by kernels."""
    axes = walk(source.shape, [s // 4 for s in source.strides], [s // 4 for s in to.strides]) or ((1, 1, 1),)
    for part_axes, x, y in strips(axes):
        function = cpu.load(move_kernel(by_vectors(part_axes, machine), machine))
        arguments = move_arguments(part_axes, parts)
        arguments.x, arguments.y = source.ctypes.data + 4 * x, to.ctypes.data + 4 * y
        for part in range(parts):
            function(ctypes.addressof(arguments), part)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    "shape",
    [(7,), (5, 9), (33, 18), (70, 41), (3, 17, 20), (4, 1, 8, 15), (2, 3, 4, 5, 6), (1, 1), (2, 2, 40, 3)],
)
def test_every_order_of_axes(machine, shape):
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    for number, order in enumerate(permutations(range(len(shape)))):
        source = x.transpose(order)
        room = np.full(x.size + 2, 7, np.float32)
        moved(machine, source, room[1:-1].reshape(source.shape), 1 + number % 3)
        np.testing.assert_array_equal(room[1:-1].reshape(source.shape), source)
        assert (room[[0, -1]] == 7).all()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_slices_of_both_sides(machine):
    random = np.random.default_rng(3)
    for _ in range(60):
        shape = random.integers(1, 30, random.integers(1, 4))
        x = random.standard_normal(shape).astype(np.float32)
        cuts = tuple(slice(None, None, int(step)) for step in random.choice([1, 2, -1, -3], len(shape)))
        source = x[cuts]
        room = np.full(tuple(2 * n + 1 for n in source.shape), 7, np.float32)
        inside = tuple(slice(1, 1 + n) for n in source.shape)
        moved(machine, source, room[inside], int(random.integers(1, 4)))
        expected = np.full_like(room, 7)
        expected[inside] = source
        np.testing.assert_array_equal(room, expected)


def test_axes_that_lie_alike_are_one():
    assert walk((2, 3, 5), (15, 5, 1), (30, 10, 1)) == ((6, 5, 10), (5, 1, 1))
    assert walk((2, 3), (-3, -1), (3, 1)) == ((6, -1, 1),)
    assert walk((1, 1), (9, 9), (9, 9)) == ()


def test_strips_are_of_a_line_and_cover_all():
    axes = walk((512, 894), (1, 512), (894, 1))
    found = strips(axes)
    assert [part[-1][0] for part, _, _ in found] == [LINE, 894 % LINE]
    assert sum(np.prod([count for count, _, _ in part]) for part, _, _ in found) == 512 * 894
    full = ((2, 1, 1), (3, 9, 9), (2, 7, 7), (2, 5, 5), (900, 4, 1))
    assert len(full) == AXES
    assert strips(full) == ((full, 0, 0),)
