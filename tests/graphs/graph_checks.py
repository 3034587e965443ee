"""What the tests of `graphs` share: small models as text, and the proof that a piece is what its nodes are.

model = parse('''g (float[M, 4] x) => (float[M, 4] y) { y = Relu(x) }''', opset=17)
verify_pieces(read_model(model))
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
import onnx.parser
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from regweave.graphs import (
    Model,
    Piece,
    find_candidates,
    find_convolutions,
    find_pieces,
    read_model,
    replace_pieces,
)
from regweave.graphs.attributes import outer_reads
from regweave.graphs.reading.reading import OVERRIDABLE_FROM

TOLERANCE = 2e-5
BIG = 10**6


def parse(
    text: str, opset: int = 17, weights: dict[str, np.ndarray] | None = None, ir: int = 8
) -> onnx.ModelProto:
    """A model from ONNX's text form of a graph; `weights` become initializers."""
    domains = f'["" : {opset}, "com.microsoft" : 1]'
    model = onnx.parser.parse_model(f"<ir_version: {ir}, opset_import: {domains}> {text.replace('<>', '')}")
    for name, value in (weights or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32 numbers."""
    return (scale * np.random.default_rng(seed + prod(shape)).standard_normal(shape)).astype(np.float32)


def concrete(
    model: Model, name: str, sizes: dict[str, int], rng: np.random.Generator, most: int
) -> tuple[int, ...]:
    """A shape for a tensor, with a size below `most` drawn for each symbol that is met for the first time."""
    dims = []
    for dim in model.symbols[name]:
        if isinstance(dim, int):
            dims.append(dim)
            continue
        parts = [
            int(p) if p.isdigit() else sizes.setdefault(p, int(rng.integers(1, most))) for p in dim.split("*")
        ]
        dims.append(prod(parts))
    return tuple(dims)


def fixed_size(model: Model, piece: Piece) -> int:
    """The product of the input's sizes that never vary."""
    return prod(dim for dim in model.symbols.get(piece.input, ()) if isinstance(dim, int))


def piece_inputs(model: Model, piece: Piece, seed: int = 0) -> dict[str, np.ndarray]:
    """Random run-time inputs of a piece, by name."""
    rng = np.random.default_rng(seed)
    most = 2 if fixed_size(model, piece) > BIG else 7
    sizes: dict[str, int] = {}
    found: dict[str, np.ndarray] = {}
    for value in extract_piece(model, piece).graph.input:
        if value.name in model.constants:
            continue
        unknown = (3, *piece.widths[:1])
        shape = concrete(model, value.name, sizes, rng, most) if value.name in model.symbols else unknown
        if model.types.get(value.name, onnx.TensorProto.FLOAT) == onnx.TensorProto.FLOAT:
            found[value.name] = rng.standard_normal(shape).astype(np.float32)
            continue
        reshape = next(
            model.nodes[i] for i in model.readers[value.name] if model.nodes[i].name in piece.nodes
        )
        found[value.name] = np.array(concrete(model, reshape.output[0], sizes, rng, most))
    return found


def piece_reference(model: Model, piece: Piece, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The piece's result in float64, by the operators that it was turned into."""
    x = inputs[piece.input]
    x = x.T if piece.transposed else x
    if piece.window is not None:
        layer = piece.layer
        y = piece.window.convolution(x.shape).reference(x, layer.weights, layer.bias)
        for op in layer.epilogue:
            y = op.reference(y)
        return y
    added = piece.added
    extras = [
        inputs[name] if name in inputs else added[name] if name in added else model.constants.value(name)
        for name in piece.extra_inputs
    ]
    shape = piece.output_shape(x.shape)
    if piece.run is not None:
        axis = piece.channel_axis % x.ndim if x.ndim else 0
        view = (prod(x.shape[:axis]), x.shape[axis], -1) if piece.channel_axis != -1 else x.shape
        return piece.run.reference(x.reshape(view), [e.reshape(view) for e in extras]).reshape(shape)
    chain = piece.chain
    assert chain is not None
    assert chain.widths == piece.widths
    if piece.order == "rows":
        views = [e.reshape(-1, width) for e, width in zip(extras, chain.extra_widths, strict=True)]
        return chain.reference(x.reshape(-1, chain.widths[0]), views).reshape(shape)
    batch, pixels = prod(x.shape[: piece.channel_axis]), prod(x.shape[piece.channel_axis + 1 :])
    views = [e.reshape(batch, width, pixels) for e, width in zip(extras, chain.extra_widths, strict=True)]
    return chain.reference(x.reshape(batch, chain.widths[0], pixels), views).reshape(shape)


def run_nodes(model: Model, piece: Piece, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The piece's original nodes, run by onnxruntime."""
    return run_model(extract_piece(model, piece), inputs)[0]


def run_model(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs of a model, run by onnxruntime with one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def all_pieces(model: Model, **named: object) -> tuple[Piece, ...]:
    """Every piece of a model that can be built: chains, then singles and runs in what they leave."""
    chains = tuple(piece for piece in find_candidates(model, **named) if piece.refusal is None)
    chains = (*chains, *find_convolutions(model, chains))
    return (*chains, *find_pieces(model, chains))


def verify_piece(model: Model, piece: Piece, seed: int = 0) -> None:
    """A piece gives what its nodes give, to within rounding."""
    inputs = piece_inputs(model, piece, seed)
    expected = run_nodes(model, piece, inputs)
    found = piece_reference(model, piece, inputs)
    assert found.shape == expected.shape, piece.nodes
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(
        found / scale, expected / scale, rtol=0, atol=TOLERANCE, err_msg=str(piece.nodes)
    )


def verify_pieces(model: Model) -> tuple[Piece, ...]:
    """All pieces of a model give what their nodes give; they share no nodes.

    Element-wise runs on images of millions of pixels are left out: smaller ones of the same kind are there.
    """
    pieces = all_pieces(model)
    names = [name for piece in pieces for name in piece.nodes]
    assert len(names) == len(set(names))
    for seed, piece in enumerate(pieces):
        if piece.links or fixed_size(model, piece) <= BIG:
            verify_piece(model, piece, seed)
    return pieces


def chains_of(proto: onnx.ModelProto | Model, **named: object) -> tuple[Piece, ...]:
    """The candidates of a model that are not refused."""
    model = proto if isinstance(proto, Model) else read_model(proto)
    return tuple(piece for piece in find_candidates(model, **named) if piece.refusal is None)


def run_rewritten(model: Model, pieces: Sequence[Piece], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The rewritten model, every Region computed by the float64 reference of its piece; for small models."""
    by_name = {f"regweave/{piece.name}": piece for piece in pieces}

    class Region(OpRun):
        op_domain = "regweave"

        def _run(self, x, *extras):
            piece = by_name[self.onnx_node.name]
            given = {
                piece.input: x.T if piece.transposed else x,
                **dict(zip(piece.extra_inputs, extras, strict=True)),
            }
            return (piece_reference(model, piece, given).astype(np.float32),)

    rewritten = replace_pieces(model, pieces)
    return list(ReferenceEvaluator(rewritten, new_ops=[Region]).run(None, inputs))


def restored(model: Model, pieces: Sequence[Piece]) -> onnx.ModelProto:
    """The rewritten model with the original nodes put back in place of each Region."""
    rewritten = replace_pieces(model, pieces)
    by_name = {f"regweave/{piece.name}": piece for piece in pieces}
    kept = [node for node in rewritten.graph.node if node.op_type != "Region"]
    regions = [node for node in rewritten.graph.node if node.op_type == "Region"]
    assert {node.name for node in regions} == set(by_name)
    for node in regions:
        piece = by_name[node.name]
        source = f"{node.name}/transposed" if piece.transposed else piece.input
        assert list(node.input) == [source, *piece.extra_inputs]
        assert list(node.output) == [piece.output]
        part = extract_piece(model, piece)
        present = {tensor.name for tensor in rewritten.graph.initializer}
        rewritten.graph.initializer.extend(t for t in part.graph.initializer if t.name not in present)
        known = {other.name for other in kept}
        kept.extend(other for other in part.graph.node if other.name not in known)
    position = model.positions
    kept.sort(key=lambda node: position.get(node.name, -1))
    del rewritten.graph.node[:]
    rewritten.graph.node.extend(kept)
    return rewritten


def extract_piece(model: Model, piece: Piece) -> onnx.ModelProto:
    """The original nodes of a piece as a model of their own, to run or to time what the piece replaces.

    Its inputs are the piece's `input` (not transposed) and those of its `extra_inputs` that are not
    constants, in that order; its output is the piece's.
    """
    names = set(piece.nodes)
    nodes = [node for node in model.nodes if node.name in names]
    given = [
        piece.input,
        *(name for name in piece.extra_inputs if name in model.types and name not in model.constants),
    ]
    given = list(dict.fromkeys(given))
    made = {name for node in nodes for name in node.output}
    wanted = {name for node in nodes for name in outer_reads(node)} - made - set(given)
    initializers: list[onnx.TensorProto] = []
    stored = {tensor.name: tensor for tensor in model.proto.graph.initializer}
    helpers: set[int] = set()
    queue = sorted(wanted)
    while queue:
        name = queue.pop()
        if name in stored:
            initializers.append(stored.pop(name))
        elif name in model.makers and model.makers[name] not in helpers:
            helpers.add(model.makers[name])
            source = model.nodes[model.makers[name]]
            if name not in model.constants:
                given.append(name)
                helpers.discard(model.makers[name])
            else:
                queue.extend(outer_reads(source))
        elif name in model.inputs:
            given.append(name)
    result = onnx.ModelProto(ir_version=model.proto.ir_version)
    result.opset_import.extend(model.proto.opset_import)
    graph = result.graph
    graph.name = "piece"
    graph.node.extend(model.nodes[index] for index in sorted(helpers))
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)
    graph.input.extend(_declaration(model, name) for name in dict.fromkeys(given))
    if model.proto.ir_version < OVERRIDABLE_FROM:
        graph.input.extend(_declaration(model, tensor.name) for tensor in initializers)
    graph.output.append(_declaration(model, piece.output))
    return result


def _declaration(model: Model, name: str) -> onnx.ValueInfoProto:
    """A tensor's type and shape with only the sizes that never vary."""
    shape = model.symbols.get(name)
    sizes = None if shape is None else [dim if isinstance(dim, int) else None for dim in shape]
    return helper.make_tensor_value_info(name, model.types.get(name, onnx.TensorProto.FLOAT), sizes)


def real_inputs(model, choose):
    """Inputs of sizes that the sample models take."""
    sizes = {
        "DynamicDimension.0": choose.randint(1, 2),
        "batch_size": 1,
        "N": 1,
        "frames": 40,
    }
    sizes |= {
        "DynamicDimension.1": 32 * choose.randint(2, 4),
        "DynamicDimension.2": 64,
        "x[0]?": 2,
        "x[2]?": 48,
    }
    sizes |= {"x[3]?": 8 * choose.randint(8, 12)}
    return {
        name: normal(*(sizes[dim] if isinstance(dim, str) else dim for dim in model.symbols[name]))
        for name in model.inputs
    }
