"""Bounds on networks: no network has fewer nodes, and that of a transpose has as many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.rearrangement.schedule.demands import Demands


def demands(table, inputs):
    return Demands(np.asarray(table, dtype=np.int64), inputs)


def test_a_transpose_of_bytes_takes_eight_nodes():
    transposed = demands([[[4 * i + o for i in range(4)]] for o in range(4)], 4)
    assert transposed.least == len(transposed.network.nodes) == 8


def test_rotating_words_by_the_lane_takes_eight_nodes():
    rotated = demands([[[(o + lane) % 4] for lane in range(4)] for o in range(4)], 4)
    assert rotated.least == len(rotated.network.nodes) == 8


@pytest.mark.parametrize(
    ("table", "least"),
    [
        ([[[0, 1, 2, 3]]], 0),  # as it stands
        ([[[1, 0, 3, 2]]], 1),  # of one word
        ([[[0, 1, -1, -1]]], 0),
        ([[[-1, -1, -1, -1]]], 0),
        ([[[0, 1, 4, 5]], [[2, 3, 6, 7]]], 2),
        ([[[0, 0, 0, 0]]], 1),  # a piece used again
        ([[[1, 0, 3, 2]], [[4, 5, 8, 9]], [[6, 7, 10, 11]]], 3),
    ],
)
def test_small_cases(table, least):
    found = demands(table, 3)
    assert found.least == least == len(found.network.nodes)


def test_nothing_takes_nothing():
    assert demands(np.zeros((0, 4, 2)), 2).least == 0


@given(
    seed=st.integers(0, 1 << 32), outputs=st.integers(1, 6), lanes=st.sampled_from([1, 2, 4]),
    pieces=st.sampled_from([1, 2, 4]), spare=st.integers(0, 2), holes=st.sampled_from([0, 0.3]),
    again=st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_network_has_fewer(seed, outputs, lanes, pieces, spare, holes, again):
    rng, inputs = np.random.default_rng(seed), outputs + spare
    if again:
        table = rng.integers(0, inputs * pieces, (lanes, outputs * pieces))
    else:
        table = np.stack([rng.permutation(inputs * pieces)[: outputs * pieces] for _ in range(lanes)])
    table = np.where(rng.random(table.shape) < holes, -1, table)
    found = demands(table.reshape(lanes, outputs, pieces).swapaxes(0, 1), inputs)
    assert found.least <= len(found.network.nodes)
