"""Convolutions with rows apart, taken apart into convolutions of neighbouring rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import helper, numpy_helper

from regweave.cascades.device import choose_machine
from regweave.devices.onnxruntime import DOMAIN, NativeSession, unsupported_reason
from regweave.engine.natives.natives import Natives
from regweave.engine.regions.interleaved import interleaved, worth_parting
from regweave.graphs import find_convolutions, read_model
from regweave.operators import Axis, convolution_of

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))


def test_every_tap_of_every_result_is_the_same_row() -> None:
    grid = itertools.product((5, 6, 9, 16), (1, 2, 3, 5), (2, 3, 4), range(5), range(5))
    for size, kernel, dilation, before, after in grid:
        axis = Axis(size, kernel, 1, dilation, before, after)
        results = []
        for part in interleaved(axis) if axis.outputs > 0 else ():
            rows = range(part.source, size, dilation)[: part.axis.size]
            for n in range(part.axis.outputs):
                results.append(part.target + n * dilation)
                for tap in range(kernel):
                    place, here = axis.place(results[-1], tap), part.axis.place(n, tap)
                    inside = rows[here] if 0 <= here < len(rows) else None
                    assert inside == (place if 0 <= place < size else None), (axis, part)
        assert sorted(results) == list(range(max(0, axis.outputs)))


def test_what_is_taken_apart() -> None:
    def worth(rows: int, dilations: tuple[int, int], **settings) -> bool:
        return worth_parting(convolution_of((1, 8, rows, 9), (8, 8, 3, 3), dilations=dilations, **settings))

    assert worth(40, (2, 1), padding=1)
    assert worth(40, (3, 2))
    assert not worth(40, (1, 2))
    assert not worth(40, (2, 1), strides=(2, 1))
    assert not worth(6, (2, 1))


@pytest.mark.parametrize(
    ("dilations", "pads"), [((2, 1), [1, 1, 1, 1]), ((3, 2), [3, 2, 2, 0]), ((4, 1), [0, 1, 5, 1])]
)
def test_in_a_session(dilations: tuple[int, int], pads: list[int]) -> None:
    """Also with another size than the one that was planned for, and with a value that is not finite."""
    machine = choose_machine()
    if machine is None:
        pytest.skip("no native kernels")
    random = np.random.default_rng(5)
    weight = random.standard_normal((12, 8, 3, 3), dtype=np.float32)
    bias = random.standard_normal(12, dtype=np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", dilations=dilations, pads=pads),
        helper.make_node("LeakyRelu", ["c"], ["y"], name="act", alpha=0.1),
    ]
    ends = [helper.make_tensor_value_info(name, 1, ["n", k, "h", 21]) for name, k in (("x", 8), ("y", None))]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")]
    proto = helper.make_model(
        helper.make_graph(nodes, "dilated", ends[:1], ends[1:], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    (piece,) = find_convolutions(read_model(proto, {"n": 1, "h": 30}), ())
    native = Natives(machine, 1, 16).build(piece, "Piece")
    ours = helper.make_node("Piece", ["x"], ["y"], domain=DOMAIN)
    graph = helper.make_graph([ours], "piece", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    session = NativeSession(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(),
        [native.operator],
        threads=2,
    )
    reference = NativeSession(proto.SerializeToString(), [], threads=1)
    for shape in ((1, 8, 30, 21), (2, 8, 47, 21), (1, 8, 13, 21)):
        x = random.standard_normal(shape, dtype=np.float32)
        for poisoned in (False, True):
            if poisoned:
                x[0, 1, 7, 3] = np.inf
            (got,), (right,) = session.run(None, {"x": x}), reference.run(None, {"x": x})
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
