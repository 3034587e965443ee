"""The layout pass: same results, fewer reorders, and it leaves alone what it must."""

import numpy as np
import onnx
import pytest
from engine_models import hard_swish

from regweave.engine.building.blocking import Facts, block_images, count_reorders


def facts_of(model: onnx.ModelProto, optimised: onnx.ModelProto, block: int = 16) -> Facts:
    shapes = {}
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in dims)
    return Facts(shapes, {tensor.name: tensor for tensor in optimised.graph.initializer}, {}, block)


@pytest.fixture
def compare(optimise, run):
    """Reorders before and after the pass, once the results are seen to agree."""

    def compared(model, channels=32, size=(9, 11)):
        optimised = optimise(model)
        if not count_reorders(optimised):
            pytest.skip("onnxruntime keeps images plain on this machine")
        blocked = block_images(optimised, facts_of(model, optimised))
        for batch in (1, 3):
            x = np.random.default_rng(batch).standard_normal((batch, channels, *size), dtype=np.float32)
            for expected, found in zip(run(model, {"x": x}), run(blocked, {"x": x}, False), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        return count_reorders(optimised), count_reorders(blocked)

    return compared


@pytest.mark.parametrize("width", [64, 40])
def test_written_out_activations_run_between_blocked_convolutions(images, compare, width):
    m = images()
    m.conv(hard_swish(m, m.conv("x", "a", 32, width, 3), "h"), "y", width, 32, 3)
    before, after = compare(m.model(["y"]))
    assert after == before - 2


def test_a_residual_and_a_plane_mean_join(images, compare):
    m = images(channels=32)
    a = m.conv("x", "a", 32, 48, 3)
    b = hard_swish(m, a, "b")
    mean = m.node("ReduceMean", [b], "mean", axes=[2, 3], keepdims=1)
    m.conv(mean, "gate", 48, 48)
    total = m.node("Add", [b, a], "sum")
    m.conv(total, "y", 48, 16, 3)
    before, after = compare(m.model(["y", "gate"]))
    assert after < before


def test_a_graph_output_stays_plain(images, compare):
    m = images()
    h = hard_swish(m, m.conv("x", "a", 32, 32, 3), "h")
    m.conv(h, "y", 32, 32, 3)
    compare(m.model(["h", "y"]))


def test_concatenation_of_whole_blocks_joins_and_of_parts_does_not(images, compare):
    for width, gain in ((32, True), (24, False)):
        m = images(seed=width)
        parts = [hard_swish(m, m.conv("x", f"a{i}", 32, width, 3), f"h{i}") for i in range(2)]
        m.conv(m.node("Concat", parts, "c", axis=1), "y", 2 * width, 16, 3)
        before, after = compare(m.model(["y"]))
        assert (after <= before - 3) is gain


@pytest.mark.parametrize("width", [32, 24])
def test_enlargement_by_whole_numbers_joins(images, compare, width):
    m = images()
    scales = m.constant("scales", np.float32([1, 1, 2, 2]))
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    h = hard_swish(m, m.conv("x", "a", 32, width, 3), "h")
    m.conv(m.node("Resize", [h, "", scales], "r", **mode), "y", width, 16, 3)
    before, after = compare(m.model(["y"]))
    assert after == before - 2


def test_a_quotient_of_tensors_stays_plain_because_padding_would_become_nan(images, compare):
    m = images()
    a, b = (hard_swish(m, m.conv("x", n, 32, 24, 3), f"{n}h") for n in "ab")
    one = m.constant("one", np.float32(40))
    q = m.node("Div", [a, m.node("Add", [b, one], "b1")], "q")
    m.conv(q, "y", 24, 16, 3)
    compare(m.model(["y"]))


def test_a_model_without_blocked_tensors_is_returned_as_it_is(images):
    m = images()
    m.node("Relu", ["x"], "y")
    model = m.model(["y"])
    assert block_images(model, facts_of(model, model)) is model
