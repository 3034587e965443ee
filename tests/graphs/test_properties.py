"""Random models: whatever is found in them computes what their nodes compute, and the rewritten model too."""

import numpy as np
from graph_checks import all_pieces, parse, run_model, run_rewritten, verify_piece
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.graphs import read_model

UNARY = (
    *("Relu", "Sigmoid", "Tanh", "LeakyRelu<alpha = 0.2>", "HardSwish", "HardSigmoid", "Identity", "Neg"),
    *("Softplus", "Elu", "Clip<>", "com.microsoft.Gelu", "com.microsoft.QuickGelu"),
)
WRITTEN_OUT = (
    "{o}s = Sigmoid({i}) {o} = Mul({i}, {o}s)",
    "{o}d = Div({i}, root) {o}e = Erf({o}d) {o}a = Add({o}e, one) {o}m = Mul({i}, {o}a) {o}=Mul({o}m, half)",
    "{o}a = Add({i}, three) {o}c = Clip({o}a, zero, six) {o}m = Mul({i}, {o}c) {o} = Div({o}m, six)",
    "{o}s = Sigmoid({i}) {o}t = Tanh({i}) {o} = Mul({o}s, {o}t)",
    "{o} = Add({i}, {i})",
    "{o} = Mul({i}, {i})",
)
NUMBERS = {"one": 1, "half": 0.5, "three": 3, "six": 6, "zero": 0, "root": 2**0.5}


class Builder:
    """Writes a random model as text, tensor by tensor, keeping every tensor's width."""

    def __init__(self, draw, order):
        self.draw, self.order = draw, order
        self.random = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.lines, self.weights = [], {name: np.float32(value) for name, value in NUMBERS.items()}
        self.widths = {"x": draw(st.integers(1, 6))}
        self.last = "x"

    def new(self):
        return f"t{len(self.widths)}"

    def constant(self, *shape):
        name = f"w{len(self.weights)}"
        self.weights[name] = self.random.uniform(0.3, 1.5, shape).astype(np.float32)
        return name

    def channel(self, width):
        return self.constant(width) if self.order == "rows" else self.constant(width, 1, 1)

    def emit(self, text, name, width):
        self.lines.append(text)
        self.widths[name] = width
        self.last = name

    def product(self):
        source, name = self.last, self.new()
        k, n = self.widths[source], self.draw(st.integers(1, 6))
        scale = np.float32(1 / k)
        if self.order == "pixels":
            weight, bias = self.constant(n, k, 1, 1), self.constant(n)
            self.weights[weight] = scale * self.random.standard_normal((n, k, 1, 1)).astype(np.float32)
            self.emit(
                f"{name} = Conv({source}, {weight}{self.draw(st.sampled_from(['', f', {bias}']))})", name, n
            )
            return
        weight = self.constant(k, n)
        self.weights[weight] = scale * self.random.standard_normal((k, n)).astype(np.float32)
        gemm = f"Gemm<alpha = 0.5, beta = 2.0>({source}, {weight}, {self.constant(n)})"
        self.emit(f"{name} = {self.draw(st.sampled_from([f'MatMul({source}, {weight})', gemm]))}", name, n)

    def step(self):
        source, name = self.last, self.new()
        width = self.widths[source]
        kind = self.draw(st.integers(0, 5))
        if kind == 0:
            op = self.draw(st.sampled_from(UNARY))
            self.emit(f"{name} = {op}({source})", name, width)
        elif kind == 1:
            self.emit(self.draw(st.sampled_from(WRITTEN_OUT)).format(i=source, o=name), name, width)
        elif kind == 2:
            op = self.draw(st.sampled_from(("Add", "Sub", "Mul", "Div")))
            operand = self.draw(st.sampled_from((self.channel(width), self.constant(), self.constant(1))))
            pair = (source, operand) if op == "Div" or self.draw(st.booleans()) else (operand, source)
            self.emit(f"{name} = {op}({', '.join(pair)})", name, width)
        elif kind == 3:
            stats = [self.constant(width) for _ in range(4)]
            self.emit(f"{name} = BatchNormalization({source}, {', '.join(stats)})", name, width)
        elif kind == 4:
            others = [tensor for tensor, size in self.widths.items() if size == width and tensor != source]
            if others:
                op = self.draw(st.sampled_from(("Add", "Sub", "Mul")))
                pair = [source, self.draw(st.sampled_from(others))]
                if self.draw(st.booleans()):
                    pair.reverse()
                self.emit(f"{name} = {op}({', '.join(pair)})", name, width)
        else:
            self.product()


@st.composite
def models(draw):
    order = draw(st.sampled_from(("rows", "pixels")))
    builder = Builder(draw, order)
    for _ in range(draw(st.integers(1, 10))):
        builder.step()
    builder.product()
    for _ in range(draw(st.integers(0, 4))):
        builder.step()
    dims = "N, {}" if order == "rows" else "N, {}, H, W"
    outputs = [builder.last]
    more = [tensor for tensor in builder.widths if tensor not in ("x", builder.last)]
    if more and draw(st.booleans()):
        outputs.append(draw(st.sampled_from(more)))
    declared = ", ".join(f"float[{dims.format(builder.widths[name])}] {name}" for name in outputs)
    x = f"float[{dims.format(builder.widths['x'])}] x"
    body = " ".join(builder.lines)
    used = {
        name: value
        for name, value in builder.weights.items()
        if any(f"{end}{name}{stop}" in body for end in "( " for stop in "),")
    }
    rank = (
        (draw(st.integers(1, 4)),)
        if order == "rows"
        else (draw(st.integers(1, 2)), 3, draw(st.integers(1, 3)))
    )
    shape = (rank[0], builder.widths["x"], *rank[1:])
    return parse(f"g ({x}) => ({declared}) {{ {body} }}", weights=used), builder.random.standard_normal(
        shape
    ).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(models())
def test_random_models(case):
    proto, x = case
    model = read_model(proto)
    pieces = all_pieces(model)
    names = [name for piece in pieces for name in piece.nodes]
    assert len(names) == len(set(names))
    for seed, piece in enumerate(pieces):
        verify_piece(model, piece, seed)
    expected = run_model(model.proto, {"x": x})
    for mine, theirs in zip(run_rewritten(model, pieces, {"x": x}), expected, strict=True):
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(mine / scale, theirs / scale, rtol=0, atol=2e-4)
