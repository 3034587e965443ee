"""Convolutions in a model: found with what they can hold, run inside onnxruntime at any size, and judged."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regweave
from regweave.convolution import Conv2d, DenseConvolution
from regweave.convolution.planes.native import NativeConvolution
from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import DOMAIN, NativeSession, SizedOperator, unsupported_reason
from regweave.engine.natives.natives import Natives
from regweave.errors import DeviceError, UnsupportedError
from regweave.graphs import find_convolutions, find_pieces, read_model
from regweave.operators import HardSigmoid, Relu

needs_kernels = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)


def model_of(nodes, channels, filters, constants, size=(12, 20)):
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[opset], ir_version=8))


def conv_model(channels=5, filters=6, kernel=3, behind=(), size=(12, 20), **attributes):
    """Conv with bias, then nodes (op, attributes, constant operand or None), in a row."""
    random = np.random.default_rng(1)
    weights = random.standard_normal(
        (filters, channels // attributes.get("group", 1), kernel, kernel), dtype=np.float32
    )
    constants = {"w": weights, "b": random.standard_normal(filters, dtype=np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["t0"], "conv", **attributes)]
    for number, (op, settings, operand) in enumerate(behind):
        inputs = [f"t{number}"]
        if operand is not None:
            constants[f"c{number}"] = operand
            inputs.append(f"c{number}")
        nodes.append(helper.make_node(op, inputs, [f"t{number + 1}"], f"n{number}", **settings))
    nodes[-1].output[0] = "y"
    return model_of(nodes, channels, filters, constants, size)


def scale(filters=6):
    return np.linspace(0.5, 2, filters, dtype=np.float32).reshape(1, filters, 1, 1)


def test_a_convolution_holds_its_affine_work_and_activations():
    behind = [("Mul", {}, scale()), ("Add", {}, scale()), ("Relu", {}, None), ("HardSigmoid", {}, None)]
    (piece,) = find_convolutions(read_model(conv_model(behind=behind, pads=[1, 1, 1, 1])))
    assert (piece.kind, piece.nodes) == ("convolution", ("conv", "n0", "n1", "n2", "n3"))
    assert [type(op) for op in piece.layer.epilogue] == [Relu, HardSigmoid]
    assert piece.layer.bias is not None


def test_work_that_reads_another_vector_behind_an_activation_stays_outside():
    behind = [("Relu", {}, None), ("Mul", {}, scale()), ("Relu", {}, None)]
    model = read_model(conv_model(behind=behind))
    (convolution,) = find_convolutions(model)
    (rest,) = find_pieces(model, [convolution])
    assert convolution.nodes == ("conv", "n0")
    assert rest.nodes == ("n1", "n2")


@pytest.mark.parametrize(
    "change",
    [
        {"size": (2, 2)},  # smaller than the kernel
        {"kernel": 1},  # a product
    ],
)
def test_what_is_no_convolution_of_ours(change):
    assert find_convolutions(read_model(conv_model(**change))) == ()


SETTINGS = [
    {"pads": [1, 1, 1, 1]},
    {"pads": [0, 2, 1, 0], "strides": [2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
    {"pads": [2, 2, 2, 2], "dilations": [2, 2]},
    {"auto_pad": "VALID"},
    {"group": 3, "channels": 6, "filters": 9, "pads": [1, 1, 1, 1]},
    {"kernel": 1, "strides": [2, 2]},
]


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_native_convolutions_equal_onnxruntimes(settings, threads):
    model = conv_model(behind=[("Relu", {}, None)], **settings)
    (piece,) = find_convolutions(read_model(model))
    native = Natives(chosen_machine(), threads, 0).build(piece, "Piece")
    assert isinstance(native.operator, SizedOperator)
    channels = settings.get("channels", 5)
    session, plain = session_of(native.operator, threads), NativeSession(free(model).SerializeToString())
    for shape in ((1, channels, 12, 20), (2, channels, 5, 33), (1, channels, 12, 20), (3, channels, 31, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (ours,), (theirs,) = session.run(None, {"x": x}), plain.run(None, {"x": x})
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


def free(model):
    """The model with an input of any size."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.value_info[:]
    for axis in (0, 2, 3):
        result.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"d{axis}"
    result.graph.output[0].type.tensor_type.ClearField("shape")
    return result


def session_of(operator, threads=1):
    graph = helper.make_graph(
        [helper.make_node(operator.name, ["x"], ["y"], domain=DOMAIN)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * 4)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return NativeSession(model.SerializeToString(), [operator], threads=threads)


@needs_kernels
def test_values_that_a_transform_would_spread_take_the_other_kernel():
    model = conv_model(channels=8, filters=8, pads=[1, 1, 1, 1])
    (piece,) = find_convolutions(read_model(model))
    session = session_of(Natives(chosen_machine(), 1, 0).build(piece, "Piece").operator)
    x = np.random.default_rng(0).standard_normal((1, 8, 24, 20)).astype(np.float32)
    x[0, 2, 7, 7] = np.inf
    (y,) = session.run(None, {"x": x})
    assert np.isfinite(y[:, :, [*range(6), *range(9, 24)]]).all()
    assert not np.isfinite(y[:, :, 6:9, 6:9]).any()


@needs_kernels
def test_an_image_that_does_not_fit_is_an_error_with_the_reason():
    (piece,) = find_convolutions(read_model(conv_model()))
    session = session_of(Natives(chosen_machine(), 1, 0).build(piece, "Piece").operator)
    for shape, words in (((1, 4, 9, 9), "4 channels"), ((1, 5, 2, 9), "height")):
        with pytest.raises(DeviceError, match=words):
            session.run(None, {"x": np.zeros(shape, np.float32)})
    assert session.run(None, {"x": np.zeros((1, 5, 9, 9), np.float32)})[0].shape == (1, 6, 7, 7)


@needs_kernels
def test_calls_at_once_do_not_share_scratch():
    (piece,) = find_convolutions(read_model(conv_model(channels=40, filters=8, pads=[1, 1, 1, 1])))
    session = session_of(Natives(chosen_machine(), 1, 0).build(piece, "Piece").operator)
    images = [np.full((1, 40, 40, 60), value, np.float32) for value in range(1, 5)]
    expected = [session.run(None, {"x": x})[0] for x in images]
    wrong = []

    def call(number):
        for _ in range(20):
            if not np.array_equal(session.run(None, {"x": images[number]})[0], expected[number]):
                wrong.append(number)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@needs_kernels
def test_a_model_of_convolutions_is_fused_and_its_report_says_so():
    model = conv_model(channels=24, filters=24, pads=[1, 1, 1, 1], size=(160, 160))
    fused = regweave.fuse(model, threads=1)
    (entry,) = [piece for piece in fused.report.to_dict()["others"] if piece["kind"] == "convolution"]
    assert tuple(entry["nodes"]) == ("conv",)
    assert "3x3, 24 -> 24 channels" in entry["reason"] or "no gain" in entry["reason"]


@needs_kernels
def test_a_convolution_can_be_kept_out_by_name():
    fused = regweave.fuse(conv_model(channels=24, filters=24, size=(60, 60)), threads=1, apart=["conv"])
    assert fused.report.to_dict()["others"] == []


@needs_kernels
def test_what_runs_a_dense_image_names_its_kernel():
    layer = Conv2d(np.ones((4, 3, 3, 3), np.float32), padding=1, form="transformed")
    dense, exact = (layer.dense((1, 3, 8, 8), finite=finite) for finite in (True, False))
    assert isinstance(dense, DenseConvolution)
    assert dense.out_shape == (1, 4, 8, 8)
    assert dense.flag_bytes > exact.flag_bytes == 0
    with pytest.raises(UnsupportedError, match="order nchw"):
        Conv2d(np.ones((4, 3, 3, 3), np.float32), order="nhwc").dense((1, 8, 8, 3))


@needs_kernels
def test_one_pixel_is_a_plane_though_its_channels_lie_side_by_side():
    model = conv_model(channels=16, filters=24, pads=[1, 1, 1, 1])
    (piece,) = find_convolutions(read_model(model))
    session = session_of(Natives(chosen_machine(), 1, 0).build(piece, "Piece").operator)
    x = np.random.default_rng(0).standard_normal((3, 16, 1, 1)).astype(np.float32)
    [expected] = NativeSession(free(model).SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=0, atol=2e-5)
    layer = Conv2d(np.ones((32, 64, 1, 1), np.float32))
    assert isinstance(layer.dense((1, 64, 1, 1)).native, NativeConvolution)
