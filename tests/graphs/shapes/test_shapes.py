"""Symbolic shapes: by rule, and against what onnxruntime really computes for the real models."""

import random

import numpy as np
import onnx
import pytest
from graph_checks import normal, parse, real_inputs, run_model

from regweave.graphs import read_model
from regweave.graphs.samples import SAMPLES, sample_model
from regweave.graphs.shapes.dimensions import Product, product, quotient, show


def shape_of(text, tensor="y", **options):
    return read_model(parse(text, **options)).symbols[tensor]


def test_products_of_dimensions():
    assert product((2, "batch", 3)) == Product(6, ("batch",))
    assert product(("4*a", "b")) == product(("b", 2, "a", 2))
    assert quotient(product(("a", 6)), product((3,))) == "2*a"
    assert quotient(product(("a", 6)), product((4,))) is None
    assert quotient(product(("a",)), product(("b",))) is None
    assert quotient(product(("a", "b")), product(("b", "a"))) == 1
    assert quotient(product((0,)), product((0,))) is None


def test_shapes_for_a_person():
    assert show(("batch", 3, "x[2]?", None)) == "[batch, 3, ?, ?]"
    assert show(None) == "[unknown rank]"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("pads = [1, 1, 1, 1]", ("N", 8, "H", "W")),
        (
            "pads = [1, 1, 1, 1], dilations = [2, 2]",
            ("N", 8, "size(H,k3,s1,p1+1,d2)", "size(W,k3,s1,p1+1,d2)"),
        ),
        ('auto_pad = "SAME_UPPER"', ("N", 8, "H", "W")),
        ('auto_pad = "SAME_LOWER", strides = [2, 2]', ("N", 8, "size(H,same,s2)", "size(W,same,s2)")),
        ("strides = [2, 1], pads = [1, 1, 1, 1]", ("N", 8, "size(H,k3,s2,p1+1,d1)", "W")),
    ],
)
def test_convolutions_keep_symbols(attributes, expected):
    text = f"g (float[N, 4, H, W] x) => (float[A, B, C, D] y) {{ y = Conv <{attributes}> (x, w) }}"
    assert shape_of(text, weights={"w": normal(8, 4, 3, 3)}) == expected


def test_two_branches_that_compute_the_same_size_agree():
    text = """g (float[N, 4, H, W] x) => (float[A, B, C, D] y) {
        a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
        b = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
        c = Conv (a, v)
        y = Add(b, c)
    }"""
    model = read_model(parse(text, weights={"w": normal(4, 4, 3, 3), "v": normal(4, 4, 1, 1)}))
    assert model.symbols["b"] == model.symbols["c"] == model.symbols["y"]


def test_shapes_computed_by_the_model_are_followed():
    text = """g (float[N, T, 8] x) => (float[A, B, C, D] y) {
        s = Shape(x)
        n = Gather(s, zero)
        t = Gather(s, one)
        axes = Constant <value = int64[1] {0}> ()
        n1 = Unsqueeze(n, axes)
        t1 = Unsqueeze(t, axes)
        target = Concat <axis = 0> (n1, t1, two, rest)
        y = Reshape(x, target)
    }"""
    integers = {"zero": 0, "one": 1, "two": [2], "rest": [-1]}
    weights = {name: np.array(value, np.int64) for name, value in integers.items()}
    assert shape_of(text, weights=weights) == ("N", "T", 2, 4)


def test_rows_folded_and_unfolded_meet():
    text = """g (float[N, T, 8] x) => (float[A, B] y) {
        s = Shape(x)
        flat = Reshape(x, two)
        w = Relu(flat)
        y = Reshape(w, s)
    }"""
    model = read_model(parse(text, weights={"two": np.array([-1, 8])}))
    assert model.symbols["flat"] == ("N*T", 8)
    assert model.symbols["y"] == ("N", "T", 8)


def test_a_name_with_a_star_is_one_symbol():
    proto = parse(
        "g (float[A, B, 4] x) => (float[C, 4] y) { y = Reshape(x, t) }", weights={"t": np.array([-1, 4])}
    )
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "a*b"
    assert read_model(proto).symbols["y"] == ("B*a×b", 4)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Transpose <perm = [0, 2, 1]> (x)", ("N", 8, "T")),
        ("Transpose (x)", (8, "T", "N")),
        ("Flatten <axis = 2> (x)", ("N*T", 8)),
        ("Flatten <axis = -1> (x)", ("N*T", 8)),
        ("Flatten <axis = 0> (x)", (1, "8*N*T")),
        ("Concat <axis = -1> (x, x)", ("N", "T", 16)),
        ("ReduceMean <axes = [1]> (x)", ("N", 1, 8)),
        ("ReduceMax <axes = [-1], keepdims = 0> (x)", ("N", "T")),
        ("ReduceMean (x)", (1, 1, 1)),
        ("Softmax (x)", ("N", "T", 8)),
        ("Mul (x, x)", ("N", "T", 8)),
        ("Pow (x, x)", ("N", "T", 8)),
    ],
)
def test_rules(node, expected):
    assert shape_of(f"g (float[N, T, 8] x) => (float[A] y) {{ y = {node} }}", opset=12) == expected


def test_a_false_name_does_not_make_sizes_equal():
    """A model that calls every height `h` in its value_info is not believed where that contradicts itself."""
    text = """g (float[N, 4, h, W] x) => (float[A, B, C, D] y) <float[N, 4, z, W] a, float[N, 4, z, W] y> {
        a = MaxPool <kernel_shape = [2, 1], strides = [2, 1]> (x)
        y = MaxPool <kernel_shape = [2, 1], strides = [2, 1]> (a)
    }"""
    model = read_model(parse(text))
    assert model.symbols["a"][2] != model.symbols["y"][2]


@pytest.mark.models
@pytest.mark.parametrize("name", SAMPLES)
def test_real_shapes(name):
    """Every size computed by onnxruntime is the number, or one value per symbol, that was inferred."""
    path = sample_model(name)
    model = read_model(path)
    proto = onnx.load(path)
    del proto.graph.output[:]
    tensors = [t for t in model.makers if t in model.types and t not in model.constants]
    proto.graph.output.extend(onnx.helper.make_tensor_value_info(t, model.types[t], None) for t in tensors)
    for seed in range(1 if "dnsmos" in name else 2):
        inputs = real_inputs(model, random.Random(seed))
        given = {
            dim: size
            for tensor, value in inputs.items()
            for dim, size in zip(model.symbols[tensor], value.shape, strict=True)
            if isinstance(dim, str)
        }
        sized = read_model(path, {dim.rstrip("?"): size for dim, size in given.items()})
        known: dict[str, int] = {}
        for tensor, value in zip(tensors, run_model(proto, inputs), strict=True):
            if tensor not in model.symbols:
                continue
            assert len(model.symbols[tensor]) == value.ndim, tensor
            for dim, size in zip(model.symbols[tensor], value.shape, strict=True):
                assert (dim if isinstance(dim, int) else known.setdefault(dim, size)) == size, (tensor, dim)
            for dim, size in zip(sized.shapes[tensor], value.shape, strict=True):
                assert dim in (None, size), (tensor, dim, size)
