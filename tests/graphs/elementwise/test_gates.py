"""Activations written out in several nodes, in every order that exporters write them."""

import math

import numpy as np
import pytest
from graph_checks import chains_of, normal, parse, verify_piece, verify_pieces

from regweave.graphs import find_pieces, read_model
from regweave.graphs.elementwise.activations import match
from regweave.graphs.elementwise.polynomials import Atom, Polynomial
from regweave.operators import (
    AddScalar,
    Clip,
    Gelu,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Silu,
    Tanh,
    TensorAdd,
)

NUMBERS = {
    "half": 0.5,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "six": 6.0,
    "zero": 0.0,
    "root": math.sqrt(2.0),
    "inverse": math.sqrt(0.5),
    "sixth": 1 / 6,
    "cubic": 0.044715,
    "inner": math.sqrt(2 / math.pi),
    "double": 2 * math.sqrt(2 / math.pi),
    "quick": 1.702,
    "odd": 0.4,
}

ERF = [
    "d = Div(t, root) e = Erf(d) a = Add(e, one) m = Mul(t, a) u = Mul(m, half)",
    "d = Mul(t, inverse) e = Erf(d) a = Add(one, e) m = Mul(a, t) u = Mul(half, m)",
    "h = Mul(t, half) d = Div(t, root) e = Erf(d) a = Add(e, one) u = Mul(h, a)",
    "d = Div(t, root) e = Erf(d) a = Add(e, one) h = Mul(half, a) u = Mul(t, h)",
    "d = Div(t, root) e = Erf(d) s = Mul(e, half) a = Add(half, s) u = Mul(t, a)",
    "d = Div(t, root) e = Erf(d) h = Mul(t, half) p = Mul(h, e) u = Add(p, h)",
    "d = Mul(inverse, t) i = Identity(d) e = Erf(i) a = Add(e, one) m = Mul(t, a) u = Div(m, two)",
]
CUBE = [
    "c = Pow(t, three)",
    "q = Mul(t, t) c = Mul(q, t)",
    "q = Mul(t, t) c = Mul(t, q)",
    "q = Pow(t, two) c = Mul(t, q)",
]
TANH = [
    "k=Mul(c, cubic) s=Add(t, k) i=Mul(s, inner) e=Tanh(i) a=Add(e, one) m=Mul(t, a) u=Mul(half, m)",
    "k=Mul(cubic, c) s=Add(k, t) i=Mul(inner, s) e=Tanh(i) a=Add(one, e) h=Mul(t, half) u=Mul(h, a)",
    "k = Mul(c, cubic) s = Add(t, k) i = Mul(s, double) e = Sigmoid(i) u = Mul(t, e)",
]
HARD = [
    "a = Add(t, three) c = Clip(a, zero, six) m = Mul(t, c) u = Div(m, six)",
    "a = Add(three, t) c = Clip(a, zero, six) d = Div(c, six) u = Mul(t, d)",
    "a = Add(t, three) c = Clip(a, zero, six) m = Mul(c, t) u = Mul(m, sixth)",
    "a = Add(t, three) r = Relu(a) c = Min(r, six) m = Mul(t, c) u = Div(m, six)",
    "h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(t) u = Mul(t, h)",
    "h = HardSigmoid<alpha = 0.1666667>(t) u = Mul(h, t)",
    "a = Div(t, six) b = Add(a, half) c = Clip(b, zero, one) u = Mul(t, c)",
]
SILU = [
    "s = Sigmoid(t) u = Mul(t, s)",
    "s = Sigmoid(t) u = Mul(s, t)",
    "i = Identity(t) s = Sigmoid(i) u = Mul(i, s)",
]


def model_of(body, behind=""):
    """MatMul, `body` from t to u, MatMul."""
    text = f"g (float[N, 3] x) => (float[N, 5] y) {{ t = MatMul(x, v) {body} {behind} y = MatMul(u, w) }}"
    used = {
        name: np.float32(value)
        for name, value in NUMBERS.items()
        if f" {name})" in text or f"({name}," in text
    }
    used |= {name: np.float32(NUMBERS[name]) for name in NUMBERS if f" {name}," in text}
    return read_model(parse(text, weights={"v": normal(3, 4, scale=2), "w": normal(4, 5), **used}))


def epilogue(body):
    model = model_of(body)
    (chain,) = chains_of(model)
    assert len(chain.gemm_nodes) == 2, "the chain is broken"
    for seed in range(3):
        verify_piece(model, chain, seed)
    return chain.chain.stages[0].epilogue


@pytest.mark.parametrize("body", ERF)
def test_gelu(body):
    assert epilogue(body) == (Gelu("erf"),)


@pytest.mark.parametrize("cube", CUBE)
@pytest.mark.parametrize("body", TANH)
def test_gelu_by_tanh(cube, body):
    assert epilogue(f"{cube} {body}") == (Gelu("tanh"),)


def test_gelu_by_tanh_factored():
    body = "q = Mul(t, t) k = Mul(q, cubic) l = Add(k, one) g = Mul(t, inner) i = Mul(g, l) e = Tanh(i)"
    assert epilogue(f"{body} a = Add(e, one) m = Mul(t, a) u = Mul(m, half)") == (Gelu("tanh"),)


@pytest.mark.parametrize("body", HARD)
def test_hard_swish(body):
    assert epilogue(body) == (HardSwish(),)


@pytest.mark.parametrize("body", SILU)
def test_silu(body):
    assert epilogue(body) == (Silu(),)


def test_quick_gelu_is_a_scaled_silu():
    """Both scales vanish into the weights around it."""
    assert epilogue("k = Mul(t, quick) s = Sigmoid(k) u = Mul(t, s)") == (Silu(),)


def test_silu_by_tanh():
    assert epilogue("h = Mul(t, half) e = Tanh(h) a = Add(e, one) m = Mul(h, a) u = Identity(m)") == (Silu(),)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("d = Div(t, two) e = Erf(d) a = Add(e, one) u = Mul(t, a)", (Gelu("erf"),)),
        ("h = HardSigmoid<alpha = 0.2, beta = 0.5>(t) u = Mul(t, h)", (HardSwish(),)),
        ("a = Add(t, t) u = Relu(a)", (Relu(),)),
        ("r = Relu(t) a = Mul(r, odd) u = Add(a, a)", (Relu(),)),
        (
            "r = LeakyRelu(t) k = Mul(r, two) s = Sigmoid(k) u = Mul(r, s)",
            (LeakyRelu(0.01), MulScalar(2.0), Silu()),
        ),
        ("s = Sub(t, t) u = Add(s, t)", ()),
    ],
)
def test_unusual_factors(body, expected):
    assert epilogue(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "u = Mul(t, t)",
        "h = HardSigmoid<alpha = 0.2, beta = 0.3>(t) u = Mul(t, h)",
        "e = Erf(t) a = Add(e, two) u = Mul(t, a)",
        "s = Sigmoid(t) e = Tanh(t) u = Mul(s, e)",
        "s = Sigmoid(t) q = Mul(s, s) u = Mul(t, q)",
        "c = Pow(t, three) s = Sigmoid(c) u = Mul(t, s)",
        "a = Add(t, three) c = Clip(a, one, six) u = Mul(t, c)",
        "d = Div(one, t) u = Mul(t, d)",
        "s = Sigmoid(t) a = Add(s, one) e = Erf(a) u = Mul(t, e)",
    ],
)
def test_what_is_no_activation(body):
    model = model_of(body)
    assert chains_of(model) == ()
    verify_pieces(model)


def test_a_gate_with_a_third_reader_breaks():
    text = """g (float[N, 3] x) => (float[N, 5] y, float[N, 4] z) {
        t = MatMul(x, v) s = Sigmoid(t) u = Mul(t, s) y = MatMul(u, w) z = Neg(s)
    }"""
    model = read_model(parse(text, weights={"v": normal(3, 4), "w": normal(4, 5)}))
    assert chains_of(model) == ()
    verify_pieces(model)


def test_a_gate_whose_input_is_an_output_breaks():
    text = """g (float[N, 3] x) => (float[N, 5] y, float[N, 4] t) {
        t = MatMul(x, v) s = Sigmoid(t) u = Mul(t, s) y = MatMul(u, w)
    }"""
    model = read_model(parse(text, weights={"v": normal(3, 4), "w": normal(4, 5)}))
    assert chains_of(model) == ()
    verify_pieces(model)


def test_a_run_that_starts_with_a_gate():
    """The input of a run may have other readers: it is in memory anyway."""
    text = """g (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) {
        s = Sigmoid(x) g = Mul(x, s) y = Add(g, x) e = Exp(x) z = Neg(e)
    }"""
    model = read_model(parse(text))
    run, rest = find_pieces(model)
    assert (run.run.ops, run.extra_inputs) == ((Silu(), TensorAdd()), ("x",))
    assert rest.run.ops == (MulScalar(-1.0),)
    verify_pieces(model)


def test_polynomials():
    x = Polynomial.unknown()
    one = Polynomial.constant(1.0)
    squared = x.plus(one).times(x.plus(one))
    assert squared.in_x() == (1.0, 2.0, 1.0)
    assert x.plus(x.scaled(-1.0)).in_x() == (0.0,)
    erf = x.atom("erf")
    assert erf.times(x).plus(x).split() == ((0.0, 1.0), Atom("erf", (), (0.0, 1.0)), (0.0, 1.0))
    assert erf.times(erf).split() is None
    assert erf.plus(x.atom("tanh")).split() is None
    assert erf.atom("tanh") is None
    assert squared.times(squared).times(squared).times(squared) is None


def test_matching():
    x = Polynomial.unknown()
    assert match(x.scaled(3.0).plus(Polynomial.constant(1.0))) == (MulScalar(3.0), AddScalar(1.0))
    assert match(x.times(x)) is None
    assert match(x.atom("sigmoid").scaled(2.0)) == (Sigmoid(), MulScalar(2.0))
    assert match(x.scaled(2.0).atom("tanh")) == (MulScalar(2.0), Tanh())
    assert match(x.atom("clip", 0.0, 1.0)) == (Clip(0.0, 1.0),)
    assert match(x.atom("erf")) is None
