"""Algebra over bits, against all elements of small spaces; addresses, against their tables."""

from itertools import combinations, islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.machines.nvidia import SM_80
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.rearrangement.shared.addressing import TurnedValue, lower_addresses, plan_addresses
from regweave.rearrangement.subspaces import Span, bases, common, coordinates, extend, spanned

vectors = st.lists(st.integers(0, 63), max_size=5)


@given(first=vectors, second=vectors)
def test_spans_and_what_they_share(first, second):
    inside = set(spanned(first).tolist())
    assert all((vector in Span(first)) == (vector in inside) for vector in range(64))
    assert set(spanned(common(first, second))) == inside & set(spanned(second))
    assert set(spanned([*first, *extend(first, second)])) == set(spanned([*first, *second]))
    assert len(Span(first)) == len(extend((), first))
    # all of a coset leave the same remainder
    assert len({Span(first).reduce(5 ^ vector) for vector in inside}) == 1


@given(given=st.lists(st.integers(0, 63), max_size=4), count=st.integers(0, 3))
def test_every_subspace_has_one_basis_the_least(given, count):
    inside = sorted({*spanned(given).tolist()} - {0})
    found = list(bases(inside, count))
    every = {}  # the first basis of each subspace, of all sets of elements in order
    for some in combinations(inside, count):
        if len(Span(some)) == count:
            every.setdefault(frozenset(spanned(some).tolist()), some)
    assert found == list(every.values())


def test_bases_of_a_large_space_come_at_once():
    first = list(islice(bases(range(1, 1 << 14), 5), 64))
    assert first[:2] == [(1, 2, 4, 8, 16), (1, 2, 4, 8, 32)]
    assert len({frozenset(spanned(some).tolist()) for some in first}) == 64


@given(basis=st.permutations([1, 2, 4, 8]).map(lambda p: [p[0], p[0] ^ p[1], p[2], p[2] ^ p[3]]))
def test_coordinates_add_up(basis):
    for bit, mask in enumerate(coordinates(basis)):
        assert spanned(basis)[mask] == 1 << bit


def computed(tables, warps=1):
    """What the threads compute for these tables, and how many instructions that takes."""
    words = len(tables)
    builder = ProgramBuilder("p", 32, Array("s", "b32", 1), Array("d", "b32", words), warps=warps)
    lane = builder.step("lane" if warps == 1 else "thread")
    plan = plan_addresses([np.asarray(table) for table in tables])
    results = []
    for value, offset in lower_addresses(plan, builder, lane, SM_80):
        results.append(builder.step("add", (value, builder.constant(offset))))
    found = run_program(builder.finish(results), np.zeros((32 * warps, 1), np.uint32))
    return found.T.tolist(), plan


LANES = np.arange(32)


def test_addresses_that_differ_by_a_constant_share_a_value():
    found, plan = computed([LANES * 16, LANES * 16 + 512, LANES * 16 + 32])
    assert found == [(LANES * 16).tolist(), (LANES * 16 + 512).tolist(), (LANES * 16 + 32).tolist()]
    assert (len(plan.values), plan.operations) == (1, 1)


def test_swizzled_and_padded_addresses():
    swizzled = [LANES % 8 * 16 ^ LANES // 8 * 16 ^ constant for constant in (0, 16, 128)]
    found, plan = computed(swizzled)
    assert found == [table.tolist() for table in swizzled]
    assert len(plan.values) == 1  # an xor, and a known offset
    padded = LANES // 4 * 144 + LANES % 4 * 16
    found, plan = computed([padded])
    assert found == [padded.tolist()]
    assert plan.values[0].joint == "add"


@given(st.lists(st.integers(0, 1023), min_size=32, max_size=32))
def test_any_addresses(table):
    found, _ = computed([np.asarray(table) * 4])
    assert found == [[4 * entry for entry in table]]


THREADS = np.arange(128)


def turned_tables(rows, skews):
    """Bytes in rows of 32 banks; every row begins `skew` banks further, and again at the first bank."""
    first, lane = rows[THREADS // 4 % len(rows)], THREADS % 32
    return [
        (first + at) * 128 + (lane + skew * (first + at)) % 32 * 4 + part
        for at, skew in enumerate(skews)
        for part in range(4)
    ]


def test_turned_rows_share_a_row_and_a_place():
    tables = turned_tables(np.array([3, 1, 7, 4, 0, 11, 5, 2]), [1] * 12)
    found, plan = computed(tables, warps=4)
    assert found == [table.tolist() for table in tables]
    # the bytes of a word are offsets, and what else differs is added to the place before it begins again
    turned = [value for value in plan.values if isinstance(value, TurnedValue)]
    assert len(turned) == 12
    assert len(plan.values) == 14
    assert all(value.operations <= 3 for value in turned)


@settings(max_examples=15)
@given(
    rows=st.lists(st.integers(0, 63), min_size=1, max_size=32).map(np.asarray),
    skews=st.lists(st.integers(0, 31), min_size=1, max_size=4),
)
def test_any_turned_rows(rows, skews):
    tables = turned_tables(rows, skews)
    assert computed(tables, warps=4)[0] == [table.tolist() for table in tables]


@settings(max_examples=15)
@given(st.lists(st.integers(0, 1023), min_size=128, max_size=128), st.integers(0, 255))
def test_any_addresses_of_several_warps(table, further):
    tables = [np.asarray(table) * 4, np.asarray(table) * 4 + 4 * further, np.asarray(table) * 4 ^ 64]
    assert computed(tables, warps=4)[0] == [table.tolist() for table in tables]
