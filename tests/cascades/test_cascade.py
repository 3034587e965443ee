"""`regweave.cascade`: what it takes, what it gives back, and what it says to what it cannot take."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regweave
from regweave.cascades import CompiledChain
from regweave.errors import InputError, UnsupportedError
from regweave.operators import Clip, Relu

Floats = Callable[..., np.ndarray]


@pytest.fixture
def layers(floats: Floats, isa: str) -> CompiledChain:
    """10 -> 20 -> 6 with biases and ReLU."""
    return regweave.cascade([floats(10, 20), floats(20, 6)], [floats(20), floats(6)], "relu", isa=isa)


def test_example(floats: Floats, isa: str) -> None:
    w1, w2, w3, b1, b3 = floats(10, 20), floats(20, 30), floats(30, 6), floats(20), floats(6)
    layers = regweave.cascade([w1, w2, w3], [b1, None, b3], ["relu", Clip(0, 1), None], threads=2, isa=isa)
    x = floats(33, 10)
    hidden = np.maximum(x.astype(float) @ w1 + b1, 0)
    expected = np.clip(hidden @ w2, 0, 1) @ w3 + b3
    np.testing.assert_allclose(layers(x), expected, rtol=1e-5, atol=1e-5)


def test_copies_and_pickles_are_cascades_of_their_own(layers: CompiledChain, floats: Floats) -> None:
    x = floats(7, 10)
    for other in (copy.copy(layers), copy.deepcopy(layers), pickle.loads(pickle.dumps(layers))):
        assert other is not layers
        assert repr(other) == repr(layers)
        np.testing.assert_array_equal(other(x), layers(x))


def test_weights_are_taken_once(floats: Floats, isa: str) -> None:
    weights, bias = [floats(10, 20), floats(20, 6)], floats(6)
    layers = regweave.cascade(weights, [None, bias], isa=isa)
    x = floats(5, 10)
    before = layers(x)
    weights[0][:] = bias[:] = 0
    np.testing.assert_array_equal(layers(x), before)


def test_matrix_objects_are_arrays(floats: Floats, isa: str) -> None:
    """np.matrix multiplies with *: only its memory counts."""
    w, x = floats(10, 10), floats(4, 10)
    expected = regweave.cascade([w, w], activations="silu", isa=isa)(x)
    got = regweave.cascade([w.view(np.matrix)] * 2, activations="silu", isa=isa)(x.view(np.matrix))
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, expected)


def test_leading_dimensions_are_rows(layers: CompiledChain, floats: Floats) -> None:
    x = floats(2, 3, 4, 10)
    y = layers(x)
    assert y.shape == (2, 3, 4, 6)
    np.testing.assert_array_equal(y.reshape(24, 6), layers(x.reshape(24, 10)))
    vector = layers(x[0, 0, 0])
    assert vector.shape == (6,)
    np.testing.assert_array_equal(vector, y[0, 0, 0])


def test_nothing_in_nothing_out(layers: CompiledChain, floats: Floats) -> None:
    assert layers(floats(0, 10)).shape == (0, 6)
    assert layers(floats(3, 0, 10)).shape == (3, 0, 6)
    out = np.empty((0, 6), np.float32)
    assert layers(floats(0, 10), out=out) is out


def _misaligned(x: np.ndarray) -> np.ndarray:
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    memory[...] = x
    assert not memory.flags.aligned
    return memory


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "columns of a wider array": lambda x: np.hstack([x, x])[:, : x.shape[1]],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "rows backwards": lambda x: x[::-1].copy()[::-1],
    "columns backwards": lambda x: x[:, ::-1].copy()[:, ::-1],
    "misaligned": _misaligned,
    "read-only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(layers: CompiledChain, floats: Floats, layout: str) -> None:
    x = floats(30, 10)
    given = LAYOUTS[layout](x)
    np.testing.assert_array_equal(given, x)
    np.testing.assert_array_equal(layers(given), layers(x))


def test_repeated_row(layers: CompiledChain, floats: Floats) -> None:
    row = floats(1, 10)
    y = layers(np.broadcast_to(row, (50, 10)))
    np.testing.assert_array_equal(y, np.repeat(layers(row), 50, axis=0))


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "read-only"])
def test_any_buffer(layers: CompiledChain, floats: Floats, layout: str) -> None:
    x = floats(30, 10)
    out = LAYOUTS[layout](np.zeros((30, 6), np.float32))
    assert layers(x, out=out) is out
    np.testing.assert_array_equal(out, layers(x))


def test_buffer_beside_other_data(layers: CompiledChain, floats: Floats) -> None:
    wide = np.full((30, 16), 7, np.float32)
    layers(floats(30, 10), out=wide[:, 5:11])
    assert (wide[:, :5] == 7).all()
    assert (wide[:, 11:] == 7).all()


def test_buffer_over_the_input(floats: Floats, isa: str) -> None:
    layers = regweave.cascade([floats(8, 12), floats(12, 8)], activations="relu", isa=isa)
    x = floats(70, 8)
    expected = layers(x)
    memory = np.zeros((71, 8), np.float32)
    memory[:70] = x
    layers(memory[:70], out=memory[1:])
    np.testing.assert_array_equal(memory[1:], expected)
    layers(x, out=x)
    np.testing.assert_array_equal(x, expected)


def test_nan_and_infinity(floats: Floats, isa: str) -> None:
    w1, w2 = np.abs(floats(4, 6)), np.abs(floats(6, 3))
    layers = regweave.cascade([w1, w2], activations="relu", isa=isa)
    x = np.ones((5, 4), np.float32)
    x[1, 2], x[2, 0], x[3, 1] = np.nan, np.inf, -np.inf
    y = layers(x)
    assert np.isfinite(y[[0, 4]]).all()
    assert np.isnan(y[1]).all()
    assert (y[2] == np.inf).all()
    assert (y[3] == 0).all()
    np.testing.assert_array_equal(y[0], y[4])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_in_weights(floats: Floats, isa: str, bad: float) -> None:
    w1 = np.abs(floats(4, 40))
    w1[0, 3] = bad
    y = regweave.cascade([w1, np.abs(floats(40, 3))], isa=isa)(np.ones((9, 4), np.float32))
    assert not np.isfinite(y).any()


def test_tensors(floats: Floats, isa: str) -> None:
    torch = pytest.importorskip("torch")
    w1, w2, x = floats(10, 20), floats(20, 6), floats(2, 15, 10)
    expected = regweave.cascade([w1, w2], activations="gelu", isa=isa)(x)
    layers = regweave.cascade([torch.from_numpy(w.T.copy()).T for w in (w1, w2)], None, "gelu", isa=isa)
    y = layers(torch.from_numpy(x))
    assert isinstance(y, torch.Tensor)
    np.testing.assert_array_equal(y.numpy(), expected)
    out = torch.zeros(2, 15, 6)
    assert layers(torch.from_numpy(x), out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)
    strided = torch.zeros(2, 15, 12)[:, :, ::2]
    layers(x, out=strided)
    np.testing.assert_array_equal(strided.numpy(), expected)


def test_tensors_that_cannot_be_taken(layers: CompiledChain) -> None:
    torch = pytest.importorskip("torch")
    for tensor, message in (
        (torch.zeros(3, 10, requires_grad=True), r"detach\(\)"),
        (torch.zeros(3, 10, dtype=torch.float64), "float64.*torch.float32"),
        (torch.zeros(3, 10, dtype=torch.float16), "float16"),
        (torch.zeros(3, 10, dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(3, 10, device="meta"), "meta"),
        (torch._neg_view(torch.ones(3, 10)), r"resolve_neg\(\)"),
    ):
        with pytest.raises(InputError, match=message):
            layers(tensor)


class _OnAnotherDevice:
    """What a tensor in a GPU's memory looks like."""

    device = "cuda:0"

    def __dlpack__(self, **_: Any) -> object:
        raise AssertionError("must not be asked for")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class _Liar:
    """An object whose own code fails."""

    def __dlpack__(self, **_: Any) -> object:
        raise AttributeError("lost")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class _HalfATensor:
    __dlpack__ = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (_Liar(), "_Liar cannot be shared: lost"),
        (_HalfATensor(), "_HalfATensor cannot be shared"),
        (np.zeros((3, 10)), r"float64.*astype\(numpy.float32\)"),
        (np.zeros((3, 10), ">f4"), "foreign byte order"),
        (np.zeros((3, 10), np.float16), "float16"),
        (np.zeros((3, 10), np.int32), "int32"),
        (np.zeros((3, 10), object), "object"),
        (np.zeros((3, 10), np.complex64), "complex64"),
        (np.ma.zeros((3, 10), np.float32), "masked"),
        (np.zeros((3, 9), np.float32), r"\[3, 9\].*10 columns"),
        (np.zeros((10, 3), np.float32), "10 columns"),
        (np.zeros((), np.float32), "10 columns"),
        ([[0.0] * 10], "list is not an array"),
        (None, "NoneType is not an array"),
        (_OnAnotherDevice(), r"cuda:0.*cpu\(\)"),
    ],
)
def test_inputs_that_cannot_be_taken(layers: CompiledChain, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layers(given)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((3, 7), np.float32), r"\[3, 7\].*\[3, 6\]"),
        (np.zeros((2, 6), np.float32), r"\[2, 6\]"),
        (np.zeros(18, np.float32), r"\[18\]"),
        (np.zeros((3, 6)), "float64"),
        (np.frombuffer(bytes(72), np.float32).reshape(3, 6), "read-only"),
        ([0], "list"),
    ],
)
def test_buffers_that_cannot_be_taken(layers: CompiledChain, floats: Floats, out: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layers(floats(3, 10), out=out)


W = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: regweave.cascade([W]), "1 layer: a cascade has two or more.*gemm"),
        (lambda: regweave.cascade([]), "0 layers"),
        (lambda: regweave.cascade(W), "ndarray.*list"),
        (lambda: regweave.cascade("ab"), "weights is str.*list"),
        (lambda: regweave.cascade([W, W[:3]]), r"weights\[0\] gives 4 columns but weights\[1\] takes 3"),
        (lambda: regweave.cascade([W, W[:, :2].T]), "transposed"),
        (lambda: regweave.cascade([W, W[0]]), r"weights\[1\]"),
        (lambda: regweave.cascade([W, W[:, :0]]), "neither of them 0"),
        (lambda: regweave.cascade([W, W.astype(float)]), "float64"),
        (lambda: regweave.cascade([W, W.tolist()]), "list"),
        (lambda: regweave.cascade([W, W], [W[0]]), "1 biases for 2 layers"),
        (lambda: regweave.cascade([W, W], [W[0], W[0, :3]]), r"biases\[1\].*\[4\]"),
        (lambda: regweave.cascade([W, W], W[0]), "ndarray"),
        (lambda: regweave.cascade([W, W], activations="rleu"), r"at activations\[0\].*nearest: relu"),
        (lambda: regweave.cascade([W, W], activations=np.tanh), r"at activations\[0\].*one of.*tanh"),  # type: ignore[arg-type]
        (lambda: regweave.cascade([W, W], activations=["relu", Relu]), r"activations\[1\].*like Relu\(\)"),  # type: ignore[list-item]
        (lambda: regweave.cascade([W, W], activations=b"ab"), "activations is bytes"),  # type: ignore[arg-type]
        (lambda: regweave.cascade([W, W], activations="clip:,6"), "wrong parameters ',6'"),
        (lambda: regweave.cascade([W, W], threads=np.ones(1, int)), "not a number of threads"),  # type: ignore[arg-type]
        (lambda: regweave.cascade([W, W], activations=["relu"]), "1 activations for 2 layers"),
        (lambda: regweave.cascade([W, W], threads=0), "0 threads"),
        (lambda: regweave.cascade([W, W], threads=-1), "-1 threads"),
        (lambda: regweave.cascade([W, W], threads=1.5), "1.5 is not a number"),  # type: ignore[arg-type]
        (lambda: regweave.cascade([W, W], threads=True), "True is not a number"),
        (lambda: regweave.cascade([W, W], isa="avx"), "nearest: avx2"),
    ],
)
def test_layers_that_make_no_cascade(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_an_instruction_set_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from regweave.cascades import device

    monkeypatch.setattr(device, "supports", lambda machine: False)
    with pytest.raises(UnsupportedError, match="AVX-512"):
        regweave.cascade([W, W], isa="avx512")


def test_portable_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from regweave.cascades import device

    monkeypatch.setattr(device, "_said", set())
    monkeypatch.setenv("REGWEAVE_ISA", "portable")
    with pytest.warns(RuntimeWarning, match="portable device, which is slow"):
        layers = regweave.cascade([W, W])
    assert layers.plan.device == "portable"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regweave.cascade([W, W])


def test_portable_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from regweave.cascades import device

    monkeypatch.setattr(device, "_said", set())
    monkeypatch.setattr(device, "detect", lambda: None)
    monkeypatch.delenv("REGWEAVE_ISA", raising=False)
    with pytest.warns(RuntimeWarning, match="neither AVX-512 nor AVX2"):
        layers = regweave.cascade([W, W], activations=Relu())
    np.testing.assert_array_equal(layers(W), W @ W @ W)


def test_calls_from_several_threads(floats: Floats, isa: str) -> None:
    layers = regweave.cascade([floats(32, 64), floats(64, 32)], activations="gelu", threads=2, isa=isa)
    inputs = [floats(rows, 32) for rows in (1, 50, 400, 3000)]
    expected = [layers(x) for x in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(10):
            if not np.array_equal(layers(inputs[index]), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
