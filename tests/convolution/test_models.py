"""conv2d against what others say a convolution is: the node tests of onnx, and the nodes of real models."""

import numpy as np
import pytest

from regweave.convolution import conv2d
from regweave.graphs.samples import SAMPLES, sample_model

onnx = pytest.importorskip("onnx", reason="onnx is not installed")


def attributes_of(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def run_node(node, x, w, bias):
    """A Conv node by conv2d."""
    given = attributes_of(node)
    word = given.get("auto_pad", b"NOTSET").decode().lower()
    padding = given.get("pads", 0) if word == "notset" else word
    return conv2d(
        x,
        w,
        None if bias is None else bias.reshape(-1),
        stride=given.get("strides", 1),
        padding=padding,
        dilation=given.get("dilations", 1),
        groups=given.get("group", 1),
        threads=1,
    )


def node_cases():
    from onnx.backend.test.case.node import collect_testcases

    cases = collect_testcases("Conv")
    return [case for case in cases if case.model.graph.node[0].op_type == "Conv"]


@pytest.mark.filterwarnings("ignore")
def test_all_node_tests_of_onnx():
    found = 0
    for case in node_cases():
        for inputs, outputs in case.data_sets:
            x, w, *bias = inputs
            if x.ndim not in (3, 4):
                continue
            y = run_node(case.model.graph.node[0], x, w, *(bias or [None]))
            np.testing.assert_allclose(y, outputs[0], rtol=1e-4, atol=1e-5, err_msg=case.name)
            found += 1
    assert found >= 5


def convolutions(model):
    """(node, weights, bias) of each Conv whose weights are constants."""
    constants = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    for node in model.graph.node:
        if node.op_type == "Conv" and node.input[1] in constants:
            yield node, *(constants[name] if name else None for name in (*node.input[1:], "")[:2])


def by_onnxruntime(node, x, w, bias):
    """The node alone, computed by onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    helper, values = onnx.helper, {node.input[1]: w}
    if bias is not None:
        values[node.input[2]] = bias
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {node.input[0]: x})[0]


@pytest.mark.models
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_convolution_of_the_real_models(name):
    seen = set()
    for node, w, bias in convolutions(onnx.load(sample_model(name))):
        key = (w.shape, str(sorted(attributes_of(node).items())))
        if key in seen:
            continue
        seen.add(key)
        channels = w.shape[1] * attributes_of(node).get("group", 1)
        size = (21, 37)[: w.ndim - 2]
        x = np.random.default_rng(len(seen)).standard_normal((1, channels, *size)).astype(np.float32)
        y, expected = run_node(node, x, w, bias), by_onnxruntime(node, x, w, bias)
        assert y.shape == expected.shape
        assert np.abs(y - expected).max() <= 1e-4 * max(1.0, np.abs(expected).max()), key
