"""Kernels between convolutions: nearest neighbours and windows' maxima, of planes that stand anywhere."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels.planes.kernel import can_run, plane_kernel
from regweave.kernels.planes.loops import PlaneArguments
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import EnlargedTaps, Largest, PixelShuffle, Repeat

MACHINES = [machine for machine in (AVX512, AVX2) if supports(machine)]
pytestmark = pytest.mark.skipif(not MACHINES, reason="this processor runs no native kernels")


def run(work, machine, x: np.ndarray, parts: int = 1, addend: np.ndarray | None = None) -> np.ndarray:
    """The kernel on an image whose planes have room between them; what is in the room must stay."""
    batch, planes, height, width = x.shape
    made = planes // work.side**2 if isinstance(work, (PixelShuffle, EnlargedTaps)) else planes
    rows, columns = work.size(height, width)
    y = np.full((batch, made + 1, max(rows, 0) * max(columns, 0) + 5), 7, np.float32)
    room = np.full((batch, planes, height * width + 3), np.nan, np.float32)
    room[:, :, : height * width] = x.reshape(batch, planes, -1)
    arguments = PlaneArguments(
        room.ctypes.data, y.ctypes.data, batch, made, height, width,
        room.strides[1], y.strides[1], room.strides[0], y.strides[0], parts,
    )  # fmt: skip
    if addend is not None:
        arguments.addend = addend.ctypes.data
        arguments.addend_image, arguments.addend_plane = addend.strides[:2]
    kernel = cpu.load(plane_kernel(work, machine))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(kernel.address)
    for part in range(parts):
        call(ctypes.addressof(arguments), part)
    count = max(rows, 0) * max(columns, 0)
    assert (y[:, made] == 7).all()
    assert (y[:, :, count:] == 7).all()
    return y[:, :made, :count].reshape(batch, made, max(rows, 0), max(columns, 0))


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize("factors", [(1, 1), (2, 2), (3, 1), (1, 4), (8, 8), (2, 4)])
def test_every_pixel_is_repeated(machine, factors):
    work = Repeat(*factors)
    assert can_run(work, machine)
    for shape in ((1, 3, 5, 7), (2, 2, 1, 1), (1, 1, 2, 16), (1, 5, 3, 33), (2, 1, 4, 64)):
        x = image(*shape)
        np.testing.assert_array_equal(work.reference(x)[..., 0, 0], x[..., 0, 0])
        for parts in (1, 2, 3):
            np.testing.assert_array_equal(run(work, machine, x, parts), work.reference(x))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize("side", [1, 2, 4])
def test_pixels_of_several_planes_move_apart(machine, side):
    work = PixelShuffle(side)
    assert can_run(work, machine)
    assert not can_run(PixelShuffle(3), machine)
    for channels, height, width in ((3, 5, 7), (1, 1, 1), (2, 2, 16), (1, 3, 33), (1, 4, 64)):
        x = image(2, channels * side * side, height, width)
        x[0, 0, 0, 0] = np.nan  # none of its neighbours becomes one
        expected = work.reference(x)
        assert expected.shape == (2, channels, *work.size(height, width))
        for column in range(side):
            np.testing.assert_array_equal(expected[:, 0, 0, column::side], x[:, column, 0])
        for parts in (1, 2):
            np.testing.assert_array_equal(run(work, machine, x, parts), expected)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize(("scale", "side"), [(2, 3), (4, 3), (8, 3), (2, 5), (4, 5)])
def test_taps_of_an_enlarged_image_are_added_up(machine, scale, side):
    work = EnlargedTaps(scale, side)
    assert can_run(work, machine)
    x = image(1, side * side, 3, 4)
    full = x.repeat(scale, axis=2).repeat(scale, axis=3)
    row, column, reach = 2 * scale - 1, scale, side // 2
    window = full[0, :, row - reach : row + reach + 1, column - reach : column + reach + 1]
    taps = sum(window[side * i + j, i, j] for i in range(side) for j in range(side))
    np.testing.assert_allclose(work.reference(x)[0, 0, row, column], taps, rtol=1e-5, atol=1e-6)
    for count, height, width in ((3, 5, 7), (1, 1, 1), (2, 2, 16), (1, 3, 33), (1, 4, 64), (1, 1, 49)):
        x = image(2, count * side * side, height, width)
        addend = image(2, count, height * scale, width * scale)
        x[0, 0, 0, 0] = np.nan
        for parts in (1, 2):
            expected = work.reference(x)
            np.testing.assert_allclose(run(work, machine, x, parts), expected, rtol=1e-5, atol=1e-5)
            work_with_more = EnlargedTaps(scale, side, added=True, positive=True)
            expected = np.maximum(expected + addend, 0)
            found = run(work_with_more, machine, x, parts, addend)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("kernel", "pads"),
    [
        ((2, 2), (0, 0, 1, 1)), ((2, 2), (1, 1, 0, 0)), ((3, 3), (1, 1, 1, 1)), ((3, 5), (2, 4, 2, 4)),
        ((1, 7), (0, 3, 0, 2)), ((3, 1), (0, 0, 0, 0)), ((1, 1), (0, 0, 0, 0)), ((2, 3), (0, 0, 0, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (2, 2), (4, 2), (1, 4)])
def test_the_largest_of_a_window_at_any_size(machine, kernel, pads, strides):
    if strides[1] == 4:
        kernel, pads = (kernel[0], 4), (pads[0], min(pads[1], 3), pads[2], min(pads[3], 3))
    work = Largest(kernel, pads, strides)
    assert can_run(work, machine) == (strides[1] != 2 or kernel[1] in (2, 3))
    if not can_run(work, machine):
        return
    for shape in ((1, 2, 3, 5), (2, 3, 6, 16), (1, 1, 4, 40), (1, 2, 9, 17), (1, 4, 3, 70)):
        x = image(*shape) - 5  # below zero, which must not come from outside
        np.testing.assert_array_equal(run(work, machine, x, 2), work.reference(x))
    # an image that is smaller than the window, where padding makes up for it
    if min(work.size(1, 1)) >= 1:
        x = image(1, 2, 1, 1) - 5
        np.testing.assert_array_equal(run(work, machine, x), work.reference(x))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_an_image_too_small_for_a_window_gives_nothing(machine):
    assert run(Largest((3, 3), (0, 0, 0, 0)), machine, image(1, 2, 2, 5)).size == 0
    assert run(Largest((2, 3), (0, 0, 1, 0)), machine, image(1, 2, 3, 2)).size == 0


def test_what_has_no_kernel():
    machine = MACHINES[0]
    assert not can_run(Repeat(2, 3), machine)
    assert not can_run(Repeat(2, 2 * machine.lanes), machine)
    for work in (EnlargedTaps(3, 3), EnlargedTaps(2, 7), EnlargedTaps(2, 2), EnlargedTaps(1, 3)):
        assert not can_run(work, machine)
    for work in (Largest((4, 2), (0, 0, 0, 0)), Largest((2, 2), (2, 0, 0, 0)), Largest((2, 8), (0, 0, 0, 0))):
        assert not can_run(work, machine)
    for strides in ((3, 1), (1, 3), (8, 2), (0, 1)):
        assert not can_run(Largest((2, 2), strides=strides), machine)
