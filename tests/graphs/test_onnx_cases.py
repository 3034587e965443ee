"""The cases that the `onnx` package tests backends with: products, element-wise operators, small torch
models.

In the node cases every operand is a graph input; all but the first are made constants here, because that is
what weights are. A case whose piece can be built must give the expected output; one that cannot must have a
reason.
"""

import importlib
import os

import numpy as np
import onnx
import pytest
from graph_checks import all_pieces, piece_reference, verify_pieces
from onnx import numpy_helper
from onnx.backend.test.case import node as node_cases

from regweave.graphs import find_candidates, read_model

PRODUCTS = ("matmul", "gemm", "conv")
ELEMENTWISE = (
    *("relu", "leakyrelu", "clip", "sigmoid", "tanh", "hardsigmoid", "hardswish", "gelu", "prelu", "swish"),
    *("batch_normalization", "add", "mul", "sub", "div", "sum", "max", "min", "identity", "neg", "dropout"),
)


def cases(modules):
    """All node cases of some modules of `onnx.backend.test.case.node`, without importing the other 200."""
    for name in modules:
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    wanted = {name.replace("_", "") for name in modules}
    found = [case for case in node_cases._NodeTestCases if case.model.graph.node[0].op_type.lower() in wanted]
    return [pytest.param(case, id=case.name) for case in found if len(case.model.graph.node) == 1]


def with_constants(case):
    """The case with all inputs but the first as constants, the first input and the first output."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    inputs, outputs = case.data_sets[0]
    names = [value.name for value in proto.graph.input]
    for name, value in list(zip(names, inputs, strict=True))[1:]:
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        proto.graph.input.remove(next(entry for entry in proto.graph.input if entry.name == name))
    return proto, {names[0]: np.asarray(inputs[0])}, np.asarray(outputs[0])


def check(case):
    """The number of pieces that were built, each compared with the case's expected output."""
    proto, inputs, expected = with_constants(case)
    model = read_model(proto)
    pieces = all_pieces(model)
    for piece in pieces:
        found = piece_reference(model, piece, inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-6))
    return model, pieces


@pytest.mark.parametrize("case", cases(PRODUCTS))
def test_products(case):
    model, pieces = check(case)
    if not pieces and case.model.graph.node[0].op_type != "Conv":
        (candidate,) = find_candidates(model)
        assert candidate.refusal


def test_most_product_cases_can_be_built():
    built = {case.values[0].name for case in cases(PRODUCTS) if check(case.values[0])[1]}
    assert {
        "test_matmul_2d",
        "test_gemm_all_attributes",
        "test_gemm_transposeA",
        "test_gemm_default_matrix_bias",
    } <= built
    assert len(built) >= 12


@pytest.mark.parametrize("case", cases(ELEMENTWISE))
def test_elementwise(case):
    check(case)


def test_most_elementwise_cases_can_be_built():
    built = [case for case in cases(ELEMENTWISE) if check(case.values[0])[1]]
    assert len(built) >= 40


TORCH = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
MODELS = [
    os.path.join(TORCH, kind, name)
    for kind in ("pytorch-converted", "pytorch-operator", "simple")
    for name in sorted(os.listdir(os.path.join(TORCH, kind)))
]


@pytest.mark.parametrize("folder", MODELS, ids=[os.path.basename(folder) for folder in MODELS])
def test_torch_models(folder):
    """Small models exported by torch, most with operator set 6: they are read, and what is built is right."""
    model = read_model(os.path.join(folder, "model.onnx"))
    find_candidates(model)
    verify_pieces(model)
