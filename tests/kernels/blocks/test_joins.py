"""Joining blocked images of any whole number of half blocks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels.blocks.joins import can_join, join_arguments, join_kernel
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators.blocks import from_blocks, to_blocks

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="needs AVX2 or AVX-512")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("halves", [(3, 3), (1, 1), (1, 2, 3), (3, 3, 3, 3), (2, 1)])
@pytest.mark.parametrize(("batch", "pixels", "parts"), [(1, 50, 1), (2, 7, 3), (3, 0, 1), (0, 5, 2)])
def test_joined_images_are_concatenated_ones(machine, halves, batch, pixels, parts):
    lanes = machine.lanes
    channels = tuple(count * lanes // 2 for count in halves)
    assert can_join(channels, machine)
    random = np.random.default_rng(0)
    images = [random.standard_normal((batch, c, pixels)).astype(np.float32) for c in channels]
    blocked = [to_blocks(image, lanes) for image in images]
    total = sum(channels)
    y = np.full((batch, -(-total // lanes), pixels, lanes), -7, np.float32)
    arguments = join_arguments(len(channels))()
    arguments.x, arguments.y = blocked[0].ctypes.data, y.ctypes.data
    arguments.rows, arguments.batch, arguments.parts = pixels, batch, parts
    for index, image in enumerate(blocked[1:]):
        arguments.extras[index] = image.ctypes.data
    function = cpu.load(join_kernel(channels, machine))
    for part in range(parts):
        function(ctypes.addressof(arguments), part)
    np.testing.assert_array_equal(from_blocks(y, total), np.concatenate(images, axis=1))
    np.testing.assert_array_equal(from_blocks(y, y.shape[1] * lanes)[:, total:], 0)


def test_parts_of_less_than_half_a_block_cannot_be_joined():
    assert not can_join((16, 12), AVX512)
    assert not can_join((16,), AVX512)
