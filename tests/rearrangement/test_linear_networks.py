"""Networks by algebra: right for every linear demand, and as small as those that a search finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.rearrangement.networks.linear import cheapest_network, linear_network
from regweave.rearrangement.networks.search import find_network


def played(network, demands, inputs):
    """Whether every output has what is demanded, by taking the nodes literally."""
    _, lanes, pieces = demands.shape
    held = [np.tile(np.arange(pieces) + pieces * number, (lanes, 1)) for number in range(inputs)]
    for node in network.nodes:
        both = np.concatenate([held[node.low], held[node.high]], axis=1)
        held.append(np.take_along_axis(both, np.maximum(node.picks, 0), axis=1))
    found = np.stack([held[output] for output in network.outputs])
    return bool(((found == demands) | (demands < 0)).all())


def spread(columns):
    values = np.zeros(1, dtype=np.int64)
    for column in columns:
        values = np.concatenate([values, values ^ column])
    return values


def demands_of(outputs, lanes, pieces, bits, constant=0):
    """Demands from columns; the low `bits` bits of a slot are the input's number."""
    slots = spread(outputs)[:, None, None] ^ spread(lanes)[:, None] ^ spread(pieces) ^ constant
    return (slots & (1 << bits) - 1) << len(pieces) | slots >> bits


@pytest.mark.parametrize(("pieces", "nodes"), [(4, 8), (8, 24), (16, 64)])
def test_transposes(pieces, nodes):
    demands = np.arange(pieces * pieces).reshape(pieces, pieces).T[:, None, :]
    network = linear_network(demands, pieces)
    assert len(network.nodes) == nodes
    assert played(network, demands, pieces)


def test_rotations_by_the_lane_are_selects():
    demands = demands_of([1, 2], [1, 2], [4, 8], 2)
    network = linear_network(demands, 4)
    assert len(network.nodes) == 8
    assert all(node.selects is not None for node in network.nodes)
    assert played(network, demands, 4)


def test_one_output_of_four_inputs_is_a_tree():
    demands = demands_of([], [], [1, 2], 2) // 4 * 4 + np.arange(4)
    network = linear_network(demands, 4)
    assert len(network.nodes) == 3
    assert played(network, demands, 4)


def test_outputs_with_unused_places_share_words():
    """Two outputs take a byte of each of four inputs, in two of four places."""
    demands = np.full((4, 1, 4), -1)
    for output in range(4):
        for place in range(2):
            demands[output, 0, place] = (2 * place + output // 2) * 4 + output % 2
    network = linear_network(demands, 4)
    assert played(network, demands, 4)
    assert len(network.nodes) <= len(find_network(demands, 4).nodes)


@st.composite
def linear_demands(draw):
    bits, place_bits, lane_bits = draw(st.integers(0, 3)), draw(st.integers(0, 2)), draw(st.integers(0, 3))
    size = bits + place_bits
    columns = [1 << bit for bit in draw(st.permutations(range(size)))]
    for _ in range(draw(st.integers(0, 4)) if size > 1 else 0):
        target, added = draw(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))
        if target != added:
            columns[target] ^= columns[added]
    lanes = draw(st.lists(st.integers(0, (1 << size) - 1), min_size=lane_bits, max_size=lane_bits))
    constant = draw(st.integers(0, (1 << size) - 1))
    demands = demands_of(columns[:bits], lanes, columns[bits:], bits, constant)
    # fewer outputs, and places that nobody uses
    outputs = 1 << draw(st.integers(0, bits))
    unused = draw(st.sampled_from([0, 0, *(1 << bit for bit in range(place_bits))]))
    demands = demands[:outputs].copy()
    demands[:, :, (np.arange(1 << place_bits) & unused) != 0] = -1
    return demands, 1 << bits


@settings(max_examples=150, deadline=None)
@given(linear_demands())
def test_any_linear_demands(case):
    demands, inputs = case
    network = linear_network(demands, inputs)
    if network is not None:
        assert played(network, demands, inputs)
    best = cheapest_network(demands, inputs)
    assert played(best, demands, inputs)
    assert best.weight <= find_network(demands, inputs).weight or len(demands) > 4 or best.weight[1] <= 8


def test_what_is_not_linear_is_searched():
    demands = np.array([[[0, 1, 2, 4]], [[3, 5, 6, 7]]])
    assert linear_network(demands, 2) is None
    assert played(cheapest_network(demands, 2), demands, 2)
    assert linear_network(np.full((2, 1, 4), -1), 2) is None
    assert linear_network(np.zeros((0, 1, 4), dtype=np.int64), 2) is None
