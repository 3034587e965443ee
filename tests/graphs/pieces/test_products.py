"""MatMul, Gemm and 1x1 Conv in all their spellings become the same kind of product, or say why not."""

import numpy as np
import onnx
import pytest
from graph_checks import all_pieces, chains_of, normal, parse, verify_piece, verify_pieces

from regweave.graphs import find_candidates, find_pieces, read_model


def pieces_of(text, **options):
    return verify_pieces(read_model(parse(text, **options)))


def refusal(text, **options):
    """The reason why the first product of a model is refused."""
    proto = text if isinstance(text, onnx.ModelProto) else parse(text, **options)
    candidates = find_candidates(read_model(proto))
    reasons = [piece.refusal for piece in candidates if piece.refusal]
    assert reasons, candidates
    return reasons[0]


W34, W45 = normal(3, 4), normal(4, 5, seed=1)


def two(first, second, x="N, 3", y="N, 5", **weights):
    """A graph of two nodes."""
    return parse(
        f"g (float[{x}] x) => (float[{y}] y) {{ a = {first} y = {second} }}",
        weights={"v": W34, "w": W45, **{k: np.asarray(v, np.float32) for k, v in weights.items()}},
    )


def check_chain(proto, widths=(3, 4, 5)):
    model = read_model(proto)
    (chain,) = chains_of(model)
    assert chain.widths == widths
    for seed in range(3):
        verify_piece(model, chain, seed)
    assert find_pieces(model, [chain]) == ()
    return chain


# MatMul


@pytest.mark.parametrize("x", ["N, 3", "N, T, 3", "2, N, T, 3", "3"])
def test_leading_dimensions_are_rows(x):
    chain = check_chain(two("MatMul(x, v)", "MatMul(a, w)", x=x, y=x[:-1] + "5"))
    assert chain.order == "rows"


def test_m_is_the_product_of_the_leading_dimensions():
    model = read_model(two("MatMul(x, v)", "MatMul(a, w)", x="N, T, 3", y="N, T, 5"), {"N": 4, "T": 6})
    (chain,) = chains_of(model)
    assert (chain.m, chain.batch, chain.pixels) == (24, 1, 24)
    assert chain.output_shape((4, 6, 3)) == (4, 6, 5)
    assert chain.output_shape((0, 6, 3)) == (0, 6, 5)


def test_unknown_sizes_leave_m_open():
    (chain,) = chains_of(two("MatMul(x, v)", "MatMul(a, w)"))
    assert chain.m is None


def test_weights_with_leading_ones():
    check_chain(two("MatMul(x, u)", "MatMul(a, w)", x="N, T, 3", y="N, T, 5", u=W34[None]))
    reason = refusal(two("MatMul(x, u)", "MatMul(a, w)", x="N, 3", y="1, N, 5", u=W34[None]))
    assert "add dimensions" in reason


def test_batched_and_vector_weights():
    batched = np.stack([W34, W34])
    assert "batch of matrices" in refusal(
        two("MatMul(x, u)", "MatMul(a, w)", x="2, N, 3", y="2, N, 5", u=batched)
    )
    vector = parse("g (float[N, 3] x) => (float[N] y) { y = MatMul(x, u) }", weights={"u": normal(3)})
    assert "are a vector" in refusal(vector)


def test_a_constant_on_the_left():
    proto = parse("g (float[3, N] x) => (float[4, N] y) { y = MatMul(u, x) }", weights={"u": normal(4, 3)})
    assert "left operand is constant" in refusal(proto)


def test_weights_given_at_run_time():
    text = "g (float[N, 3] x, float[3, 4] u) => (float[N, 4] y) { y = MatMul(x, u) }"
    assert "given at run time" in refusal(text)


def test_weights_computed_at_run_time():
    text = "g (float[N, 3] x) => (float[N, N] y) { t = Transpose(x) y = MatMul(x, t) }"
    assert "both operands are computed at run time ('t' by Transpose" in refusal(text)


def test_weights_that_a_caller_may_replace():
    text = "g (float[N, 3] x, float[3, 4] v) => (float[N, 4] y) { y = MatMul(x, v) }"
    assert "a caller may replace them" in refusal(text, weights={"v": W34})
    assert pieces_of(text, weights={"v": W34}, ir=3)[0].kind == "single"


@pytest.mark.parametrize(
    "nodes",
    [
        "u = Identity(v)",
        "t = Transpose(v) u = Transpose(t)",
        "u = Reshape(v, shape)",
        "h = Mul(v, half) u = Add(h, h)",
        "u = Cast <to = 1> (v)",
        "n = Neg(v) u = Neg(n)",
        "a = Unsqueeze(v, zero) u = Squeeze(a, zero)",
        "s = Sqrt(four) r = Reciprocal(half) d = Div(v, s) u = Mul(d, r)",
        "u = Concat <axis = 0> (top, rest)",
    ],
)
def test_weights_behind_constant_arithmetic(nodes):
    weights = {"v": W34, "w": W45, "shape": np.array([0, 4]), "zero": np.array([0])}
    weights |= {"half": np.float32(0.5), "four": np.float32(4), "top": W34[:1], "rest": W34[1:]}
    text = f"g (float[N, 3] x) => (float[N, 5] y) {{ {nodes} b = MatMul(x, u) y = MatMul(b, w) }}"
    chain = check_chain(parse(text, weights=weights))
    np.testing.assert_array_equal(chain.chain.stages[0].weight, W34)


def test_weights_in_constant_nodes():
    text = """g (float[N, 2] x) => (float[N, 2] y) {
        u = Constant <value = float[2, 2] {1, 2, 3, 4}> ()
        a = MatMul(x, u)
        s = Constant <value_float = 2.0> ()
        b = Mul(a, s)
        y = MatMul(b, u)
    }"""
    check_chain(parse(text), (2, 2, 2))


def test_weights_filled_by_the_model():
    text = """g (float[N, 2] x) => (float[N, 3] y) {
        u = ConstantOfShape <value = float[1] {0.5}> (shape)
        y = MatMul(x, u)
    }"""
    (single,) = pieces_of(text, weights={"shape": np.array([2, 3])})
    np.testing.assert_array_equal(single.chain.stages[0].weight, np.full((2, 3), 0.5, np.float32))


# Gemm


@pytest.mark.parametrize(
    ("attributes", "v", "c"),
    [
        ("", W34, None),
        ("transB = 1", W34.T, None),
        ("alpha = 0.25", W34, None),
        ("alpha = 2.0, beta = 0.5", W34, normal(4)),
        ("beta = 0.0", W34, normal(4)),
        ("transB = 1, alpha = -1.5, beta = 3.0", W34.T, normal(1, 4)),
        ("", W34, np.float32(2)),
        ("", W34, normal(1)),
        ("beta = 2.0", W34, normal(1, 1)),
    ],
)
def test_gemm(attributes, v, c):
    third = "" if c is None else ", c"
    proto = two(f"Gemm <{attributes}> (x, v{third})", "Gemm (a, w)", v=v, **({} if c is None else {"c": c}))
    chain = check_chain(proto)
    assert len(chain.chain.stages[0].epilogue) == (0 if c is None or "beta = 0.0" in attributes else 1)


@pytest.mark.parametrize("c", [normal(6, 4), normal(6, 1)])
def test_a_bias_for_every_row(c):
    chain = check_chain(two("Gemm <beta = 0.5> (x, v, c)", "Gemm (a, w)", x="6, 3", y="6, 5", c=c))
    assert chain.extra_inputs == ("Gemm#0/full C",)
    np.testing.assert_allclose(chain.added["Gemm#0/full C"], 0.5 * np.broadcast_to(c, (6, 4)))


def test_a_bias_computed_at_run_time():
    text = "g (float[N, 3] x, float[N, 4] c) => (float[N, 4] y) {{ y = Gemm <beta = {}> (x, v, c) }}"
    (single,) = pieces_of(text.format("1.0"), weights={"v": W34})
    assert single.extra_inputs == ("c",)
    assert "scaled by beta=2" in refusal(text.format("2.0"), weights={"v": W34})
    row = "g (float[N, 3] x, float[4] c) => (float[N, 4] y) { y = Gemm (x, v, c) }"
    assert "not the result's" in refusal(row, weights={"v": W34})


def test_a_transposed_input_is_transposed_in_front():
    chain = check_chain(two("Gemm <transA = 1> (x, v)", "Gemm (a, w)", x="3, N"))
    assert chain.transposed
    assert chain.output_shape((7, 3)) == (7, 5)


def test_a_transposed_intermediate_breaks_the_chain():
    proto = two("Gemm (x, v)", "Gemm <transA = 1> (a, u)", x="6, 3", y="4, 5", u=normal(6, 5))
    assert "reads it transposed" in refusal(proto)
    verify_pieces(read_model(proto))


# Conv


@pytest.mark.parametrize(
    ("image", "attributes"),
    [
        ("N, 3, H, W", ""),
        ("N, 3, H, W", "kernel_shape = [1, 1]"),
        ("N, 3, H, W", 'auto_pad = "SAME_UPPER"'),
        ("N, 3, H, W", 'auto_pad = "SAME_LOWER", strides = [1, 1]'),
        ("N, 3, H, W", 'auto_pad = "VALID"'),
        ("N, 3, H, W", "dilations = [2, 3], pads = [0, 0, 0, 0], group = 1"),
        ("N, 3, L", ""),
        ("N, 3, A, B, C", ""),
        ("1, 3, 7, 9", ""),
    ],
)
def test_pointwise_convolutions(image, attributes):
    ones = (1,) * (image.count(",") - 1)
    v, w = W34.T.reshape(4, 3, *ones), W45.T.reshape(5, 4, *ones)
    result = image.replace("3", "5", 1)
    node = f"Conv <{attributes}> "
    chain = check_chain(two(f"{node}(x, v, c)", f"{node}(a, w)", x=image, y=result, v=v, w=w, c=normal(4)))
    assert (chain.order, chain.channel_axis) == ("pixels", 1)


def test_pixels_and_batch():
    v, w = W34.T.reshape(4, 3, 1, 1), W45.T.reshape(5, 4, 1, 1)
    proto = two("Conv (x, v)", "Conv (a, w)", x="N, 3, H, W", y="N, 5, H, W", v=v, w=w)
    (chain,) = chains_of(read_model(proto, {"N": 2, "H": 3, "W": 5}))
    assert (chain.m, chain.batch, chain.pixels) == (30, 2, 15)


def test_one_pixel_is_a_row():
    v, w = W34.T.reshape(4, 3, 1, 1), W45.T.reshape(5, 4, 1, 1)
    chain = check_chain(two("Conv (x, v)", "Conv (a, w)", x="N, 3, 1, 1", y="N, 5, 1, 1", v=v, w=w))
    assert (chain.order, chain.channel_axis) == ("rows", 1)
    assert chain.output_shape((2, 3, 1, 1)) == (2, 5, 1, 1)


@pytest.mark.parametrize(
    ("attributes", "shape", "words"),
    [
        ("strides = [2, 2]", (4, 4, 1, 1), "strides"),
        ("pads = [1, 1, 1, 1]", (4, 4, 1, 1), "padding"),
        ("group = 2", (4, 2, 1, 1), "2 groups"),
    ],
)
def test_convolutions_that_are_no_products(attributes, shape, words):
    text = f"g (float[N, 4, H, W] x) => (float[A, B, C, D] y) {{ y = Conv <{attributes}> (x, u) }}"
    assert words in refusal(text, weights={"u": normal(*shape)})


def test_an_image_of_unknown_rank():
    text = "g (float[N, 4] x, int64[R] s) => (float[A] y) { i = Reshape(x, s) y = Conv (i, u) }"
    assert "rank of its image is not known" in refusal(text, weights={"u": normal(4, 4, 1, 1)})


def test_wider_kernels_are_not_even_looked_at():
    text = "g (float[N, 4, H, W] x) => (float[A, B, C, D] y) { y = Conv (x, u) }"
    assert find_candidates(read_model(parse(text, weights={"u": normal(4, 4, 3, 1)}))) == ()


def test_a_convolution_and_a_matmul_meet_on_one_pixel():
    text = """g (float[N, 3, 1, 1] x) => (float[N, 5] y) {
        a = Conv (x, v)
        b = Flatten (a)
        y = MatMul (b, w)
    }"""
    check_chain(parse(text, weights={"v": W34.T.reshape(4, 3, 1, 1), "w": W45}))


# types


@pytest.mark.parametrize(("letter", "dtype"), [("float16", np.float16), ("double", np.float64)])
def test_other_float_types_are_left_alone(letter, dtype):
    text = f"g ({letter}[N, 3] x) => ({letter}[N, 5] y) {{ a = MatMul(x, v) y = MatMul(a, w) }}"
    model = read_model(parse(text, weights={"v": W34.astype(dtype), "w": W45.astype(dtype)}))
    assert all_pieces(model) == ()
    first = find_candidates(model)[0]
    assert (
        first.refusal
        == f"MatMul 'MatMul#0': its data is {letter}; only float32 is built: left to onnxruntime"
    )


def test_integer_products_are_left_alone():
    text = "g (uint8[N, 3] x) => (int32[N, 4] y) { y = MatMulInteger(x, v) }"
    assert "product of integers" in refusal(text, weights={"v": np.ones((3, 4), np.uint8)})


def test_quantized_weights_are_left_alone():
    text = "g (float[N, 3] x) => (float[N, 4] y) { u = DequantizeLinear(v, s) y = MatMul(x, u) }"
    weights = {"v": np.ones((3, 4), np.int8), "s": np.float32(0.1)}
    assert "are quantized" in refusal(text, weights=weights)


def test_empty_weights():
    text = "g (float[N, 0] x) => (float[N, 4] y) { y = MatMul(x, v) }"
    assert "nothing to compute" in refusal(text, weights={"v": np.zeros((0, 4), np.float32)})


def test_old_operator_sets_are_left_alone():
    text = "g (float[2, 3] x) => (float[2, 4] y) { y = MatMul(x, v) }"
    model = read_model(parse(text, opset=6, weights={"v": W34}))
    assert all_pieces(model) == ()
    assert "operator set 6" in find_candidates(model)[0].refusal


def test_products_inside_control_flow():
    text = """g (bool cond, float[N, 3] x) => (float[N, 4] y) {
        y = If (cond) <
            then_branch = a () => (float[N, 4] p) { p = MatMul(x, v) },
            else_branch = b () => (float[N, 4] q) { t = MatMul(x, v) q = Neg(t) }
        >
    }"""
    model = read_model(parse(text, weights={"v": W34}))
    (hidden,) = find_candidates(model)
    assert "2 product(s)" in hidden.refusal
    assert "inside the subgraphs of If 'If#0': left to onnxruntime" in hidden.refusal
    assert all_pieces(model) == ()


def test_what_a_subgraph_reads_counts_as_read():
    text = """g (bool cond, float[N, 3] x) => (float[N, 5] y, float[N, 4] z) {
        a = MatMul(x, v)
        y = MatMul(a, w)
        z = If (cond) <
            then_branch = t () => (float[N, 4] p) { p = Neg(a) },
            else_branch = e () => (float[N, 4] q) { q = Relu(a) }
        >
    }"""
    assert "has 2 readers: MatMul 'MatMul#1', If 'If#2'" in refusal(text, weights={"v": W34, "w": W45})
