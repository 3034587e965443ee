"""Random pairs of layouts of every width: the plan equals the relation, and its matrix keeps the rules."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regweave import rearrange
from regweave.layouts import Layout, element_type
from regweave.machines.amd import GFX942
from regweave.machines.nvidia import SM_80
from regweave.rearrangement.exchange.forms import find_ways
from regweave.rearrangement.problem import find_problem
from regweave.rearrangement.proof import prove
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import Request

WIDTHS = ["b64", "b32", "f16", "s8", "s4", "b1"]
NARROWINGS = [("f32", "f16"), ("f32", "e4m3"), ("f32", "e5m2"), ("s32", "s8"), ("s32", "u8")]
MACHINES = [SM_80, GFX942]


def planned(source, destination, machine):
    """The candidates of a pair, proved, with its problem."""
    request = Request(source, destination, machine, 1)
    relation = relate(source, destination)
    problem = find_problem(relation, machine.lanes)
    found = [way.candidate for way in find_ways(request, problem)]
    for candidate in found:
        prove(candidate.program, relation.in_words)
    return problem, found


def check(source, destination, machine):
    problem, found = planned(source, destination, machine)
    words = len(problem.group.registers)
    for candidate in found:
        matrix = candidate.matrix
        for number in range(matrix.rounds):
            taken = [entry for entry in matrix.column(number) if entry is not None]
            peers = [entry.peer for entry in taken]
            if source.bijective and destination.bijective:
                assert len(set(peers)) == len(peers)
            assert len({(entry.peer, entry.word) for entry in taken}) == len(set(peers))
        if problem.words is not None and source.bijective and destination.bijective:
            assert matrix.rounds <= words
    back = planned(destination, source, machine)[1] if source.dtype == destination.dtype else ()
    assert all(candidate.applies for candidate in (*found, *back))


@st.composite
def permuted_bits(draw):
    """Linear pairs: the bits of (lane, item) in two orders, some of them joined by xor."""
    lane_bits, item_bits = draw(st.integers(1, 5)), draw(st.integers(0, 5))
    order = draw(st.permutations(range(lane_bits + item_bits)))
    numbers = np.arange(1 << lane_bits + item_bits)
    moved = sum((numbers >> bit & 1) << place for bit, place in enumerate(order))
    for _ in range(draw(st.integers(0, 2))):
        one, other = (draw(st.integers(0, len(order) - 1)) for _ in range(2))
        if one != other:
            moved = moved ^ (moved >> one & 1) << other
    return numbers.reshape(1 << lane_bits, -1), moved.reshape(1 << lane_bits, -1)


@st.composite
def random_bijections(draw):
    """Any two ways to place the elements of a small tile."""
    lanes, items = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    order = np.reshape(draw(st.permutations(range(lanes * items))), (lanes, items))
    return np.arange(lanes * items).reshape(lanes, items), order


@st.composite
def replicated(draw):
    """Elements held by several slots on either side."""
    lanes, items, elements = (draw(st.integers(1, most)) for most in (6, 6, 8))
    tables = []
    for _ in range(2):
        size = max(lanes * items, elements)
        table = [draw(st.integers(0, elements - 1)) for _ in range(-(-size // lanes) * lanes)]
        table[:elements] = range(elements)
        tables.append(np.reshape(draw(st.permutations(table)), (lanes, -1)))
    return tables[0], tables[1]


def layouts(tables, dtypes):
    size = int(max(table.max() for table in tables)) + 1
    return [
        Layout(name, (1, size), dtype, table) for name, table, dtype in zip("sd", tables, dtypes, strict=True)
    ]


pairs = st.one_of(permuted_bits(), random_bijections())
types = st.one_of(st.sampled_from(WIDTHS).map(lambda dtype: (dtype, dtype)), st.sampled_from(NARROWINGS))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs, types, st.sampled_from(MACHINES))
def test_bijections_of_any_width(tables, dtypes, machine):
    check(*layouts(tables, dtypes), machine)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(replicated(), types, st.sampled_from(MACHINES))
def test_replicated_elements_of_any_width(tables, dtypes, machine):
    check(*layouts(tables, dtypes), machine)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(pairs, replicated()), types, st.sampled_from(MACHINES))
def test_thousands_of_pairs(tables, dtypes, machine):
    check(*layouts(tables, dtypes), machine)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_the_inverse_plan_undoes_it(dtype):
    rng = np.random.default_rng(7)
    items = 2 * element_type(dtype).per_register
    tables = np.arange(8 * items).reshape(8, items), rng.permutation(8 * items).reshape(8, items)
    source, destination = layouts(tables, (dtype, dtype))
    values = rng.normal(size=(8, items))
    there = rearrange(source, destination, "sm_80", "direct").apply(values)
    assert np.array_equal(rearrange(destination, source, "sm_80", "lean").apply(there), values)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_parts_of_one_lane_change_places(machine):
    source, destination = layouts((np.array([[0, 1]]), np.array([[1, 0]])), ("s4", "s4"))
    assert np.array_equal(rearrange(source, destination, machine).apply(np.array([[5.0, 3.0]])), [[3.0, 5.0]])


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs, st.sampled_from(WIDTHS), st.sampled_from(MACHINES))
def test_the_inverse_plans_undo_thousands_of_pairs(tables, dtype, machine):
    source, destination = layouts(tables, (dtype, dtype))
    values = np.arange(source.elements, dtype=np.float64).reshape(source.table.shape)
    there = rearrange(source, destination, machine).apply(values)
    # what was at an element's slot before is where the other layout has it
    assert np.array_equal(there, values.ravel()[np.argsort(source.table.ravel())][destination.table])
    assert np.array_equal(rearrange(destination, source, machine).apply(there), values)
