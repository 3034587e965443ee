"""Random image models: everything that can be native is, blocked and plain, and the results are
onnxruntime's."""

from __future__ import annotations

import numpy as np
import pytest
from engine_models import Images, hard_swish

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import unsupported_reason
from regweave.engine.building.building import build, joined
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.graphs import find_candidates, find_convolutions, find_pieces, read_model
from regweave.machines.x86 import AVX2, AVX512, supports

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
WIDTHS = (1, 7, 8, 16, 24, 32, 33, 40, 64, 96)
LAYERS = 9


def random_model(seed: int):
    """A model of random layers; every tensor that is made may be read again."""
    random = np.random.default_rng(seed)
    first = int(random.choice(WIDTHS))
    m = Images(channels=first, size=("height", "width"), seed=seed)
    tensors = {"x": first}
    for index in range(LAYERS):
        name = str(random.choice(list(tensors)[-3:]))
        width, y = tensors[name], f"t{index}"
        match random.integers(11):
            case 0 | 1 | 2 | 3 as kind:
                tensors[y] = int(random.choice(WIDTHS))
                m.conv(name, y, width, tensors[y], 3 if kind == 3 else 1)
            case 4:
                tensors[hard_swish(m, name, y)] = width
            case 5:
                op = str(random.choice(["Relu", "Sigmoid", "HardSwish", "Tanh", "LeakyRelu"]))
                tensors[m.node(op, [name], y)] = width
            case 6:
                same = [other for other, size in tensors.items() if size == width and other != name]
                other = str(random.choice(same)) if same else name
                tensors[m.node(str(random.choice(["Add", "Mul"])), [name, other], y)] = width
            case 7:
                mean = m.node("ReduceMean", [name], f"{y}.mean", axes=[2, 3], keepdims=1)
                gate = m.node("Sigmoid", [m.conv(mean, f"{y}.conv", width, width)], f"{y}.gate")
                tensors[m.node("Mul", [name, gate], y)] = width
            case 8:
                pool = {"kernel_shape": [2, 2], "strides": [1, 1], "auto_pad": "SAME_UPPER"}
                tensors[m.node(str(random.choice(["MaxPool", "AveragePool"])), [name], y, **pool)] = width
            case _:
                other = str(random.choice(list(tensors)))
                tensors[m.node("Concat", [name, other], y, axis=1)] = width + tensors[other]
    used = {name for node in m.nodes for name in node.input}
    ends = [name for name in tensors if name not in used and name != "x"]
    return m.model(ends or [f"t{LAYERS - 1}"]), first


def check(seed: int, machine, run) -> int:
    proto, width = random_model(seed)
    model = read_model(proto, {"batch": 2, "height": 9, "width": 10})
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    chains = [*chains, *find_convolutions(model, chains)]
    pieces = [*chains, *find_pieces(model, chains)]
    natives = Natives(machine, 1 + seed % 2, block_size())
    with Workshop() as shop:
        built = build(model, pieces, natives, shop)
        apart = built.open(shop, natives.threads)
        whole = joined(built, natives, shop.path).open(shop, natives.threads)
    for shape in ((2, width, 9, 10), (1, width, 1, 1), (3, width, 13, 5)):
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        right = run(proto, {"x": x})
        for session in (apart, whole):
            for expected, found in zip(right, session.run(None, {"x": x}), strict=True):
                scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 * scale, err_msg=str(seed))
    return len(built.blocked)


@pytest.mark.parametrize("machine", [m for m in (AVX512, AVX2) if supports(m)], ids=lambda m: m.name)
@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed, machine, run):
    check(seed, machine, run)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 500, 50))
def test_many_random_models(start, run):
    assert sum(check(seed, chosen_machine(), run) for seed in range(start, start + 50)) > 0
