"""Pixels times small matrices: every number of channels and type, on the processors that this one can be."""

import ctypes

import numpy as np
import pytest

from regweave import UnsupportedError
from regweave.devices import cpu
from regweave.kernels.colours.kernel import colour_kernel
from regweave.kernels.colours.structure import ColourArguments, Colours
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.machines.x86.machine import AVX512_VBMI

TYPES = {"u8": np.uint8, "u16": np.uint16, "f32": np.float32}
PIXELS = 96


def run(colours, machine, source, matrix):
    target = np.zeros((PIXELS, colours.results), TYPES[colours.target])
    kernel = cpu.load(colour_kernel(colours, machine))
    arguments = ColourArguments(
        source.ctypes.data, target.ctypes.data, matrix.ctypes.data, PIXELS // colours.pixels(machine)
    )
    kernel(ctypes.addressof(arguments))
    return target


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda m: m.name)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("results", [1, 2, 3, 4])
def test_the_products_are_numpys(machine, channels, results):
    if not supports(machine):
        pytest.skip(f"this processor has no {machine.name}")
    rng = np.random.default_rng(channels * 7 + results)
    for source, target in (("u8", "u8"), ("u8", "f32"), ("u16", "u16"), ("f32", "f32")):
        pixels = (rng.random((PIXELS, channels)) * (65535 if source == "u16" else 255)).astype(TYPES[source])
        # eighths, so that nothing is rounded but the result
        matrix = rng.integers(-8, 9, (results, channels + 1)).astype(np.float32) / 8
        exact = pixels.astype(np.float64) @ matrix[:, :-1].T.astype(np.float64) + matrix[:, -1]
        got = run(Colours(channels, results, source, target), machine, pixels, matrix)
        if target == "f32":
            np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-4)
            continue
        wanted = np.clip(np.rint(exact), 0, np.iinfo(TYPES[target]).max)
        np.testing.assert_array_equal(got, wanted)
        bounded = Colours(channels, results, source, target, bounded=True)
        np.testing.assert_array_equal(run(bounded, machine, pixels, matrix), wanted)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda m: m.name)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", TYPES)
def test_planes_and_back(machine, channels, dtype):
    if not supports(machine):
        pytest.skip(f"this processor has no {machine.name}")
    rng = np.random.default_rng(channels)
    pixels = (rng.random((PIXELS, channels)) * 255).astype(TYPES[dtype])
    planes = np.zeros((channels, 2, PIXELS), np.float32)
    back = np.zeros_like(pixels)
    tiles, step = PIXELS // machine.lanes, planes.strides[0]
    apart = Colours(channels, channels, dtype, "f32", target_planes=True, matrix=False)
    arguments = ColourArguments(pixels.ctypes.data, planes.ctypes.data, 0, tiles, 0, step)
    cpu.load(colour_kernel(apart, machine))(ctypes.addressof(arguments))
    np.testing.assert_array_equal(planes[:, 0], pixels.T)
    assert (planes[:, 1] == 0).all()
    together = Colours(channels, channels, "f32", dtype, source_planes=True, matrix=False)
    arguments = ColourArguments(planes.ctypes.data, back.ctypes.data, 0, tiles, step, 0)
    cpu.load(colour_kernel(together, machine))(ctypes.addressof(arguments))
    np.testing.assert_array_equal(back, pixels)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda m: m.name)
@pytest.mark.parametrize("target", ["u8", "u16"])
def test_numbers_that_are_no_colours(machine, target):
    if not supports(machine):
        pytest.skip(f"this processor has no {machine.name}")
    pixels = np.zeros((PIXELS, 1), np.float32)
    pixels[:6, 0] = np.nan, np.inf, -np.inf, 3e9, -3e9, 7.5
    got = run(Colours(1, 1, "f32", target), machine, pixels, np.array([[1, 0]], np.float32))
    most = np.iinfo(TYPES[target]).max
    assert got[:6, 0].tolist() == [0, most, 0, most, 0, 8]


def test_other_machines_have_none():
    with pytest.raises(UnsupportedError, match="no colour kernels for machine 'avx512_vbmi'"):
        colour_kernel(Colours(3, 3, "u8", "u8"), AVX512_VBMI)
