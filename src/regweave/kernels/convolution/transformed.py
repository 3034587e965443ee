"""Transformed rows: what a transform's products read, made from the image rows in a strip.

    stage[line][element]                         the band's image rows of one channel, padding included
    strip[channel][group][product][element]      per group of output rows its transformed rows

Opposite points share their sums: with E of the even rows and O of the odd ones, the rows at p and -p are
E + O and E - O. The same holds on the way back, where results are sums of what opposite points gave.

    row at 1, -1 of F(4, 3):  E = d4 - 4 d2, O = d3 - 4 d1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.strip import FillChannel, next_channel
from regweave.kernels.convolution.transforms import Transform
from regweave.values import frozen


@frozen
class FillTransformed:
    """Routine: the strip at slot `strip`, transformed, by way of the rows of one channel at slot `stage`.

    Slots as for FillStrip; rows of either are field `strip_row` bytes.
    """

    transform: Transform

    @property
    def stem(self) -> str:
        return "fill_transformed"

    def write(self, w: Workspace) -> None:
        b = w.b
        value, again = b.general("value"), b.fresh_label("channel")
        w.copy_slot("fill_to", "strip")
        w.copy_slot("channel_at", "lines_at")
        b.emit("mov", value, w.field("channels"))
        b.emit("mov", w.slot("channels_left"), value)
        b.label(again)
        w.copy_slot("line_to", "stage")
        w.call(FillChannel())
        self._channel(w)
        next_channel(w, again)
        b.emit("ret")

    def _channel(self, w: Workspace) -> None:
        """All groups of the staged channel; slot `fill_to` moves behind them."""
        b, t = w.b, self.transform
        names = ("source", "to", "pitch", "groups", "vectors")
        source, to, pitch, groups, vectors = (b.general(name) for name in names)
        group, column = b.fresh_label("group"), b.fresh_label("column")
        b.emit("mov", pitch, w.field("strip_row"))
        b.emit("mov", source, w.slot("stage"))
        b.emit("mov", to, w.slot("fill_to"))
        b.emit("mov", groups, w.field("row_groups"))
        b.label(group)
        b.emit("mov", vectors, pitch)
        b.label(column)
        self._vector(w, source, to, pitch)
        b.emit("add", source, w.geometry.vector_bytes)
        b.emit("add", to, w.geometry.vector_bytes)
        b.emit("sub", vectors, w.geometry.vector_bytes)
        b.emit("jump_nonzero", column)
        rows = b.general("rows")
        b.emit("imul", rows, pitch, t.products - 1)
        b.emit("add", to, rows)
        b.emit("imul", rows, pitch, t.outputs * t.stride - 1)
        b.emit("add", source, rows)
        b.emit("dec", groups)
        b.emit("jump_nonzero", group)
        b.emit("mov", w.slot("fill_to"), to)

    def _vector(self, w: Workspace, source: Variable, to: Variable, pitch: Variable) -> None:
        """A vector of each transformed row, one phase after the other: that takes fewer registers."""
        b, t = w.b, self.transform
        here, there, first = b.general("here"), b.general("there"), b.general("first")
        b.emit("mov", first, source)
        b.emit("mov", there, to)
        for phase in t.phases:
            rows = []
            b.emit("mov", here, first)
            for number in range(phase.image_rows):
                row = b.vector(f"row{number}")
                b.emit("load", row, b.at(here))
                rows.append(row)
                for _ in range(t.stride if number + 1 < phase.image_rows else 0):
                    b.emit("add", here, pitch)
            for value in forward(b, phase, rows):
                b.emit("store", b.at(there), value)
                b.emit("add", there, pitch)
            b.emit("add", first, pitch)


def forward(b: Builder, t: Transform, rows: Sequence[Variable]) -> list[Variable]:
    """The transformed rows of `t.image_rows` image rows."""
    if t.stride > 1:
        parts = [forward(b, phase, rows[first :: t.stride]) for first, phase in enumerate(t.phases)]
        return [row for part in parts for row in part]
    results: dict[int, Variable] = {}
    # E and O are the same for both points of a pair only if every other point has its opposite, too
    symmetric = {-point for point in t.points} == set(t.points)
    pairs = _pairs(t) if symmetric else {}
    for first, second in pairs.items():
        terms = list(zip(t.forward_rows[first], t.forward_rows[second], rows, strict=True))
        even = combine(b, [(c, row) for c, opposite, row in terms if c == opposite])
        odd = combine(b, [(c, row) for c, opposite, row in terms if c != opposite])
        results[first], results[second] = plus_minus(b, even, odd)
    for number, coefficients in enumerate(t.forward_rows):
        if number not in results:
            results[number] = combine(b, list(zip(coefficients, rows, strict=True)))
    return [results[number] for number in range(t.products)]


def inverse(b: Builder, t: Transform, products: Sequence[Variable]) -> list[Variable]:
    """The `t.outputs` results of the products."""
    if t.stride > 1:
        parts, at = [], 0
        for phase in t.phases:
            parts.append(inverse(b, phase, products[at : at + phase.products]))
            at += phase.products
        return [combine(b, [(Fraction(1), part) for part in column]) for column in zip(*parts, strict=True)]
    pairs = _pairs(t)
    sums: dict[int, tuple[Variable, Variable]] = {
        first: plus_minus(b, products[first], products[second]) for first, second in pairs.items()
    }
    results = []
    for coefficients in t.inverse_rows:
        terms = []
        for number, coefficient in enumerate(coefficients):
            if number in sums:
                odd = coefficient != coefficients[pairs[number]]
                terms.append((coefficient, sums[number][odd]))
            elif number not in pairs.values():
                terms.append((coefficient, products[number]))
        results.append(combine(b, terms))
    return results


def transform_back(
    w: Workspace, t: Transform, acc: Mapping[tuple[int, int, int], Variable]
) -> dict[tuple[int, int, int], Variable]:
    """The results [outputs, rows, vectors] of the products [outputs, products, vectors], with their biases.

    Their sum goes to `watched`, which is finite only if all of them are.
    """
    b, results, total = w.b, {}, None
    outputs, vectors = 1 + max(o for o, _, _ in acc), 1 + max(v for _, _, v in acc)
    for o in range(outputs):
        for v in range(vectors):
            for i, value in enumerate(inverse(b, t, [acc[o, p, v] for p in range(t.products)])):
                results[o, i, v] = value
                if total is None:
                    total = b.vector("total")
                    b.emit("move", total, value)
                else:
                    b.emit("add", total, total, value)
    w.b.emit("mov", w.r.walk, w.slot("weights"))
    for key, value in results.items():
        b.emit("add", value, value, b.at(w.r.walk, 4 * key[0], repeat=True))
    assert total is not None
    b.emit("mul", total, total, b.constant(0.0))
    b.emit("add", total, total, watched(w))
    b.emit("store", watched(w), total)
    # in the order of the channels and rows that they are written in
    return {key: results[key] for key in sorted(results)}


def watched(w: Workspace) -> Memory:
    """A vector of zeros, or of NaN where a result was not finite."""
    return w.kept_memory("watched", w.geometry.vector_bytes)


def combine(b: Builder, terms: Sequence[tuple[Fraction, Variable]]) -> Variable:
    """The sum of coefficient * vector, in a register of its own or, of a single one taken once, that one."""
    used = [(c, v) for c, v in terms if c]
    used.sort(key=lambda pair: pair[0] != 1)  # what needs no product comes first
    (coefficient, start), *rest = used
    if not rest and coefficient == 1:
        return start
    total = b.vector("sum")
    if coefficient != 1:
        b.emit("mul", total, start, b.constant(float(coefficient)))
    elif abs(rest[0][0]) == 1:
        factor, vector = rest.pop(0)
        b.emit("add" if factor == 1 else "sub", total, start, vector)
    else:
        b.emit("move", total, start)
    for factor, vector in rest:
        if abs(factor) == 1:
            b.emit("add" if factor == 1 else "sub", total, total, vector)
        else:
            b.emit("fma", total, vector, b.constant(float(factor)))
    return total


def plus_minus(b: Builder, even: Variable, odd: Variable) -> tuple[Variable, Variable]:
    """(even + odd, even - odd)."""
    plus, minus = b.vector("plus"), b.vector("minus")
    b.emit("add", plus, even, odd)
    b.emit("sub", minus, even, odd)
    return plus, minus


def _pairs(t: Transform) -> Mapping[int, int]:
    """Numbers of points whose opposites are points as well -> the opposites' numbers."""
    return {
        number: t.points.index(-point)
        for number, point in enumerate(t.points)
        if point > 0 and -point in t.points
    }
