"""Operators that are prepared by size: which sizes they keep, and what is prepared for other values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_convolutions import conv_model, free, session_of

from regweave.devices.cpu import chosen_machine
from regweave.devices.onnxruntime import NativeSession, SizedOperator, unsupported_reason
from regweave.engine.natives.natives import Natives
from regweave.graphs import find_convolutions, read_model

pytestmark = pytest.mark.skipif(
    chosen_machine() is None or unsupported_reason() is not None, reason="no native kernels on this machine"
)
# transformed on every processor, so that an infinity takes another kernel
SETTINGS = {"channels": 5, "filters": 6, "kernel": 5, "pads": [2, 2, 2, 2]}


def counted(threads: int = 1) -> tuple[NativeSession, list[tuple[int, int, bool]]]:
    """A convolution, and (height, width, finite) of each preparation."""
    (piece,) = find_convolutions(read_model(conv_model(**SETTINGS)))
    operator, asked = Natives(chosen_machine(), threads, 0).build(piece, "Piece").operator, []

    def prepare(shape, **how):
        asked.append((*shape[2:], how.get("finite", True)))
        return operator.prepare(shape, **how)

    own = SizedOperator("Piece", operator.channels, operator.arguments_size, prepare, keep=(operator,))
    return session_of(own, threads), asked


def images(*widths: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal((1, 5, 9, width)).astype(np.float32) for width in widths]


def expected(x: np.ndarray) -> np.ndarray:
    return NativeSession(free(conv_model(**SETTINGS)).SerializeToString()).run(None, {"x": x})[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_for_other_values_are_prepared_when_there_are_such_values(threads):
    session, asked = counted(threads)
    [x] = images(40)
    finite = session.run(None, {"x": x})[0]
    assert asked == [(9, 40, True)]
    np.testing.assert_allclose(finite, expected(x), rtol=0, atol=2e-5)
    y = x.copy()
    y[0, 2, 4, 20] = np.nan
    for _ in range(2):
        found, there = session.run(None, {"x": y})[0], expected(y)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(there))
        np.testing.assert_allclose(found[~np.isnan(there)], there[~np.isnan(there)], rtol=0, atol=2e-5)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], finite)
    assert asked == [(9, 40, True), (9, 40, False)]


def test_sizes_that_are_in_use_stay_when_others_go(monkeypatch):
    monkeypatch.setattr("regweave.devices.onnxruntime.sized.MOST_SIZES", 3)
    session, asked = counted()
    often, *others = images(30, *range(31, 41))
    right = [expected(x) for x in others]
    for x, y in zip(others, right, strict=True):
        session.run(None, {"x": often})
        np.testing.assert_allclose(session.run(None, {"x": x})[0], y, rtol=0, atol=2e-5)
    assert [width for _, width, _ in asked].count(30) < 4
    before = len(asked)
    np.testing.assert_allclose(session.run(None, {"x": others[0]})[0], right[0], rtol=0, atol=2e-5)
    assert len(asked) == before + 1


def test_sizes_of_many_steps_are_few(monkeypatch):
    monkeypatch.setattr("regweave.devices.onnxruntime.sized.MOST_STEPS", 2)
    session, asked = counted()
    for x in 2 * images(30, 31, 32):
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected(x), rtol=0, atol=2e-5)
    assert len(asked) == 6


def test_a_size_may_go_while_another_call_runs_it(monkeypatch):
    monkeypatch.setattr("regweave.devices.onnxruntime.sized.MOST_SIZES", 2)
    session, _ = counted()
    found = images(*range(20, 32))
    found += [np.where(x > 2, np.inf, x).astype(np.float32) for x in found[:4]]
    right = [session.run(None, {"x": x})[0] for x in found]

    def run(seed: int) -> bool:
        order = np.random.default_rng(seed).integers(0, len(found), 60)
        return all(
            np.array_equal(session.run(None, {"x": found[i]})[0], right[i], equal_nan=True) for i in order
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))
