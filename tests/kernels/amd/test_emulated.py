"""Products of blocks in the emulator: every machine and type, sizes that no tile divides, NumPy's results."""

import numpy as np
import pytest

from regweave import UnsupportedError
from regweave.devices import emulator
from regweave.images.gpu import product_arguments
from regweave.kernels.amd import block_product, product_kernel

TYPES = {"f32": np.float32, "f16": np.float16, "i8": np.int8}
# wide and narrow; one element, one word more or less than a block, several blocks and workgroups
SIZES = [(128, 128, 64), (130, 150, 37), (200, 3, 3), (1, 1, 1), (300, 17, 100)]


def matrix(rng, rows, depth, dtype):
    """Rows of whole words, in memory of their own, zeros behind the elements."""
    elements = 4 // np.dtype(dtype).itemsize
    found = np.zeros((rows, -(-depth // elements) * elements), dtype)
    if dtype == np.int8:
        found[:, :depth] = rng.integers(-128, 128, (rows, depth))
    else:
        found[:, :depth] = rng.normal(size=(rows, depth))
    return found


def check(rng, machine, dtype, m, n, depth):
    """One product against NumPy's."""
    product = block_product(machine, dtype, columns=n)
    a, b = matrix(rng, m, depth, TYPES[dtype]), matrix(rng, n, depth, TYPES[dtype])
    c = np.zeros((m, n), np.int32 if dtype == "i8" else np.float32)
    grid = (-(-m // product.rows), -(-n // product.columns), 1)
    run = emulator.run(
        product_kernel(product), grid=grid, arguments=product_arguments(a, b, c), unwritten=["c"]
    )
    assert run.unwritten["c"] == 0
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    if dtype == "i8":
        np.testing.assert_array_equal(c, exact)
    else:
        # each of the sum's roundings is half a unit of what was added up so far, at most
        size = np.abs(a.astype(np.float64)) @ np.abs(b.T.astype(np.float64))
        assert (np.abs(c - exact) <= depth * 2.0**-24 * size + 1e-30).all()


@pytest.mark.parametrize("machine", ["gfx906", "gfx90a", "gfx942"])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_products_are_numpys(machine, dtype):
    rng = np.random.default_rng(1)
    for m, n, depth in SIZES:
        check(rng, machine, dtype, m, n, depth)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["gfx906", "gfx90a", "gfx942"])
@pytest.mark.parametrize("dtype", TYPES)
def test_random_sizes(machine, dtype):
    rng = np.random.default_rng(11)
    for _ in range(25):
        m, n, depth = (int(rng.integers(1, most)) for most in (300, 200, 150))
        check(rng, machine, dtype, m, n, depth)


def test_rows_may_lie_apart_and_neighbours_are_not_touched():
    rng = np.random.default_rng(2)
    a, b = matrix(rng, 130, 5, np.float32), matrix(rng, 3, 5, np.float32)
    wide = np.full((130, 9), -1, np.float32)
    wide[:, :5] = a
    wide[:, 5:] = np.nan  # what stands between the rows of A is not read
    c = np.full((130, 8), 7, np.float32)
    product = block_product("gfx906", "f32", columns=3)
    arguments = {
        **product_arguments(a, b, np.zeros((130, 3), np.float32)),
        "a": wide,
        "a_pitch": wide.strides[0],
        "c": c,
        "c_pitch": c.strides[0],
    }
    emulator.run(product_kernel(product), grid=2, arguments=arguments)
    np.testing.assert_allclose(c[:, :3], a @ b.T, rtol=1e-5, atol=1e-5)
    assert (c[:, 3:] == 7).all()


def test_rows_that_are_too_long():
    long = np.zeros((1, 2 << 20), np.float32)
    with pytest.raises(UnsupportedError, match="at most 4194304 bytes"):
        product_arguments(long, long, np.zeros((1, 1), np.float32))
