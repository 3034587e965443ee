"""Element-wise work between products: what is absorbed, what it becomes, and what breaks a chain."""

import numpy as np
import onnx
import pytest
from graph_checks import chains_of, normal, parse, verify_piece, verify_pieces

from regweave.graphs import find_candidates, read_model
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    Clip,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Silu,
    Tanh,
    TensorAdd,
    TensorMul,
)

V, W = normal(3, 4), normal(4, 5, seed=1)
FLOAT_MAX = float(np.finfo(np.float32).max)


def rows(body, *, opset=17, inputs="float[N, 3] x", outputs="float[N, 5] y", **weights):
    """MatMul, `body` from a to b, MatMul."""
    text = f"g ({inputs}) => ({outputs}) {{ a = MatMul(x, v) {body} y = MatMul(b, w) }}"
    arrays = {
        k: value if isinstance(value, np.ndarray) else np.float32(value) for k, value in weights.items()
    }
    return read_model(parse(text, opset=opset, weights={"v": V, "w": W, **arrays}))


def pixels(body, *, opset=17, image="N, 3, H, W", result="N, 5, H, W", inputs="", **weights):
    """1x1 convolution, `body` from a to b, 1x1 convolution."""
    text = f"g (float[{image}] x{inputs}) => (float[{result}] y) {{ a = Conv(x, v) {body} y = Conv(b, w) }}"
    ones = (1,) * (image.count(",") - 1)
    arrays = {
        k: value if isinstance(value, np.ndarray) else np.float32(value) for k, value in weights.items()
    }
    arrays = {"v": V.T.reshape(4, 3, *ones), "w": W.T.reshape(5, 4, *ones), **arrays}
    return read_model(parse(text, opset=opset, weights=arrays))


def epilogue(model):
    """What stands between the two products of the model's only chain, which is verified."""
    (chain,) = chains_of(model)
    assert len(chain.gemm_nodes) == 2
    for seed in range(3):
        verify_piece(model, chain, seed)
    return chain.chain.stages[0].epilogue


def refusal(model):
    """Why the two products are no chain; the pieces that are there are verified."""
    verify_pieces(model)
    (candidate,) = (piece for piece in find_candidates(model) if len(piece.gemm_nodes) == 2)
    assert candidate.refusal
    return candidate.refusal


UNARY = [
    ("b = Identity(a)", ()),
    ("b = Relu(a)", (Relu(),)),
    ("b = LeakyRelu(a)", (LeakyRelu(0.01),)),
    ("b = LeakyRelu<alpha = 0.3>(a)", (LeakyRelu(0.3),)),
    ("b = Sigmoid(a)", (Sigmoid(),)),
    ("b = Tanh(a)", (Tanh(),)),
    ("b = HardSigmoid(a)", (HardSigmoid(0.2, 0.5),)),
    ("b = HardSigmoid<alpha = 0.3, beta = 0.1>(a)", (HardSigmoid(0.3, 0.1),)),
    ("b = HardSwish(a)", (HardSwish(),)),
    ("b = Neg(a)", ()),
    ("b = Clip(a)", (Clip(-FLOAT_MAX, FLOAT_MAX),)),
    ("b = Clip(a, zero, six)", (Clip(0, 6),)),
    ("b = Clip(a, zero)", (Clip(0, FLOAT_MAX),)),
    ("b = Clip(a, , six)", (Clip(-FLOAT_MAX, 6),)),
    ("b = Max(a, half)", (Clip(0.5),)),
    ("b = Min(half, a)", (Clip(high=0.5),)),
    ("b = PRelu(a, half)", (LeakyRelu(0.5),)),
    ("b = Dropout(a)", ()),
    ("b, mask = Dropout(a, half)", ()),
    ("b = Dropout(a, half, no)", ()),
    ("b = Cast<to = 1>(a)", ()),
    ("b = com.microsoft.Gelu(a)", (Gelu("erf"),)),
    ("b = com.microsoft.FastGelu(a)", (Gelu("tanh"),)),
    ("b = com.microsoft.QuickGelu(a)", (Silu(),)),
    ("c = Relu(a) d = Identity(c) b = Sigmoid(d)", (Relu(), Sigmoid())),
]


@pytest.mark.parametrize("make", [rows, pixels])
@pytest.mark.parametrize(("body", "expected"), UNARY)
def test_unary_work(make, body, expected):
    constants = {"zero": 0, "six": 6, "half": 0.5, "no": np.array(False)}
    used = {name: value for name, value in constants.items() if name in body}
    assert epilogue(make(body, **used)) == expected


@pytest.mark.parametrize(
    ("body", "opset", "expected"),
    [
        ("b = Gelu(a)", 20, (Gelu("erf"),)),
        ('b = Gelu<approximate = "tanh">(a)', 20, (Gelu("tanh"),)),
        ("b = Clip<min = 0.0, max = 6.0>(a)", 10, (Clip(0, 6),)),
        ("b = Clip<max = 1.5>(a)", 6 + 1, (Clip(-FLOAT_MAX, 1.5),)),
        ("b = Dropout<ratio = 0.9>(a)", 10, ()),
        ("b = Swish(a)", 24, (Silu(),)),
    ],
)
def test_operator_sets_spell_differently(body, opset, expected):
    model = rows(body, opset=opset)
    if opset == 24:
        (chain,) = chains_of(model)
        assert chain.chain.stages[0].epilogue == expected
    else:
        assert epilogue(model) == expected


C4, C41 = normal(4), normal(4, 1, 1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("b = Add(a, c)", (ChannelAdd(),)),
        ("b = Add(c, a)", (ChannelAdd(),)),
        ("b = Sub(a, c)", (ChannelAdd(),)),
        ("b = Sub(c, a)", (ChannelAdd(),)),
        ("b = Mul(a, c)", ()),
        ("b = Mul(c, a)", ()),
        ("b = Div(a, c)", ()),
        ("b = Sum(a, c)", (ChannelAdd(),)),
        ("r = Relu(a) b = Mul(c, r)", (Relu(),)),
        ("r = Relu(a) s = Mul(c, r) t = Add(s, c) b = Sub(t, c)", (Relu(),)),
        ("r = Relu(a) s = Add(c, r) t = Add(s, c) b = Tanh(t)", (Relu(), ChannelAdd(), Tanh())),
        ("r = Relu(a) s = Sub(c, r) b = Tanh(s)", (Relu(), MulScalar(-1), ChannelAdd(), Tanh())),
        ("r = Relu(a) s = Div(r, c) b = Tanh(s)", (Relu(), ChannelMul(), Tanh())),
    ],
)
@pytest.mark.parametrize("kind", ["channel", "scalar"])
@pytest.mark.parametrize("make", [rows, pixels])
def test_constants(make, body, expected, kind):
    channel = C4 if make is rows else C41
    found = epilogue(make(body, c=channel if kind == "channel" else np.float32(1.75)))
    assert [family(op) for op in found] == [family(op) for op in expected]


def family(op):
    """The operator, or what it does if it exists for scalars and for channels."""
    if isinstance(op, (AddScalar, ChannelAdd)):
        return "add"
    return "mul" if isinstance(op, (MulScalar, ChannelMul)) else op


@pytest.mark.parametrize("shape", [(1, 4), (4,)])
def test_channel_constants_of_rows(shape):
    assert epilogue(rows("b = Add(a, c)", c=normal(*shape))) == (ChannelAdd(),)


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1)])
def test_channel_constants_of_pixels(shape):
    assert epilogue(pixels("b = Add(a, c)", c=normal(*shape))) == (ChannelAdd(),)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1,), ()])
def test_scalars_of_any_rank(shape):
    assert isinstance(epilogue(pixels("b = Add(a, c)", c=normal(*shape)))[0], AddScalar)


def test_a_constant_along_the_wrong_axis():
    model = pixels("b = Add(a, c)", image="N, 3, H, 4", result="N, 5, H, 4", c=C4)
    assert "not one value per channel" in refusal(model)


def test_a_constant_that_would_change_the_shape():
    model = rows("b = Add(a, c)", outputs="float[1, N, 5] y", c=normal(1, 1, 4))
    assert "not one value per channel" in refusal(model)


def test_a_constant_per_row():
    model = rows("b = Mul(a, c)", inputs="float[6, 3] x", outputs="float[6, 5] y", c=normal(6, 1))
    assert "not one value per channel" in refusal(model)


def test_a_constant_of_the_whole_shape_is_an_extra_input():
    model = rows("b = Add(a, c)", inputs="float[6, 3] x", outputs="float[6, 5] y", c=normal(6, 4))
    assert epilogue(model) == (TensorAdd(),)
    assert chains_of(model)[0].extra_inputs == ("c",)


def test_a_constant_of_the_whole_shape_for_one_size_only():
    """That the batch is 6 today does not make a [6, 4] constant fit tomorrow."""
    proto = rows("b = Add(a, c)", c=normal(6, 4)).proto
    assert "not one value per channel" in refusal(read_model(proto, {"N": 6}))


@pytest.mark.parametrize("value", [np.float32("inf"), np.float32("nan"), np.full(4, np.inf, np.float32)])
def test_constants_that_are_not_finite(value):
    with np.errstate(all="ignore"):
        assert "not finite" in refusal(rows("b = Mul(a, c)", c=value))


def test_divisions_that_cannot_be_products():
    assert "divides by it" in refusal(rows("b = Div(c, a)", c=C4))
    assert "not finite or tiny" in refusal(rows("b = Div(a, c)", c=np.float32(0)))
    assert "not finite or tiny" in refusal(rows("b = Div(a, c)", c=np.float32(1e-40)))


# batch normalization


def norm(channels=4):
    spread = np.abs(normal(channels, seed=3)) + 0.1
    return {
        "s": normal(channels, seed=1),
        "o": normal(channels, seed=2),
        "m": normal(channels, seed=4),
        "r": spread,
    }


@pytest.mark.parametrize("make", [rows, pixels])
def test_batch_norm_vanishes_into_the_weights(make):
    model = make("b = BatchNormalization<epsilon = 0.01>(a, s, o, m, r)", **norm())
    assert epilogue(model) == (ChannelAdd(),)


def test_batch_norm_behind_an_activation():
    model = pixels("t = Relu(a) b = BatchNormalization(t, s, o, m, r)", **norm())
    assert epilogue(model) == (Relu(), ChannelMul(), ChannelAdd())


def test_batch_norm_of_the_wrong_axis():
    body = "b = BatchNormalization(a, s, o, m, r)"
    model = rows(body, inputs="float[N, 6, 3] x", outputs="float[N, 6, 5] y", **norm(6))
    assert "not the channels' axis" in refusal(model)


def test_batch_norm_in_training():
    text = """g (float[N, 3, H, W] x) => (float[N, 5, H, W] y) {
        a = Conv(x, v)
        b, m1, r1 = BatchNormalization <training_mode = 1> (a, s, o, m, r)
        y = Conv(b, w)
    }"""
    weights = {"v": V.T.reshape(4, 3, 1, 1), "w": W.T.reshape(5, 4, 1, 1), **norm()}
    (candidate,) = find_candidates(read_model(parse(text, weights=weights)))
    assert "inference mode" in candidate.refusal


# residuals


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("b = Add(a, r)", (TensorAdd(),)),
        ("b = Add(r, a)", (TensorAdd(),)),
        ("b = Mul(a, r)", (TensorMul(),)),
        ("b = Sub(r, a)", (TensorAdd(),)),
        ("b = Sub(a, r)", (TensorAdd(),)),
        (
            "t = Relu(a) s = Sub(t, r) b = Tanh(s)",
            (Relu(), MulScalar(-1), TensorAdd(), MulScalar(-1), Tanh()),
        ),
        ("t = Add(a, r) s = Mul(t, q) b = Add(s, r)", (TensorAdd(), TensorMul(), TensorAdd())),
    ],
)
def test_residuals(body, expected):
    inputs = "float[N, 3] x, float[N, 4] r" + (", float[N, 4] q" if "q" in body else "")
    assert epilogue(rows(body, inputs=inputs)) == expected


def test_an_extra_input_that_is_read_twice_is_one():
    model = rows("t = Add(a, r) b = Mul(t, r)", inputs="float[N, 3] x, float[N, 4] r")
    (chain,) = chains_of(model)
    assert chain.extra_inputs == ("r",)


def test_residual_pixels():
    assert epilogue(pixels("b = Add(a, r)", inputs=", float[N, 4, H, W] r")) == (TensorAdd(),)


@pytest.mark.parametrize("shape", ["M, 4", "1, 4", "N, 1", "4", "A, B"])
def test_residuals_of_another_shape(shape):
    model = rows("b = Add(a, r)", inputs=f"float[N, 3] x, float[{shape}] r", outputs="float[A, 5] y")
    (candidate,) = (piece for piece in find_candidates(model) if len(piece.gemm_nodes) == 2)
    assert "combines it with 'r' of shape" in candidate.refusal


def test_a_residual_that_only_happens_to_fit():
    """Sizes that the caller gives do not make two dimensions the same."""
    proto = rows("b = Add(a, r)", inputs="float[N, 3] x, float[M, 4] r", outputs="float[A, 5] y").proto
    candidates = find_candidates(read_model(proto, {"N": 2, "M": 2}))
    assert [piece.refusal is None for piece in candidates] == [False]


def test_a_gate_per_channel_breaks():
    model = pixels("b = Mul(a, r)", inputs=", float[N, 4, 1, 1] r")
    assert "combines it with 'r' of shape [N, 4, 1, 1], not [N, 4, H, W]" in refusal(model)


# reshapes


@pytest.mark.parametrize(
    ("body", "inputs", "outputs"),
    [
        ("b = Reshape(a, t)", "float[N, 6, 3] x", "float[M, 5] y"),
        ("b = Unsqueeze(a, t)", "float[N, 3] x", "float[N, 1, 5] y"),
        ("b = Squeeze(a, t)", "float[N, 1, 3] x", "float[N, 5] y"),
        ("b = Flatten<axis = -1>(a)", "float[N, 6, 3] x", "float[M, 5] y"),
        ("c = Unsqueeze(a, t) b = Squeeze(c, t)", "float[N, 3] x", "float[N, 5] y"),
        ("c = Flatten<axis = 2>(a) d = Relu(c) b = Reshape(d, s)", "float[N, 6, 3] x", "float[N, 6, 5] y"),
    ],
)
def test_reshapes_that_keep_rows(body, inputs, outputs):
    weights = {"t": np.array([-1, 4] if "Reshape(a" in body else [1]), "s": np.array([-1, 6, 4])}
    used = {name: value for name, value in weights.items() if f", {name})" in body}
    epilogue(rows(body, inputs=inputs, outputs=outputs, **used))


def test_pixels_may_be_flattened():
    text = """g (float[N, 3, H, W] x) => (float[N, 5, P] y) {
        a = Conv(x, v)
        b = Reshape(a, t)
        y = Conv(b, w)
    }"""
    weights = {"v": V.T.reshape(4, 3, 1, 1), "w": W.T.reshape(5, 4, 1), "t": np.array([0, 4, -1])}
    model = read_model(parse(text, weights=weights))
    epilogue(model)
    assert chains_of(model)[0].output_shape((2, 3, 4, 5)) == (2, 5, 20)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("b = Reshape(a, t)", "mixes rows"),
        ("b = Transpose<perm = [1, 0]>(a)", "moves rows and columns"),
        ("b = Softmax(a)", "needs whole rows"),
        ("b = Elu(a)", "is not work that can be done in registers"),
        ("b = PRelu(a, c)", "parameters that do not fit"),
        ("s = ReduceMean(a) b = Sub(x, s)", "reduces over rows or channels"),
        ("b = Concat<axis = 0>(a, a)", "joins it with other tensors"),
    ],
)
def test_what_breaks_a_chain(body, words):
    weights = {"t": np.array([8, -1]), "c": C4}
    used = {name: value for name, value in weights.items() if f", {name})" in body}
    text = f"g (float[4, 3] x) => (float[A, B] y) {{ a = MatMul(x, v) {body} y = MatMul(b, w) }}"
    text = text.replace("b = Sub(x, s)", "b = Add(r, s)").replace("x) =>", "x, float[4, 4] r) =>")
    w = W if "Reshape" not in body else normal(2, 5)
    model = read_model(parse(text, weights={"v": V, "w": w, **used}))
    verify_pieces(model)
    (candidate,) = (piece for piece in find_candidates(model) if len(piece.gemm_nodes) == 2)
    assert words in candidate.refusal


def test_an_intermediate_with_a_second_reader():
    model = rows("b = Relu(a) z = Neg(b)", outputs="float[N, 5] y, float[N, 4] z")
    assert "its result 'b' has 2 readers: Neg 'Neg#2', MatMul 'MatMul#3'" in refusal(model)


def test_an_intermediate_that_is_an_output():
    assert "'b' is an output of the model" in refusal(
        rows("b = Relu(a)", outputs="float[N, 5] y, float[N, 4] b")
    )


def test_a_mask_that_is_read():
    text = """g (float[N, 3] x) => (float[N, 5] y, bool[N, 4] mask) {
        a = MatMul(x, v) b, mask = Dropout(a) y = MatMul(b, w)
    }"""
    assert "second output" in refusal(read_model(parse(text, weights={"v": V, "w": W})))


def test_dropout_in_training():
    assert "do not fit" in refusal(rows("b = Dropout(a, h, yes)", h=0.0, yes=np.array(True)))


def test_a_cast_to_another_type():
    assert "gives float16" in refusal(rows("c = Cast<to = 10>(a) b = Cast<to = 1>(c)"))


def test_a_bound_computed_at_run_time():
    model = rows("t = ReduceMax<keepdims = 0>(x) b = Clip(a, t)")
    assert "do not fit, or are computed at run time" in refusal(model)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [("LeakyRelu", "a", {"alpha": np.inf}), ("HardSigmoid", "a", {"beta": np.nan}), ("PRelu", "a e", {})],
)
def test_parameters_that_are_no_numbers(op, inputs, attributes):
    proto = rows("b = Identity(a)", e=np.float32("inf")).proto
    proto.graph.node[1].CopyFrom(onnx.helper.make_node(op, inputs.split(), ["b"], "N", **attributes))
    assert "do not fit" in refusal(read_model(proto))
