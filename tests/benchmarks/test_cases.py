"""The cases are what the documents say, and their references are right."""

import numpy as np
import onnx
import pytest

from regweave.benchmarks import (
    CASCADES,
    CONVOLUTIONS,
    FEW,
    IMAGES,
    LAYERS,
    PRODUCTS,
    CascadeCase,
    ImageCase,
    ProductCase,
    channels_last_cases,
    compare,
    model_convolutions,
    same_size_case,
    summed,
)
from regweave.benchmarks.cases import cascade_data, product_data, relative_error
from regweave.graphs import read_model, recognise_window


def test_the_cases_that_are_promised():
    assert [case.name for case in CASCADES] == [
        "16384x64-64-64-64",
        "262144x64-64-64",
        "4096x64-512-64",
        "1536x192-384-192",
        "128x384-1536-384",
    ]
    assert [case.name for case in CONVOLUTIONS] == [
        "3x3 3->16 1080x1920",
        "3x3 8->8 1080x1920",
        "7x7/2 3->64 224x224",
        "3x3 64->64 56x56",
        "5x5 1->1 4096x4096",
        "3x3 32->32 512x512",
        "5x5 1->1 4096x4096, column times row",
    ]
    assert [case.name for case in IMAGES] == ["u8 3->3 3000x4000", "f32 3->3 3000x4000"]
    assert [case.name for case in PRODUCTS] == ["1024x1024x1024", "2048x2048x2048"]


def test_flops():
    assert CascadeCase(10, (2, 3, 5)).flops == 2 * 10 * (2 * 3 + 3 * 5)
    assert ProductCase(7).flops == 2 * 7**3
    assert ImageCase("u8", 5, 7).flops == 2 * 5 * 7 * 9
    assert ImageCase("u8", 5, 7).bytes == 5 * 7 * 6 + 48
    assert same_size_case(3, 5, 3, 8, 9, stride=2).flops == 2 * 5 * 4 * 5 * 3 * 9


def test_bytes_are_those_of_every_array_once():
    for case in (CascadeCase(10, (2, 3, 5)), ProductCase(7), same_size_case(3, 5, 3, 8, 9, stride=2)):
        arrays = [value for value in vars(case.data()).values() if isinstance(value, (np.ndarray, tuple))]
        flat = [array for value in arrays for array in (value if isinstance(value, tuple) else [value])]
        inputs = sum(array.nbytes for array in flat if array.dtype == np.float32)
        assert case.bytes == inputs + 4 * case.data().expected.size


def test_a_convolution_is_a_convolution():
    case = same_size_case(2, 3, 3, 6, 7, stride=2)
    data = case.data()
    padded = np.pad(data.x[0], ((0, 0), (1, 1), (1, 1))).astype(np.float64)
    for f, y, x in [(0, 0, 0), (2, 1, 2), (1, 2, 3)]:
        window = padded[:, 2 * y : 2 * y + 3, 2 * x : 2 * x + 3]
        assert data.expected[0, f, y, x] == pytest.approx(np.sum(window * data.weights[f]))
    assert data.expected.shape == case.out_shape


def test_a_cascade_keeps_its_values_in_range_and_its_data_fixed():
    case = CascadeCase(50, (16, 32, 8))
    data, again = cascade_data(case), cascade_data(case)
    assert np.array_equal(data.x, again.x)
    hidden = np.maximum(data.x @ data.weights[0] + data.biases[0], 0)
    assert relative_error(np.maximum(hidden @ data.weights[1] + data.biases[1], 0), data.expected) < 1e-6
    assert 0.1 < data.expected.std() < 10


def test_a_product_is_a_product():
    data = product_data(ProductCase(33))
    assert relative_error(data.a @ data.b, data.expected) < 1e-6


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_errors_of_wrong_results(wrong):
    expected = np.ones((2, 2))
    assert relative_error(np.full((2, 2), 1.5), expected) == 0.5
    assert not relative_error(np.full((2, 2), wrong), expected) <= 1
    assert relative_error(np.ones((2, 3)), expected) == np.inf
    assert relative_error(np.ones((0, 2)), np.ones((0, 2))) == 0


@pytest.mark.parametrize("dtype", ["u8", "f32"])
def test_all_agree_on_the_colours(dtype):
    pytest.importorskip("threadpoolctl")
    document = compare([ImageCase(dtype, 40, 50)], rounds=1, peers=("numpy", "opencv", "opencv.separable"))
    (case,) = document["cases"]
    assert "numpy" in case["peers"]
    assert "opencv.separable" not in case["peers"]


def test_convolutions_of_a_model_are_named_and_counted():
    def conv(x, y, weights, **settings):
        constants.append(onnx.numpy_helper.from_array(np.zeros(weights, np.float32), f"w{y}"))
        return onnx.helper.make_node("Conv", [x, f"w{y}"], [y], **settings)

    constants = []
    nodes = [
        conv("x", "a", (4, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 1]),
        conv("a", "b", (4, 1, 3, 3), pads=[1, 1, 1, 1], group=4),
        conv("b", "c", (4, 1, 3, 3), pads=[1, 1, 1, 1], group=4),
        conv("c", "d", (5, 4, 2, 2), pads=[0, 0, 1, 1], dilations=[1, 2]),
    ]
    described = [onnx.helper.make_tensor_value_info("d", 1, [1, 5, 5, 12])]
    image = onnx.helper.make_tensor_value_info("x", 1, [1, 3, 10, 12])
    graph = onnx.helper.make_graph(nodes, "g", [image], described, constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    read = read_model(model)
    assert all(recognise_window(read, node) for node in read.nodes)
    cases = model_convolutions(read)
    assert [(case.name, case.times) for case in cases] == [
        ("3x3/2x1 3->4 10x12", 1),
        ("3x3 4->4 5x12, 4 groups", 2),
        ("2x2 4->5 5x12, dilation 1x2, padding 0 0 1 1", 1),
    ]
    assert cases[1].flops == 2 * 4 * 5 * 12 * 9


def test_the_sum_of_a_models_convolutions_counts_each_as_often_as_it_is_done():
    one = {"ours_ms": 2.0, "peers": {"torch": 3.0, "openvino": 1.0}, "times": 4}
    other = {"ours_ms": 1.0, "peers": {"torch": 6.0}, "times": 1}
    assert summed([one, other]) == {"ours_ms": 9.0, "peers": {"torch": 18.0}, "ratio_best_peer": 2.0}
    assert summed([])["ratio_best_peer"] is None


def test_layers_and_images_of_several_channels_have_an_order():
    cases = channels_last_cases()
    assert {case.order for case in cases} == {"nhwc"}
    assert all(case.convolution.channels > 1 for case in cases)
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert "3x3 128->128 56x56, 128 groups, nhwc" in names
    assert {layer.convolution for layer in (*LAYERS, *FEW)} <= {case.convolution for case in cases}
