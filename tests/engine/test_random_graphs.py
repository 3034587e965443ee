"""Random graphs of everything at once: ranks from 2 to 5, early and late operator sets, subgraphs that read
what is around them, shared and external weights, several outputs, some of them inside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import unsupported_reason
from regweave.engine.building.building import build, joined
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.natives.natives import Natives
from regweave.errors import UnsupportedError
from regweave.graphs import find_candidates, find_convolutions, find_pieces, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
Shape = tuple[int | str, ...]
OPSETS = (11, 12, 13, 15, 17, 18, 20, 22)
EXTERNAL = 300
"""Bytes of weights that lie in a file of their own."""


class Random:
    """A graph that grows by some nodes at a time; `tensors` are those that may be read, with their shapes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = int(self.random.choice(OPSETS))
        self.channels = int(self.random.choice([1, 3, 8, 12, 16, 24]))
        self.dynamic = bool(self.random.integers(2))
        shape = ("batch", self.channels, "height", "width") if self.dynamic else (2, self.channels, 9, 10)
        self.tensors: dict[str, Shape] = {"x": shape}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[tuple[str, np.ndarray]] = []

    def constant(self, value) -> str:
        array = np.asarray(value)
        self.constants.append((f"c{len(self.constants)}", array))
        return self.constants[-1][0]

    def weights(self, *shape: int) -> str:
        """New ones, or some that are there already."""
        same = [name for name, array in self.constants if array.shape == shape and array.dtype == np.float32]
        if same and self.random.random() < 0.4:
            return same[0]
        scale = max(1, np.prod(shape[1:])) ** -0.5
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def node(self, op_type: str, inputs: Sequence[str], *shapes: Shape, **attributes) -> str:
        made = [f"t{len(self.nodes)}.{index}" for index in range(len(shapes))]
        self.nodes.append(helper.make_node(op_type, inputs, made, f"n{len(self.nodes)}", **attributes))
        self.tensors |= dict(zip(made, shapes, strict=True))
        return made[0]

    def axes(self, op_type: str, x: str, axes: list[int], shape: Shape, since: int, **attributes) -> str:
        """A node whose axes are an input since some operator set."""
        if self.opset >= since:
            return self.node(op_type, [x, self.constant(np.array(axes))], shape, **attributes)
        return self.node(op_type, [x], shape, axes=axes, **attributes)

    def pick(self, images: bool) -> str:
        able = [
            name for name, shape in self.tensors.items()
            if not images or (len(shape) == 4 and isinstance(shape[1], int))
        ]  # fmt: skip
        return able[-1] if self.random.random() < 0.5 else str(self.random.choice(able))

    def image(self) -> None:
        x = self.pick(images=True)
        batch, channels, *size = shape = self.tensors[x]
        assert isinstance(channels, int)
        match self.random.integers(9):
            case 0 | 1 as kind:
                n, side = int(self.random.choice([1, 7, 8, 16, 24])), int(self.random.choice([1, 1, 3, 5]))
                n, groups = (n, 1) if kind == 0 or channels == 1 else (channels, channels)
                inputs = [x, self.weights(n, channels // groups, side, side), self.weights(n)]
                y = self.node("Conv", inputs, (batch, n, *size), group=groups, pads=[side // 2] * 4)
                if self.random.random() < 0.6:
                    self.node(str(self.random.choice(["Relu", "Sigmoid", "Tanh"])), [y], (batch, n, *size))
            case 2:
                mean = self.node("GlobalAveragePool", [x], (batch, channels, 1, 1))
                gate = self.node("Sigmoid", [mean], (batch, channels, 1, 1))
                self.node("Mul", [x, gate], shape)
            case 3:
                pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
                self.node(str(self.random.choice(["MaxPool", "AveragePool"])), [x], shape, **pool)
            case 4:
                like = [
                    n for n, s in self.tensors.items() if len(s) == 4 and (s[0], *s[2:]) == (batch, *size)
                ]
                other = str(self.random.choice(like))
                more = self.tensors[other][1]
                if isinstance(more, int) and channels + more < 150:
                    self.node("Concat", [x, other], (batch, channels + more, *size), axis=1)
            case 5:
                vectors = self.axes("ReduceMean", x, [2, 3], (batch, channels), 18, keepdims=0)
                y = self.node(
                    "Gemm", [vectors, self.weights(5, channels), self.weights(5)], (batch, 5), transB=1
                )
                self.node("Softmax", [y], (batch, 5), axis=1)
            case 6:
                pixels = f"{size[0]}x{size[1]}"
                y = self.node(
                    "Reshape", [x, self.constant(np.array([0, channels, -1]))], (batch, channels, pixels)
                )
                self.node("Transpose", [y], (batch, pixels, channels), perm=[0, 2, 1])
            case 7:
                self.condition(x, shape)
            case _:
                self.loop(x, shape)

    def tensor(self) -> None:
        x = self.pick(images=False)
        shape = self.tensors[x]
        last, rank = shape[-1], len(shape)
        axis = int(self.random.integers(rank))
        size = shape[axis]
        match self.random.integers(10):
            case 0 | 1 if isinstance(last, int):
                n = int(self.random.choice([4, 8, 20]))
                y = self.node("MatMul", [x, self.weights(last, n)], (*shape[:-1], n))
                y = self.node("Add", [y, self.weights(n)], (*shape[:-1], n))
                self.node("Relu", [y], (*shape[:-1], n))
            case 2:
                self.node("Softmax", [x], shape, axis=rank - 1)
            case 3:
                order = [int(value) for value in self.random.permutation(rank)]
                self.node("Transpose", [x], tuple(shape[index] for index in order), perm=order)
            case 4 if isinstance(size, int) and size > 2:
                first, step = int(self.random.integers(size - 1)), int(self.random.choice([1, 2, -1]))
                end, count = (2**40, -(-(size - first) // step)) if step > 0 else (-(2**40), first + 1)
                bounds = (self.constant(np.array([value])) for value in (first, end, axis, step))
                self.node("Slice", [x, *bounds], (*shape[:axis], count, *shape[axis + 1 :]))
            case 5 if isinstance(size, int) and size % 2 == 0:
                half = (*shape[:axis], size // 2, *shape[axis + 1 :])
                how = {"num_outputs": 2} if self.opset >= 18 else {}
                self.node("Split", [x], half, half, axis=axis, **how)
            case 6 if rank in (3, 4):
                order = [*range(rank - 2), rank - 1, rank - 2]
                other = self.node("Transpose", [x], tuple(shape[index] for index in order), perm=order)
                shares = self.node("Softmax", [x], shape, axis=rank - 1)
                self.node("MatMul", [shares, other], (*shape[:-1], shape[-2]))
            case 7 if rank <= 4:
                y = self.axes("Unsqueeze", x, [1], (shape[0], 1, *shape[1:]), 13)
                self.axes("Squeeze", y, [1], shape, 13)
            case 8 if isinstance(last, int) and self.opset >= 17:
                self.node("LayerNormalization", [x, self.weights(last), self.weights(last)], shape)
            case _:
                like = [name for name, other in self.tensors.items() if other == shape]
                op_type = str(self.random.choice(["Add", "Mul", "Sub", "Max"]))
                self.node(op_type, [x, str(self.random.choice(like))], shape)

    def condition(self, x: str, shape: Shape) -> None:
        """A branch reads what is around it."""
        branches = {}
        for key, op_type in (("then_branch", "Relu"), ("else_branch", "Tanh")):
            y = f"{key}{len(self.nodes)}"
            info = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
            branches[key] = helper.make_graph([helper.make_node(op_type, [x], [y])], key, [], [info])
        self.node("If", [self.constant(np.array(bool(self.random.integers(2))))], shape, **branches)

    def loop(self, x: str, shape: Shape) -> None:
        """So does a body, twice."""
        y, info = f"l{len(self.nodes)}", helper.make_tensor_value_info
        nodes = [
            helper.make_node("Identity", ["on"], ["on_still"]),
            helper.make_node("Mul", ["state", x], [f"{y}.m"]),
            helper.make_node("Tanh", [f"{y}.m"], [y]),
        ]
        inputs = [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, [])]
        inputs.append(info("state", TensorProto.FLOAT, None))
        outputs = [info("on_still", TensorProto.BOOL, []), info(y, TensorProto.FLOAT, None)]
        body = helper.make_graph(nodes, "body", inputs, outputs)
        self.node("Loop", [self.constant(np.int64(2)), self.constant(np.array(True)), x], shape, body=body)

    def model(self) -> onnx.ModelProto:
        for _ in range(int(self.random.integers(5, 14))):
            self.image() if self.random.random() < 0.6 else self.tensor()
        read = {name for node in self.nodes for name in node.input}
        ends = [name for name in self.tensors if name not in read and name != "x"]
        ends = list(dict.fromkeys([*ends, str(self.random.choice(list(self.tensors)[1:]))]))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "random",
            [info("x", TensorProto.FLOAT, list(self.tensors["x"]))],
            [info(name, TensorProto.FLOAT, None) for name in ends],
            [numpy_helper.from_array(array, name) for name, array in self.constants],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8 if self.opset < 21 else 10)


def check(seed: int, run, folder) -> int:
    """Every piece native, each alone and joined in both ways; the number of joined members."""
    grown = Random(seed)
    proto = grown.model()
    source = folder / "model.onnx"
    onnx.save(proto, source, save_as_external_data=seed % 3 == 0, size_threshold=EXTERNAL)
    model = read_model(source, {"batch": 2, "height": 9, "width": 10} if grown.dynamic else {})
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    chains = [*chains, *find_convolutions(model, chains)]
    natives = Natives(chosen_machine(), 1 + seed % 2, block_size())
    pieces = []
    for piece in [*chains, *find_pieces(model, chains)]:
        try:
            natives.build(piece, piece.name, blocked=natives.can_block(piece))
            pieces.append(piece)
        except UnsupportedError:
            continue
    count, sessions = 0, []
    with Workshop(model.folder) as shop:
        built = build(model, pieces, natives, shop)
        sessions.append(built.open(shop, natives.threads))
        for products in (True, False):
            whole = joined(built, natives, shop.path, products=products)
            count += sum(len(one.members) for one in whole.joined.values())
            sessions.append(whole.open(shop, natives.threads))
    channels = grown.channels
    shapes = [(2, channels, 9, 10)]
    shapes += [(1, channels, 1, 1), (3, channels, 13, 5)] if grown.dynamic else []
    for shape in shapes:
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        right = run(onnx.load(source), {"x": x}, optimise=False)
        for session in sessions:
            for expected, found in zip(right, session.run(None, {"x": x}), strict=True):
                assert found.shape == expected.shape
                scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * scale, err_msg=str(seed))
    return count


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed, run, tmp_path):
    check(seed, run, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 300, 50))
def test_many_random_graphs(start, run, tmp_path):
    assert sum(check(seed, run, tmp_path) for seed in range(start, start + 50)) > 0
