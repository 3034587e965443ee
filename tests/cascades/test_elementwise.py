"""Compiled element-wise runs against their float64 references."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from regweave.cascades import CompiledRun, compile_elementwise
from regweave.errors import InputError, UnsupportedError
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    ElementwiseRun,
    Gelu,
    HardSwish,
    MulScalar,
    Relu,
    Tanh,
    TensorAdd,
    TensorMul,
)

Floats = Callable[..., np.ndarray]


def _close(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (17,), (3, 5, 7), (40_000,), (0, 4)], ids=str)
def test_without_channels(floats: Floats, isa: str, shape: tuple[int, ...]) -> None:
    run = ElementwiseRun(
        (MulScalar(2), AddScalar(0.5), TensorAdd(), HardSwish(), TensorMul()), (None, None, 0, None, 1)
    )
    x, extras = floats(*shape), (floats(*shape), floats(*shape))
    x, extras = np.asarray(x, np.float32), [np.asarray(extra, np.float32) for extra in extras]
    for threads in (1, 2):
        y = compile_elementwise(run, threads=threads, isa=isa)(x, extras)
        assert y.shape == shape
        _close(y, run.reference(x, extras))


@pytest.mark.parametrize("channels", [1, 16, 33])
def test_channels(floats: Floats, isa: str, channels: int) -> None:
    operands = (floats(channels), floats(channels), None, 0)
    ops = (ChannelMul(), ChannelAdd(), Gelu(), TensorAdd())
    last = ElementwiseRun(ops, operands)
    x, extra = floats(2, 9, channels), floats(2, 9, channels)
    _close(compile_elementwise(last, threads=2, isa=isa)(x, (extra,)), last.reference(x, (extra,)))
    first = ElementwiseRun(ops, operands, "first")
    x, extra = floats(2, channels, 5, 21), floats(2, channels, 5, 21)
    expected = first.reference(x.reshape(2, channels, -1), (extra.reshape(2, channels, -1),))
    _close(compile_elementwise(first, isa=isa)(x, (extra,)), expected.reshape(x.shape))


def test_in_place_and_into_buffers(floats: Floats, isa: str) -> None:
    compiled = compile_elementwise(ElementwiseRun((Tanh(),)), isa=isa)
    x = floats(7, 50)
    expected = compiled(x)
    strided = np.zeros((7, 100), np.float32)[:, ::2]
    assert compiled(x, out=strided) is strided
    np.testing.assert_array_equal(strided, expected)
    np.testing.assert_array_equal(compiled(x.T), expected.T)
    compiled(x, out=x)
    np.testing.assert_array_equal(x, expected)


def test_by_address(floats: Floats) -> None:
    compiled = compile_elementwise(ElementwiseRun((Relu(), TensorAdd()), (None, 0)))
    if compiled.device == "portable":
        pytest.skip("no native kernels on this processor")
    x, extra, y = floats(100), floats(100), np.zeros(100, np.float32)
    arguments = compiled.bind(x.ctypes.data, y.ctypes.data, (extra.ctypes.data,), rows=100, parts=2)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(compiled.entry)
    for part in range(2):
        kernel(ctypes.addressof(arguments), part)
    np.testing.assert_array_equal(y, compiled(x, (extra,)))


def test_what_does_not_fit(floats: Floats, isa: str) -> None:
    compiled = compile_elementwise(ElementwiseRun((ChannelAdd(), TensorAdd()), (floats(4), 0)), isa=isa)
    assert isinstance(compiled, CompiledRun)
    with pytest.raises(InputError, match=r"\[..., 4\]"):
        compiled(floats(3, 5), (floats(3, 5),))
    with pytest.raises(InputError, match="0 extra inputs"):
        compiled(floats(3, 4))
    with pytest.raises(InputError, match=r"extras\[0\]"):
        compiled(floats(3, 4), (floats(4),))
    first = compile_elementwise(ElementwiseRun((ChannelAdd(),), (floats(4),), "first"), isa=isa)
    with pytest.raises(InputError, match=r"\[batch, 4, ...\]"):
        first(floats(3, 5, 4))
    if isa == "portable":
        with pytest.raises(UnsupportedError, match="portable"):
            compiled.bind(0, 0, rows=1)
