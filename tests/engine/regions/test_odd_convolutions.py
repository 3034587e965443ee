"""Models with convolutions of every odd kind: whatever can be taken is, and the results are onnxruntime's."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import MOST_IMAGES, unsupported_reason
from regweave.engine.building.building import build
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.graphs import (
    find_candidates,
    find_convolutions,
    find_pieces,
    find_regions,
    read_model,
    spread,
    spreads,
)

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
PAD = "pads = [1, 1, 1, 1]"


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape)
    return (values / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


W = {"w": weights(8, 6, 3, 3), "v": weights(6, 8, 3, 3), "b": weights(8)}
ODD = {
    "no bias": ("y = Conv<PAD>(x, w)", W),
    "an empty bias": ("y = Conv<PAD>(x, w, <>)", W),
    "shared weights": ("a = Conv<PAD>(x, w, b) c = Conv<PAD>(a, v) y = Conv<PAD>(c, w, b)", W),
    "read twice": ("a = Conv<PAD>(x, w) r = Relu(a) s = Sigmoid(a) y = Mul(r, s)", W),
    "read by itself": ("a = Conv<PAD>(x, w) y = Add(a, a)", W),
    "its image added": ("a = Conv<PAD>(x, w) c = Conv<PAD>(a, v) y = Add(c, x)", W),
    "kernel given": ("y = Conv<kernel_shape = [3, 3], auto_pad = \"SAME_LOWER\", strides = [2, 3]>(x, w)", W),
    "dilated": ("y = Conv<pads = [2, 1, 2, 1], dilations = [2, 1]>(x, w)", W),
    "valid": ("y = Conv<auto_pad = \"VALID\">(x, w, b)", W),
    "pads as large as the kernel": ("y = Conv<pads = [3, 3, 3, 3]>(x, w)", W),
    "strides beyond the kernel": ("y = Conv<strides = [4, 5]>(x, w)", W),
    "groups": ("y = Conv<PAD, group = 2>(x, g)", {"g": weights(4, 3, 3, 3)}),
    "each channel twice": ("y = Conv<PAD, group = 6>(x, g)", {"g": weights(12, 1, 3, 3)}),
    "even kernels": ("y = Conv<pads = [0, 1, 1, 0]>(x, g)", {"g": weights(5, 6, 2, 4)}),
    "one row": ("y = Conv<pads = [0, 3, 0, 3], group = 6>(x, g)", {"g": weights(6, 1, 1, 7)}),
    "computed weights": ("k = Mul(w, two) y = Conv<PAD>(x, k)", {**W, "two": np.float32(2)}),
    "weights at run time": ("m = ReduceMean(x) k = Mul(w, m) y = Conv<PAD>(x, k)", W),
    "a bias at run time": ("m = ReduceMean<keepdims = 0>(x) k = Mul(b, m) y = Conv<PAD>(x, w, k)", W),
    "reshaped weights": (
        "k = Reshape(flat, shape) y = Conv<PAD>(x, k)",
        {"flat": weights(8, 54), "shape": np.array([8, 6, 3, 3])},
    ),
    "a norm and two activations": (
        "a = Conv<PAD>(x, w, b) n = BatchNormalization(a, b, b, b, p) r = Relu(n) y = HardSwish(r)",
        {**W, "p": np.full(8, 0.5, np.float32)},
    ),
    "joined twice": (
        "a = Conv<PAD>(x, w) j = Concat<axis = 1>(a, x, a) y = Conv<PAD>(j, k)",
        {**W, "k": weights(4, 22, 3, 3)},
    ),
    "enlarged and added": (
        "a = Conv<PAD>(x, w) u = ConvTranspose<strides = [2, 2]>(a, t, b) y = Relu(u)",
        {**W, "t": weights(8, 8, 2, 2)},
    ),
    "enlarged over its edges": ("y = ConvTranspose<strides = [2, 2], PAD>(x, t)", {"t": weights(6, 4, 3, 3)}),
    "no filters of its own": ("a = Conv(x, k) y = Conv<PAD>(a, w)", {**W, "k": weights(6, 6, 1, 1)}),
}  # fmt: skip
MIDDLE = (
    "a = Conv<PAD>(x, w) c = Conv<PAD>(a, v) j = Concat<axis = 1>(a, c) y = Conv<PAD>(j, k)",
    {**W, "k": weights(4, 14, 3, 3)},
)


def model_of(text: str, constants, outputs=("y",), image="N, 6, H, W") -> onnx.ModelProto:
    body = text.replace("PAD", PAD).replace("<>", "")
    rank = len(image.split(","))
    results = ", ".join(f"float[{', '.join(f'{name}{i}' for i in range(rank))}] {name}" for name in outputs)
    graph = f"g (float[{image}] x) => ({results}) {{ {body} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    for name, value in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def check(proto: onnx.ModelProto, run, threads: int = 1) -> set[str]:
    """Everything that can be native is; the kinds of what was."""
    model = read_model(proto, {"N": 1, "H": 12, "W": 17})
    model = spread(model, spreads(model))
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    convolutions = find_convolutions(model, chains)
    regions = find_regions(model, convolutions, (), MOST_IMAGES)
    held = {name for region in regions for name in region.nodes}
    chosen = [*chains, *regions, *(piece for piece in convolutions if not held & set(piece.nodes))]
    pieces = [*chosen, *find_pieces(model, chosen)]
    natives = Natives(chosen_machine(), threads, block_size())
    with Workshop() as shop:
        session = build(model, pieces, natives, shop).open(shop, threads)
    for shape in ((1, 6, 12, 17), (2, 6, 9, 5), (1, 6, 30, 64)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        for found, expected in zip(session.run(None, {"x": x}), run(proto, {"x": x}), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return {piece.kind for piece in pieces}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ODD)
def test_every_odd_kind(name, threads, run):
    check(model_of(*ODD[name]), run, threads)


@pytest.mark.parametrize("outputs", [("y", "a"), ("y", "c"), ("y", "j"), ("j", "y", "a", "c")], ids="-".join)
def test_outputs_in_the_middle_of_what_could_be_a_region(outputs, run):
    assert "region" in check(model_of(*MIDDLE), run)
    check(model_of(*MIDDLE, outputs=outputs), run)


def test_weights_that_a_caller_may_replace_stay_with_onnxruntime(run):
    proto = model_of(*ODD["no bias"])
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [8, 6, 3, 3]))
    assert check(proto, run) == set()


def test_weights_that_are_known_at_run_time_stay_with_onnxruntime(run):
    for name in ("weights at run time", "a bias at run time"):
        assert "convolution" not in check(model_of(*ODD[name]), run)


@pytest.mark.parametrize(("image", "shape"), [("N, 6, W", (8, 6, 3)), ("N, 6, D, H, W", (8, 6, 3, 3, 3))])
def test_signals_and_volumes(image, shape, run):
    proto = model_of("a = Conv(x, k) y = Relu(a)", {"k": weights(*shape)}, image=image)
    model = read_model(proto, {"N": 1, "W": 17, **{name: 5 for name in "DH" if name in image}})
    pieces = [*find_convolutions(model), *find_pieces(model, find_convolutions(model))]
    with Workshop() as shop:
        session = build(model, pieces, Natives(chosen_machine(), 1, block_size()), shop).open(shop, 1)
    x = np.random.default_rng(0).standard_normal((2, 6, *(5,) * (len(shape) - 3), 17)).astype(np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], run(proto, {"x": x})[0], rtol=1e-4, atol=1e-4)
