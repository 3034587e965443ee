"""What a caller hands in: every way to say it, and every way to get it wrong."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from regweave.engine.inputs import checked_inputs, ports_of
from regweave.engine.verifying.samples import sample_inputs, sized_model
from regweave.errors import InputError
from regweave.graphs import read_model


def model(*inputs):
    declared = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name, _, _ in inputs]
    results = [helper.make_tensor_value_info(f"{name}_out", kind, shape) for name, kind, shape in inputs]
    graph = helper.make_graph(nodes, "inputs", declared, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = ("x", TensorProto.FLOAT, ["batch", 3, "width"])
IDS = ("ids", TensorProto.INT64, ["batch"])


@pytest.fixture
def two():
    return ports_of(read_model(model(X, IDS), {"batch": 2, "width": 5}))


GOOD = {"x": np.zeros((1, 3, 7), np.float32), "ids": np.zeros(1, np.int64)}


@pytest.mark.parametrize("given", [GOOD, list(GOOD.values()), tuple(GOOD.values())])
def test_by_name_or_in_order(two, given):
    assert checked_inputs(two, given).keys() == {"x", "ids"}


def test_an_only_input_needs_no_name():
    single = ports_of(read_model(model(X), {"batch": 1, "width": 1}))
    assert checked_inputs(single, GOOD["x"])["x"].shape == (1, 3, 7)


def test_any_strides_are_taken(two):
    x = np.arange(42, dtype=np.float32).reshape(7, 3, 2).transpose(2, 1, 0)
    found = checked_inputs(two, {**GOOD, "x": x})["x"]
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, x)


def test_misaligned_memory_is_taken(two):
    memory = np.zeros(4 * 21 + 1, np.uint8)
    x = memory[1:].view(np.float32).reshape(1, 3, 7)
    assert checked_inputs(two, {**GOOD, "x": x})["x"].flags.aligned


def test_dlpack_tensors_are_taken(two):
    torch = pytest.importorskip("torch")
    found = checked_inputs(two, {**GOOD, "x": torch.ones(1, 3, 2)})["x"]
    np.testing.assert_array_equal(found, np.ones((1, 3, 2), np.float32))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": np.zeros((1, 3, 7))}, "float64.*expected float32.*astype"),
        ({"x": np.zeros((1, 3, 7), ">f4")}, ">f4"),
        ({"x": np.zeros((1, 4, 7), np.float32)}, r"\[1, 4, 7\].*\[batch, 3, width\]"),
        ({"x": np.zeros((3, 7), np.float32)}, r"\[3, 7\]"),
        ({"x": [1.0, 2.0]}, "list is not an array"),
        ({"x": np.ma.zeros((1, 3, 7))}, "masked"),
        ({"y": np.zeros(1)}, "no input 'y'.*nearest: x|no input 'y'"),
    ],
)
def test_wrong_values_name_the_input_and_what_was_expected(two, changes, words):
    with pytest.raises(InputError, match=words):
        checked_inputs(two, {**GOOD, **changes})


def test_tensors_without_data(two):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="cannot be shared"):
        checked_inputs(two, {**GOOD, "x": torch.zeros(1, 3, 7, device="meta")})


def test_a_number_is_an_array_without_dimensions():
    ports = ports_of(read_model(model(("x", TensorProto.FLOAT, []))))
    assert checked_inputs(ports, np.float32(3))["x"].shape == ()


def test_missing_and_surplus_values(two):
    with pytest.raises(InputError, match="no value for the inputs ids"):
        checked_inputs(two, {"x": GOOD["x"]})
    with pytest.raises(InputError, match="1 values for 2 inputs"):
        checked_inputs(two, [GOOD["x"]])


def test_batches_count_as_one_and_other_sizes_must_be_given():
    with pytest.raises(InputError, match=r"width.*--dim width=SIZE"):
        sized_model(model(X, IDS), {})
    sized = sized_model(model(X, IDS), {"width": 4})
    assert sized.shapes["x"] == (1, 3, 4)


def test_samples_have_the_types_and_sizes_of_the_inputs():
    sized = read_model(model(X, IDS), {"batch": 2, "width": 5})
    samples = sample_inputs(sized)
    assert samples["x"].shape == (2, 3, 5)
    assert samples["x"].dtype == np.float32
    assert samples["x"].std() > 0.5
    np.testing.assert_array_equal(samples["ids"], np.zeros(2, np.int64))
    np.testing.assert_array_equal(samples["x"], sample_inputs(sized)["x"])
