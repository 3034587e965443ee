"""Images from planes to blocks and back: every pixel and channel in its place, nothing beside it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.assembly import Builder
from regweave.devices import cpu
from regweave.kernels.blocks.reorders import reorder_arguments, reorder_kernel, transposed
from regweave.machines.x86 import AVX2, AVX512, supports

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="no native kernels on this machine")
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)


def moved(machine, channels: int, to_blocks: bool, x: np.ndarray, size: int, pixels: int, parts: int):
    """`size` elements and some that must stay 7, in any order of the parts."""
    function = cpu.load_made(
        lambda: reorder_kernel(channels, machine, to_blocks), f"reorder {channels} {to_blocks}", machine
    )
    y = np.full(size + 40, 7, np.float32)
    arguments = reorder_arguments()(x=x.ctypes.data, y=y.ctypes.data, rows=pixels, batch=len(x), parts=parts)
    for part in reversed(range(parts)):
        KERNEL(function.address)(ctypes.addressof(arguments), part)
    assert (y[size:] == 7).all()
    return y[:size]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("channels", [1, 3, 8, 16, 24, 35])
def test_planes_become_blocks_and_planes_again(machine, channels):
    lanes = machine.lanes
    blocks = -(-channels // lanes)
    for batch, pixels, parts in (
        (1, 1, 1),
        (2, lanes - 1, 2),
        (3, lanes + 1, 2),
        (2, 5 * lanes, 3),
        (1, 61, 9),
    ):
        x = np.random.default_rng(pixels).standard_normal((batch, channels, pixels)).astype(np.float32)
        x[0, 0, 0], x[-1, -1, -1] = np.nan, np.inf
        padded = np.zeros((batch, blocks * lanes, pixels), np.float32)
        padded[:, :channels] = x
        right = np.ascontiguousarray(padded.reshape(batch, blocks, lanes, pixels).transpose(0, 1, 3, 2))
        found = moved(machine, channels, True, x, right.size, pixels, parts)
        np.testing.assert_array_equal(found.reshape(right.shape), right)
        back = moved(machine, channels, False, right, x.size, pixels, parts)
        np.testing.assert_array_equal(back.reshape(x.shape), x)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_square_of_lanes_is_turned(machine):
    lanes, size = machine.lanes, machine.vector_bytes
    b = Builder(machine, name="turn", arguments=("to", "from"))
    rows = b.vectors("row", lanes)
    for index, row in enumerate(rows):
        b.emit("load", row, b.at("from", index * size))
    for index, row in enumerate(transposed(b, rows)):
        b.emit("store", b.at("to", index * size), row)
    b.emit("return")
    listing = b.finish()
    function = cpu.load_made(lambda: listing, f"turn {lanes}", machine)
    x = np.arange(lanes * lanes, dtype=np.float32).reshape(lanes, lanes)
    y = np.empty_like(x)
    KERNEL(function.address)(y.ctypes.data, x.ctypes.data)
    np.testing.assert_array_equal(y, x.T)
