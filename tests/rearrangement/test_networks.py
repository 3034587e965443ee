"""Networks that put words together: right for any demands, and as small as is known for the usual ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regweave.rearrangement.networks.search import find_network


def run(network, lanes, size):
    """What every word of the network holds, played by hand."""
    held = [np.tile(np.arange(size) + size * number, (lanes, 1)) for number in range(network.inputs)]
    for node in network.nodes:
        both = np.concatenate([held[node.low], held[node.high]], axis=1)
        held.append(np.where(node.picks < 0, -1, np.take_along_axis(both, np.maximum(node.picks, 0), axis=1)))
    return [held[output] for output in network.outputs]


def solved(demands, inputs):
    network = find_network(demands, inputs)
    for found, wanted in zip(run(network, *demands.shape[1:]), demands, strict=True):
        assert np.all((wanted < 0) | (found == wanted))
    return network


@given(st.data())
def test_any_demands_are_met(data):
    outputs, lanes, size, inputs = (data.draw(st.integers(1, most)) for most in (5, 4, 5, 6))
    last = inputs * size - 1
    solved(data.draw(arrays(np.int64, (outputs, lanes, size), elements=st.integers(-1, last))), inputs)


@given(st.data())
def test_lanes_that_are_all_alike_need_what_one_does(data):
    outputs, size, inputs = (data.draw(st.integers(1, most)) for most in (6, 5, 9))
    last = inputs * size - 1
    one = data.draw(arrays(np.int64, (outputs, 1, size), elements=st.integers(-1, last)))
    alone, together = find_network(one, inputs), find_network(one.repeat(2, axis=1), inputs)
    assert alone.outputs == together.outputs
    made = [[(n.low, n.high, n.picks[0].tolist()) for n in found.nodes] for found in (alone, together)]
    assert made[0] == made[1]


@pytest.mark.parametrize(("size", "nodes"), [(2, 2), (4, 8), (8, 24), (16, 64)])
def test_transposes(size, nodes):
    square = np.arange(size * size).reshape(size, 1, size)
    assert len(solved(square.transpose(2, 1, 0), size).nodes) == nodes


@pytest.mark.parametrize("turn", [lambda output, lane: output ^ lane % 4, lambda o, lane: (o + lane) % 4])
def test_rotating_words_takes_selects_only(turn):
    words = np.array([[turn(output, lane) for lane in range(8)] for output in range(4)])
    network = solved(words[:, :, None] * 4 + np.arange(4), 4)
    assert len(network.nodes) == 8
    for node in network.nodes:
        assert node.selects is not None


def test_transposing_bytes_that_the_lane_rotates():
    lanes, places = np.arange(32)[:, None] & 3, np.arange(4)
    offered = np.array([places * 4 + (lanes ^ number) for number in range(4)])
    kept = np.array([(places ^ lanes) * 4 + number for number in range(4)])
    assert [len(solved(demands, 4).nodes) for demands in (offered, kept)] == [8, 8]


def test_what_is_there_already_takes_nothing():
    demands = np.array([[[4, 5, 6, 7]], [[0, -1, -1, 3]], [[-1, -1, -1, -1]]])
    network = solved(demands, 2)
    assert network.nodes == ()
    assert network.outputs[:2] == (1, 0)


def test_whole_words_are_selected_and_mixed_ones_are_not():
    straight = solved(np.array([[[0, 1], [2, 3]]]), 2).nodes[0]
    assert straight.selects is not None
    assert straight.selects.tolist() == [False, True]
    assert solved(np.array([[[0, 3], [2, 3]]]), 2).nodes[0].selects is None
    assert solved(np.array([[[1, 0], [2, 3]]]), 2).nodes[0].selects is None
