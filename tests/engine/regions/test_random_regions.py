"""Random models of everything that a region can hold, cut into regions at random: the results stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from engine_models import Images

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import MOST_IMAGES, unsupported_reason
from regweave.engine.building.building import build
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.graphs import find_candidates, find_convolutions, find_pieces, find_regions, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
TWICE = np.array([1, 1, 2, 2], np.float32)


class Grown:
    """A model that grows by a node at a time: tensors with their channels and how much larger than x they
    are."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.channels = int(self.random.integers(1, 9))
        self.m = Images(channels=self.channels, size=("height", "width"), seed=seed)
        self.tensors = [("x", self.channels, 1)]

    def model(self) -> onnx.ModelProto:
        for index in range(int(self.random.integers(4, 12))):
            late = self.random.random() < 0.6
            source = self.tensors[-1 if late else int(self.random.integers(len(self.tensors)))]
            grow = (self.product, self.depthwise, self.window, self.function, self.pair, self.gate, self.join,
                    self.largest, self.larger)  # fmt: skip
            found = grow[int(self.random.integers(len(grow)))](f"t{index}", *source)
            self.tensors += [found] if found else []
        name, channels, _ = self.tensors[-1]
        self.m.conv(name, "last", channels, int(self.random.integers(1, 9)), int(self.random.choice([1, 3])))
        read = self.tensors[len(self.tensors) // 2][0]
        return self.m.model(["last", read] if read != "x" and self.random.random() < 0.3 else ["last"])

    def product(self, y, x, channels, scale):
        filters = int(self.random.integers(1, 20))
        return self.m.conv(x, y, channels, filters), filters, scale

    def depthwise(self, y, x, channels, scale):
        return self.m.conv(x, y, channels, channels, 3, group=channels), channels, scale

    def window(self, y, x, channels, scale):
        filters, *kernel = (int(size) for size in self.random.integers(1, (14, 5, 5)))
        dilation = int(self.random.integers(1, 3))
        reach = [(kernel[0] - 1) * dilation, kernel[1] - 1]
        before = [int(self.random.integers(0, size + 1)) for size in reach]
        weights = self.random.standard_normal((filters, channels, *kernel)) / np.sqrt(channels * 9)
        self.m.node(
            "Conv",
            [x, self.m.constant(f"{y}.w", weights.astype(np.float32))],
            y,
            kernel_shape=kernel,
            dilations=[dilation, 1],
            pads=[*before, *(size - first for size, first in zip(reach, before, strict=True))],
        )
        return y, filters, scale

    def function(self, y, x, channels, scale):
        return self.m.node(str(self.random.choice(["Relu", "Sigmoid", "Tanh"])), [x], y), channels, scale

    def pair(self, y, x, channels, scale):
        others = [name for name, *same in self.tensors if same == [channels, scale] and name != x]
        if others:
            op = str(self.random.choice(["Add", "Mul", "Sub"]))
            return self.m.node(op, [x, str(self.random.choice(others))], y), channels, scale
        return None

    def gate(self, y, x, channels, scale):
        mean = self.m.node("GlobalAveragePool", [x], f"{y}.mean")
        return self.m.node("Mul", [x, self.m.conv(mean, f"{y}.g", channels, channels)], y), channels, scale

    def join(self, y, x, channels, scale):
        others = [tensor for tensor in self.tensors if tensor[2] == scale]
        more = [
            others[int(self.random.integers(len(others)))] for _ in range(int(self.random.integers(1, 3)))
        ]
        self.m.node("Concat", [x, *(name for name, _, _ in more)], y, axis=1)
        return y, channels + sum(count for _, count, _ in more), scale

    def largest(self, y, x, channels, scale):
        settings = {"kernel_shape": self.random.integers(1, 4, 2).tolist(), "strides": [1, 1]}
        side = str(self.random.choice(["SAME_UPPER", "SAME_LOWER"]))
        return self.m.node("MaxPool", [x], y, auto_pad=side, **settings), channels, scale

    def larger(self, y, x, channels, scale):
        if scale > 2:
            return None
        if self.random.random() < 0.5:
            scales = self.m.constant(f"{y}.scales", TWICE)
            return self.m.node("Resize", [x, "", scales], y, **NEAREST), channels, 2 * scale
        deep = self.m.conv(x, f"{y}.deep", channels, 12)
        mode = str(self.random.choice(["CRD", "CRD", "DCR"]))
        return self.m.node("DepthToSpace", [deep], y, blocksize=2, mode=mode), 3, 2 * scale


@pytest.mark.parametrize("seed", [0, 2, 5, 6, 7, 16, 20])
def test_random_models_in_regions(seed, run, monkeypatch):
    grown = Grown(seed)
    proto, random = grown.model(), np.random.default_rng(seed)
    monkeypatch.setattr("regweave.engine.regions.banded.BAND_BYTES", int(random.choice([0, 1 << 62])))
    model = read_model(proto, {"batch": 1, "height": 16, "width": 24})
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    chosen = (*chains, *find_convolutions(model, chains))
    pieces = (*chosen, *find_pieces(model, chosen))
    wanted = [piece for piece in pieces if random.random() < 0.8]
    others = [piece for piece in pieces if piece not in wanted]
    regions = find_regions(model, wanted, others, MOST_IMAGES, large=int(random.choice([0, 2000, 1 << 20])))
    assert regions or seed >= 100, "those that always run have regions"
    threads = int(random.integers(1, 3))
    with Workshop() as shop:
        session = build(model, regions, Natives(chosen_machine(), threads, block_size()), shop).open(
            shop, threads
        )
    for batch, height, width in ((1, 16, 24), (2, *(int(size) for size in random.integers(4, 40, 2)))):
        x = random.standard_normal((batch, grown.channels, height, width), dtype=np.float32)
        for found, expected in zip(session.run(None, {"x": x}), run(proto, {"x": x}), strict=True):
            scale = max(1, np.abs(expected).max(initial=0))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=3e-5 * scale, err_msg=str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 500, 20))
def test_many_random_models_in_regions(start, run, monkeypatch):
    for seed in range(start, start + 20):
        test_random_models_in_regions(seed, run, monkeypatch)
