"""Compiled chains against their float64 references: shapes, orders, operators, devices."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from regweave.cascades import compile_chain
from regweave.errors import InputError, UnsupportedError
from regweave.operators import (
    Chain,
    ChannelAdd,
    ChannelMul,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Silu,
    Stage,
    Tanh,
    TensorAdd,
    TensorMul,
    to_blocks,
)

Floats = Callable[..., np.ndarray]
Make = Callable[..., Chain]
OPS: tuple[Elementwise, ...] = (
    Relu(),
    LeakyRelu(0.1),
    Clip(0, 0.5),
    HardSigmoid(),
    HardSwish(),
    Sigmoid(),
    Silu(),
    Tanh(),
    Gelu(),
    Gelu("tanh"),
    MulScalar(0.5),
)
WIDTHS = (
    (1, 1, 1),
    (3, 33, 34),
    (34, 1, 17),
    (64, 64, 64, 64),
    (16, 64, 16),
    (768, 256, 128),
    (5, 7, 9, 11, 13, 15, 17),
)


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_rows(floats: Floats, make_chain: Make, isa: str, widths: tuple[int, ...]) -> None:
    chain = make_chain(widths)
    compiled = compile_chain(chain, isa=isa)
    for rows in (0, 1, 2, 6, 10, 97):
        x = floats(rows, widths[0])
        y = compiled(x)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, chain.reference(x), rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_operators(floats: Floats, make_chain: Make, isa: str, op: Elementwise) -> None:
    chain = make_chain((24, 40, 20), op)
    x = 4 * floats(50, 24)
    np.testing.assert_allclose(compile_chain(chain, isa=isa)(x), chain.reference(x), rtol=1e-5, atol=4e-6)


@pytest.mark.parametrize("pixels", [(1,), (16,), (5, 13), (64,), (200,)], ids=str)
def test_pixels(floats: Floats, make_chain: Make, isa: str, pixels: tuple[int, ...]) -> None:
    chain = make_chain((12, 20, 7), Gelu(), order="pixels")
    x = floats(3, 12, *pixels)
    y = compile_chain(chain, isa=isa)(x)
    assert y.shape == (3, 7, *pixels)
    expected = chain.reference(x.reshape(3, 12, -1)).reshape(y.shape)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=3e-6)


def test_blocks(floats: Floats, make_chain: Make, isa: str) -> None:
    chain = make_chain((20, 40, 24), Relu(), order="blocked", block=16)
    x = to_blocks(floats(2, 20, 30), 16)
    y = compile_chain(chain, isa=isa)(x)
    np.testing.assert_allclose(y, chain.reference(x), rtol=1e-5, atol=3e-6)


def _residual(floats: Floats, order: str) -> Chain:
    return Chain(
        (
            Stage(floats(8, 24) / 4, (ChannelMul(), ChannelAdd(), TensorMul()), (floats(24), floats(24), 1)),
            Stage(floats(24, 12) / 4, (TensorAdd(), Relu()), (0, None)),
        ),
        order,  # type: ignore[arg-type]
    )


def test_extra_inputs(floats: Floats, isa: str) -> None:
    chain = _residual(floats, "rows")
    compiled = compile_chain(chain, isa=isa)
    x, extras = floats(40, 8), (floats(40, 12), floats(40, 24))
    expected = chain.reference(x, extras)
    np.testing.assert_allclose(compiled(x, extras), expected, rtol=1e-5, atol=3e-6)
    nested = compiled(x.reshape(4, 10, 8), [e.reshape(4, 10, -1) for e in extras])
    np.testing.assert_allclose(nested.reshape(40, 12), expected, rtol=1e-5, atol=3e-6)
    strided = [np.repeat(extra, 2, axis=1)[:, ::2] for extra in extras]
    np.testing.assert_array_equal(compiled(x, strided), compiled(x, extras))


def test_extra_inputs_of_images(floats: Floats, isa: str) -> None:
    chain = _residual(floats, "pixels")
    compiled = compile_chain(chain, isa=isa)
    for pixels in (1, 35):
        x, extras = floats(2, 8, pixels), (floats(2, 12, pixels), floats(2, 24, pixels))
        np.testing.assert_allclose(compiled(x, extras), chain.reference(x, extras), rtol=1e-5, atol=3e-6)


def test_wrong_extra_inputs(floats: Floats, isa: str) -> None:
    compiled = compile_chain(_residual(floats, "rows"), isa=isa)
    x = floats(4, 8)
    with pytest.raises(InputError, match="0 extra inputs"):
        compiled(x)
    with pytest.raises(InputError, match=r"\[4, 24\]"):
        compiled(x, (floats(4, 12), floats(4, 23)))
    for wrong in (floats(4, 12), None, 5):
        with pytest.raises(InputError, match="expected a tuple of 2"):
            compiled(x, wrong)  # type: ignore[arg-type]


def test_images_of_one_pixel_use_the_weights_as_they_were(floats: Floats, isa: str) -> None:
    weight, x = floats(8, 8), floats(2, 8, 1)
    chain = Chain((Stage(weight), Stage(weight)), "pixels")
    compiled, expected = compile_chain(chain, isa=isa), chain.reference(x)
    weight[:] = 0
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", ["rows", "pixels"])
def test_bits_do_not_depend_on_anything_else(floats: Floats, make_chain: Make, isa: str, order: str) -> None:
    """Not on the number of rows, not on the other rows, not on threads, not on how x lies in memory."""
    chain = make_chain((40, 70, 33), Gelu(), order=order)
    one, two = compile_chain(chain, isa=isa), compile_chain(chain, threads=3, isa=isa)
    x = floats(300, 40) if order == "rows" else floats(1, 40, 300)
    pick = (lambda a, s: a[s]) if order == "rows" else (lambda a, s: a[:, :, s])
    whole = one(x)
    np.testing.assert_array_equal(whole, two(x))
    for part in (slice(0, 1), slice(7, 8), slice(5, 50), slice(299, 300), slice(100, 197)):
        np.testing.assert_array_equal(one(pick(x, part)), pick(whole, part))
        np.testing.assert_array_equal(two(pick(x, part).copy()), pick(whole, part))
    other = x.copy()
    pick(other, slice(0, 150))[...] = np.nan
    np.testing.assert_array_equal(pick(one(other), slice(150, 300)), pick(whole, slice(150, 300)))


def test_by_address(floats: Floats, make_chain: Make) -> None:
    chain = make_chain((8, 16, 4))
    compiled = compile_chain(chain)
    if compiled.native is None:
        pytest.skip("no native kernels on this processor")
    x, y = floats(50, 8), np.zeros((50, 4), np.float32)
    scratch = np.zeros(compiled.scratch_bytes(3) + 64, np.uint8)
    start = scratch.ctypes.data + -scratch.ctypes.data % 64
    arguments = compiled.bind(x.ctypes.data, y.ctypes.data, rows=50, parts=3, scratch=start)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(compiled.entry)
    for part in range(3):
        kernel(ctypes.addressof(arguments), part)
    np.testing.assert_array_equal(y, compiled(x))


def test_portable_has_no_address(floats: Floats, make_chain: Make) -> None:
    compiled = compile_chain(make_chain((8, 16, 4)), isa="portable")
    with pytest.raises(UnsupportedError, match="portable"):
        compiled.bind(0, 0, rows=1)
    assert compiled.parts(1000) == 1


def test_wrong_images(floats: Floats, make_chain: Make) -> None:
    compiled = compile_chain(make_chain((8, 16, 4), order="pixels"))
    for shape in ((2, 7, 9), (8, 9), (8,)):
        with pytest.raises(InputError, match=r"\[batch, 8, pixels"):
            compiled(floats(*shape))
    blocked = compile_chain(make_chain((8, 16, 4), order="blocked", block=16))
    with pytest.raises(InputError, match=r"\[batch, 1, pixels, 16\]"):
        blocked(floats(2, 8, 9))


def test_buffer_for_images(floats: Floats, make_chain: Make, isa: str) -> None:
    compiled = compile_chain(make_chain((8, 16, 4), order="pixels"), isa=isa)
    x = floats(2, 8, 20)
    expected = compiled(x)
    out = np.zeros((2, 4, 20), np.float32)
    assert compiled(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    strided = np.zeros((2, 4, 40), np.float32)[:, :, ::2]
    compiled(x, out=strided)
    np.testing.assert_array_equal(strided, expected)
    single = np.zeros((2, 4, 1), np.float32)
    compiled(x[:, :, :1].copy(), out=single)
    np.testing.assert_allclose(single, expected[:, :, :1], rtol=1e-6, atol=1e-7)


def test_empty_images(floats: Floats, make_chain: Make, isa: str) -> None:
    compiled = compile_chain(make_chain((8, 16, 4), order="pixels"), isa=isa)
    assert compiled(floats(0, 8, 5)).shape == (0, 4, 5)
    assert compiled(floats(2, 8, 0, 3)).shape == (2, 4, 0, 3)
