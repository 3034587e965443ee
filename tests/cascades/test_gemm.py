"""`regweave.gemm`: sizes, transposes, bias, activation, layouts, and what it refuses."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regweave
from regweave.cascades import products
from regweave.errors import InputError
from regweave.operators import Gelu

Floats = Callable[..., np.ndarray]
SIZES = [
    (1, 1, 1),
    (1, 64, 33),
    (7, 33, 34),
    (6, 5, 64),
    (13, 5, 1),
    (100, 65, 130),
    (50, 700, 65),
    (400, 3, 70),
]


def _close(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(floats: Floats, isa: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    a, b, bias = floats(m, k), floats(k, n), floats(n)
    expected = a.astype(float) @ b
    for threads in (1, 3):
        _close(regweave.gemm(a, b, threads=threads, isa=isa), expected)
        _close(regweave.gemm(a, b, bias, "gelu", threads=threads, isa=isa), Gelu().reference(expected + bias))


def test_transposes(floats: Floats, isa: str) -> None:
    a, b = floats(20, 30), floats(30, 40)
    expected = regweave.gemm(a, b, isa=isa)
    for ta, tb in ((True, False), (False, True), (True, True)):
        got = regweave.gemm(
            a.T.copy() if ta else a, b.T.copy() if tb else b, transpose_a=ta, transpose_b=tb, isa=isa
        )
        np.testing.assert_array_equal(got, expected)


def test_any_layout_of_b(floats: Floats, isa: str) -> None:
    a, b = floats(20, 30), floats(30, 70)
    expected = regweave.gemm(a, b, isa=isa)
    for given in (b[::-1].copy()[::-1], b[:, ::-1].copy()[:, ::-1], np.repeat(b, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(regweave.gemm(a, given, isa=isa), expected)
    one = np.broadcast_to(b[:, :1], (30, 70))
    np.testing.assert_array_equal(regweave.gemm(a, one, isa=isa), np.repeat(expected[:, :1], 70, axis=1))


def test_biases(floats: Floats, isa: str) -> None:
    a, b = floats(8, 5), floats(5, 70)
    plain = a.astype(float) @ b
    for shape in ((70,), (1, 70), (8, 70), (8, 1), (1,), (), (1, 1)):
        bias = floats(*shape)
        _close(regweave.gemm(a, b, bias, "relu", isa=isa), np.maximum(plain + bias, 0))
    square = floats(5, 8)  # as many rows as columns: a column is still a column
    column = floats(8, 1)
    _close(regweave.gemm(a, square, column, isa=isa), a.astype(float) @ square + column)
    with pytest.raises(InputError, match=r"\[8, 1\]"):
        regweave.gemm(a[:3], square, column, isa=isa)


def test_first_calls_from_several_threads(floats: Floats) -> None:
    """Of kernels made by several threads at once one is kept; the others stay while they are called."""
    a, b = floats(300, 64), floats(64, 64)
    wrong = []

    def work(slope: float) -> None:
        for step in range(5):
            word = f"leaky_relu:{slope + step / 100}"
            if not np.array_equal(
                regweave.gemm(a, b, None, word, threads=1), regweave.gemm(a, b, None, word)
            ):
                wrong.append(word)

    callers = [threading.Thread(target=work, args=(0.3,)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_a_kernel_lives_while_it_is_called(floats: Floats, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if isa == "portable":
        pytest.skip("no kernels on the portable device")
    loaded, alive = products.loaded_gemm, []

    def load(*key: Any) -> Any:
        function = copy.copy(loaded(*key))  # nobody else holds this one
        alive.append(weakref.ref(function))
        return function

    def run(*arguments: Any) -> None:
        alive.append(alive[0]() is not None)

    monkeypatch.setattr(products, "loaded_gemm", load)
    monkeypatch.setattr(products, "run", run)
    regweave.gemm(floats(3, 4), floats(4, 5), threads=1, isa=isa)
    assert alive[1:] == [True]


def test_leading_dimensions(floats: Floats, isa: str) -> None:
    a, b, bias = floats(2, 3, 5), floats(5, 4), floats(2, 3, 4)
    y = regweave.gemm(a, b, bias, isa=isa)
    assert y.shape == (2, 3, 4)
    _close(y, a.astype(float) @ b + bias)
    assert regweave.gemm(a[0, 0], b, isa=isa).shape == (4,)


def test_nothing(floats: Floats, isa: str) -> None:
    assert regweave.gemm(floats(0, 5), floats(5, 4), isa=isa).shape == (0, 4)
    assert regweave.gemm(floats(3, 5), floats(5, 0), isa=isa).shape == (3, 0)
    bias = floats(4)
    y = regweave.gemm(floats(3, 0), floats(0, 4), bias, "relu", isa=isa)
    np.testing.assert_array_equal(y, np.maximum(np.tile(bias, (3, 1)), 0))


def test_buffers(floats: Floats, isa: str) -> None:
    a, b = floats(40, 30), floats(30, 30)
    expected = regweave.gemm(a, b, isa=isa)
    out = np.zeros((40, 60), np.float32)
    assert regweave.gemm(a, b, out=out[:, 10:40], isa=isa).base is out
    np.testing.assert_array_equal(out[:, 10:40], expected)
    assert not out[:, :10].any()
    regweave.gemm(a, b, out=a, isa=isa)
    np.testing.assert_array_equal(a, expected)
    square = floats(30, 30)
    expected = regweave.gemm(square, square, isa=isa)
    np.testing.assert_array_equal(regweave.gemm(square, square, out=square, isa=isa), expected)


def test_bits_do_not_depend_on_anything_else(floats: Floats, isa: str) -> None:
    a, b, bias = floats(500, 130), floats(130, 90), floats(90)
    whole = regweave.gemm(a, b, bias, "silu", threads=1, isa=isa)
    np.testing.assert_array_equal(regweave.gemm(a, b, bias, "silu", threads=3, isa=isa), whole)
    for rows in (slice(0, 1), slice(3, 10), slice(100, 401)):
        got = regweave.gemm(a[rows], b, bias, "silu", threads=2, isa=isa)
        np.testing.assert_array_equal(got, whole[rows])


@pytest.mark.parametrize("size", [(5, 1), (67, 3), (70, 130), (13, 9000)], ids=str)
def test_equal_vectors_have_equal_products_wherever_they_stand(
    floats: Floats, isa: str, size: tuple[int, int]
) -> None:
    """Kernels have edges: last rows and columns of a tile, a last value of a sum, odd places in memory."""
    count, k = size
    row, column = floats(k), floats(k)
    expected = regweave.gemm(row[None], column[:, None], isa=isa)
    _close(expected, (row.astype(float) @ column)[None, None])
    for offset in (0, 1, 3):
        a, b = np.empty((2, count * k + 4), np.float32)[:, offset : offset + count * k]
        a, b = a.reshape(count, k), b.reshape(k, count)
        a[:], b[:] = row, column[:, None]
        y = regweave.gemm(a, b, isa=isa)
        np.testing.assert_array_equal(y, np.repeat(expected, count * count).reshape(count, count))


def test_nan_and_infinity(floats: Floats, isa: str) -> None:
    a, b = np.ones((4, 6), np.float32), np.abs(floats(6, 35))
    a[1, 2], a[2, 3] = np.nan, np.inf
    y = regweave.gemm(a, b, activation="relu", isa=isa)
    assert np.isnan(y[1]).all()
    assert (y[2] == np.inf).all()
    assert np.isfinite(y[[0, 3]]).all()


def test_tensors(floats: Floats) -> None:
    torch = pytest.importorskip("torch")
    a, b = floats(8, 5), floats(7, 5)
    y = regweave.gemm(torch.from_numpy(a), torch.from_numpy(b).T)
    assert isinstance(y, torch.Tensor)
    np.testing.assert_array_equal(y.numpy(), regweave.gemm(a, b, transpose_b=True))


A = np.ones((3, 4), np.float32)
B = np.ones((4, 5), np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: regweave.gemm(A, A), "a has 4 columns but b has 3 rows.*transpose_b"),
        (lambda: regweave.gemm(A, B, transpose_b=True), "a has 4 columns but b has 5 rows"),
        (lambda: regweave.gemm(A, B[:, 0]), r"b\[:, None\]"),
        (lambda: regweave.gemm(A, B[None]), r"\[1, 4, 5\]"),
        (lambda: regweave.gemm(A[None], B, transpose_a=True), r"\[1, 3, 4\].*\[K, M\]"),
        (lambda: regweave.gemm(A[0, 0], B), "not an array|no columns"),
        (lambda: regweave.gemm(A.astype(float), B), "float64.*at a|float64"),
        (lambda: regweave.gemm(A, B.astype(np.float16)), "float16"),
        (lambda: regweave.gemm(A, B, np.ones(4, np.float32)), r"\[4\].*\[5\]"),
        (lambda: regweave.gemm(A, B, np.ones((2, 5), np.float32)), r"\[2, 5\]"),
        (lambda: regweave.gemm(A, B, np.ones(5)), "float64"),
        (lambda: regweave.gemm(A, B, activation="tahn"), "nearest: tanh"),
        (lambda: regweave.gemm(A, B, threads=0), "0 threads"),
        (lambda: regweave.gemm(A, B, out=np.zeros((3, 4), np.float32)), r"\[3, 4\].*\[3, 5\]"),
        (lambda: regweave.gemm(A, None), "NoneType"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
