"""The GEMM kernel, sizes at run time, against float64; packing of any strides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regweave.errors import UnsupportedError
from regweave.kernels import gemm_kernel, gemm_packing
from regweave.machines.x86 import AVX2, AVX512
from regweave.operators import ChannelAdd, Gelu, MulScalar, Relu, TensorAdd

SIZES = (
    (0, 3, 5), (1, 1, 1), (5, 3, 0), (2, 17, 33), (7, 5, 64), (13, 64, 130), (100, 33, 200), (340, 20, 70),
    (1, 50, 1000), (3, 9, 129), (10, 600, 40),
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("at", ["start", "end"])
def test_sizes(kernels, random, size: tuple[int, int, int], at: str) -> None:
    m, k, n = size
    a, b = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
    exact = a.astype(float) @ b
    whole = kernels.gemm(a, b, at=at)
    np.testing.assert_allclose(whole, exact, rtol=1e-4, atol=1e-4)
    for parts in (2, 5):
        assert np.array_equal(kernels.gemm(a, b, parts=parts, at=at), whole)
    assert np.array_equal(kernels.gemm(a, np.asfortranarray(b), at=at), whole)


def test_epilogues(kernels, random) -> None:
    a, b = random.standard_normal((19, 30), np.float32), random.standard_normal((30, 75), np.float32)
    bias, addend = random.standard_normal(75, np.float32), random.standard_normal((19, 75), np.float32)
    exact = a.astype(float) @ b
    got = kernels.gemm(a, b, (ChannelAdd(), Relu()), (bias,))
    np.testing.assert_allclose(got, np.maximum(exact + bias, 0), rtol=1e-4, atol=1e-4)
    got = kernels.gemm(a, b, (MulScalar(0.5), ChannelAdd(), TensorAdd()), (bias,), (addend,), parts=2)
    np.testing.assert_allclose(got, 0.5 * exact + bias + addend, rtol=1e-4, atol=1e-4)
    got = kernels.gemm(a, b, (ChannelAdd(), Gelu()), (bias,))
    np.testing.assert_allclose(got, Gelu().reference(exact + bias), rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(0, 30),
    k=st.integers(1, 40),
    n=st.integers(0, 150),
    parts=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_any_size(all_kernels, m: int, k: int, n: int, parts: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
    for kernels in all_kernels:
        got = kernels.gemm(a, b, parts=parts)
        np.testing.assert_allclose(got, a.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_packed_form(kernels) -> None:
    """Panels follow each other, K rows and one row per operand each, zeros behind the last column."""
    columns = {"avx512": 64, "avx2": 16}[kernels.machine.name]
    b = np.arange(1, 2 * (columns + 1) + 1, dtype=np.float32).reshape(2, -1)
    bias = -np.arange(1, columns + 2, dtype=np.float32)
    size, shares = gemm_packing(b, (bias,), kernels.machine)
    packed = np.full(size // 4, np.nan, np.float32)
    kernels.pack(shares[0], packed.ctypes.data)
    first, second = packed.reshape(2, 3, columns)
    assert np.array_equal(first, np.vstack([b, bias])[:, :columns])
    assert np.array_equal(second[:, 0], [b[0, -1], b[1, -1], bias[-1]])
    assert not second[:, 1:].any()


def test_too_many_extras() -> None:
    with pytest.raises(UnsupportedError, match="too many extra tensors"):
        gemm_kernel((TensorAdd(),) * 5, AVX512)


def test_one_kernel_per_epilogue() -> None:
    assert gemm_kernel((Relu(),), AVX2) is gemm_kernel((Relu(),), AVX2)
