"""Calls that repeat the one before on other memory: what is taken over from it, and what must not be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from regweave.cascades import compile_chain
from regweave.cascades.arrays import address_of
from regweave.cascades.compiled import CompiledChain
from regweave.cascades.native import NativeChain
from regweave.cascades.running import LINE, STREAM_BYTES, _Workspace, job_parts
from regweave.errors import InputError
from regweave.kernels import STREAM
from regweave.machines.x86 import AVX2, supports
from regweave.operators import Chain

Floats = Callable[..., np.ndarray]
Make = Callable[..., Chain]
SHAPES = {"rows": (50, 20), "pixels": (2, 20, 5, 7), "blocked": (2, 2, 35, 16)}


@pytest.fixture
def compiled(make_chain: Make, isa: str) -> CompiledChain:
    """A chain that has been called once, on [50, 20] into [50, 17]."""
    compiled = compile_chain(make_chain((20, 33, 17)), threads=2, isa=isa)
    compiled(np.zeros((50, 20), np.float32), out=np.empty((50, 17), np.float32))
    return compiled


@pytest.mark.parametrize("order", SHAPES)
def test_same_as_the_first_call(floats: Floats, make_chain: Make, isa: str, order: str) -> None:
    block = 16 if order == "blocked" else 0
    compiled = compile_chain(make_chain((20, 33, 17), order=order, block=block), threads=2, isa=isa)
    for _ in range(3):
        x = floats(*SHAPES[order])
        expected = compiled(x)
        out = np.full(expected.shape, np.nan, np.float32)
        assert compiled(x, out=out) is out
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("kind", ["read-only", "every second row", "columns first", "misaligned"])
def test_other_layouts(compiled: CompiledChain, floats: Floats, kind: str) -> None:
    x, out = floats(50, 20), np.empty((50, 17), np.float32)
    expected = compiled(x)
    if kind == "read-only":
        given = x.copy()
        given.flags.writeable = False
    elif kind == "every second row":
        given = np.repeat(x, 2, axis=0)[::2]
    elif kind == "columns first":
        given = np.asfortranarray(x)
    else:
        given = np.frombuffer(bytearray(x.nbytes + 1), np.float32, x.size, 1).reshape(x.shape)
        given[...] = x
    assert np.array_equal(compiled(given, out=out), expected)
    rows = np.zeros((100, 17), np.float32)
    assert np.array_equal(compiled(x, out=rows[::2]), expected)
    assert not rows[1::2].any()


def test_other_shapes(compiled: CompiledChain, floats: Floats) -> None:
    for shape in ((7, 20), (50, 20), (5, 10, 20), (20,), (0, 20), (50, 20)):
        x = floats(*shape)
        out = np.empty((*shape[:-1], 17), np.float32)
        assert np.array_equal(compiled(x, out=out), compiled(x))


def test_output_over_the_input(compiled: CompiledChain, floats: Floats) -> None:
    memory = floats(50 * 20 + 100)
    x = memory[: 50 * 20].reshape(50, 20)
    expected = compiled(x.copy())
    out = memory[100 : 100 + 50 * 17].reshape(50, 17)
    assert np.array_equal(compiled(x, out=out), expected)


def test_checks_are_those_of_the_first_call(compiled: CompiledChain, floats: Floats) -> None:
    x, out = floats(50, 20), np.empty((50, 17), np.float32)
    for wrong in (x.astype(np.float64), x.astype(">f4"), x.view(np.int32), x[:, :19], x.tolist()):
        with pytest.raises(InputError):
            compiled(wrong, out=out)
    for wrong in (out.astype(np.float64), out[:40]):
        with pytest.raises(InputError):
            compiled(x, out=wrong)
    out.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        compiled(x, out=out)


def test_parts_are_few_unless_they_are_long() -> None:
    assert job_parts(1e12, 1) == 1
    assert job_parts(1e6, 2) == 1
    assert job_parts(4e8, 2) == 8
    assert job_parts(4e8, 3) == 12
    assert job_parts(1e12, 2) == 32
    assert job_parts(1e12, 2, most=9) == 8
    assert job_parts(1e12, 3, most=2) == 3


def test_an_array_starts_where_numpy_says():
    base = np.arange(40, dtype=np.float32)
    for array in (
        base,
        base[3:],
        base[::-1],
        base.reshape(5, 8).T[1:, 2:],
        np.zeros((0, 3)),
        np.float64(3)[()] * base,
    ):
        assert address_of(array) == array.ctypes.data
    read_only = base[1:]
    read_only.flags.writeable = False
    assert address_of(read_only) == base.ctypes.data + 4


@pytest.mark.skipif(not supports(AVX2), reason="this processor has no AVX2")
@pytest.mark.parametrize(
    ("start", "pitch", "size", "flags"),
    [(0, 64, STREAM_BYTES, STREAM), (32, 64, STREAM_BYTES, 0), (0, 96, STREAM_BYTES, 0), (0, 64, LINE, 0)],
)
def test_only_whole_lines_go_past_the_caches(
    make_chain: Make, start: int, pitch: int, size: int, flags: int
) -> None:
    """Vectors of AVX2 are half a line."""
    workspace = _Workspace(NativeChain(make_chain((20, 33, 16)), AVX2), 1)
    workspace.arguments.y_pitch = pitch
    workspace.fill(0, 1 << 20 | start, size)
    assert workspace.arguments.flags == flags
