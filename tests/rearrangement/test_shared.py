"""Shared memory: every form is proved, and no access has a bank conflict."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout, find_machine
from regweave.rearrangement.proof import prove
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import Request
from regweave.rearrangement.shared.banks import bank_conflicts, conflicts
from regweave.rearrangement.shared.forms import FORMS, SharedWay
from regweave.rearrangement.shared.matrix_rows import as_rows
from regweave.rearrangement.shared.passages import Choice, linear_passage
from regweave.rearrangement.shared.trials import trial_passage

SM_80, GFX942 = find_machine("sm_80"), find_machine("gfx942")
ROW_BLOCKED = Layout.linear(
    "row blocked", (16, 32), "f32",
    lane=[(0, 16), (1, 0), (2, 0), (4, 0), (8, 0)], item=[(0, 1), (0, 2), (0, 4), (0, 8)],
)  # fmt: skip
EIGHT_K = Layout.linear(
    "8 contiguous k", (16, 32), "f16",
    lane=[(0, 8), (0, 16), (1, 0), (2, 0), (4, 0)], item=[(0, 1), (0, 2), (0, 4), (8, 0)],
)  # fmt: skip


def c_of(name, rows, columns, dtype=None):
    layout = find_layout(f"{name}:C").repeat(rows, columns)
    return layout if dtype is None else layout.retype(dtype)


def whole_warp(source, destination, machine=SM_80):
    """The three candidates; those that apply are proved and free of bank conflicts."""
    relation = relate(source, destination)
    request = Request(source, destination, machine, 1)
    found = [SharedWay(request, relation, form).candidate() for form in FORMS]
    assert tuple(candidate.form for candidate in found) == FORMS
    for candidate in found:
        assert candidate.strategy == "shared"
        if candidate.program is not None:
            prove(candidate.program, relation)
            assert bank_conflicts(candidate.program, machine) == 0
            (memory,) = candidate.program.memories
            assert memory.bytes <= machine.shared_bytes
    return found


def operand(name, rows=1, columns=1):
    return find_layout(name).repeat(rows, columns)


# the layouts of known conversions, with the instructions of the best one known
F16, S8 = "mma.m16n8k16.f16", "mma.m16n8k32.s8"
CASES = {
    "tf32 C -> A": (c_of("mma.m16n8k8.tf32", 1, 4), operand("mma.m16n8k8.tf32:A", 1, 4), SM_80, 64),
    "f16, 8 contiguous k": (c_of(F16, 1, 4, "f16"), EIGHT_K, SM_80, 35),
    "f32 C -> row blocked": (c_of(F16, 1, 4), ROW_BLOCKED, SM_80, 38),
    "f16 C -> B": (c_of(F16, 2, 2, "f16"), operand(f"{F16}:B", 2, 2), SM_80, 62),
    "f32 C -> f16 B": (c_of(F16, 2, 2), operand(f"{F16}:B", 2, 2), SM_80, 62),
    "s8 C -> B": (c_of(S8, 2, 2, "s8"), operand(f"{S8}:B", 1, 2), SM_80, 77),
    "s8 C -> A": (c_of(S8, 1, 4, "s8"), operand(f"{S8}:A"), SM_80, 25),
    "gfx942 f32 16x16x4": (
        operand("v_mfma_f32_16x16x4_f32:D").transpose(),
        operand("v_mfma_f32_16x16x4_f32:A", 1, 4),
        GFX942,
        29,
    ),
    "gfx942 f16 D -> A": (
        operand("v_mfma_f32_16x16x16_f16:D").retype("f16"),
        operand("v_mfma_f32_16x16x16_f16:A"),
        GFX942,
        38,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_warp_at_once(name):
    source, destination, machine, most = CASES[name]
    found = whole_warp(source, destination, machine)[0]
    assert found.cost.instructions <= most
    assert found.cost.barriers == 1
    assert "no bank conflicts" in found.reason


def test_wide_accesses_where_both_sides_hold_the_same_elements():
    found = whole_warp(*CASES["tf32 C -> A"][:2])[0]
    assert (found.cost.shared_stores, found.cost.shared_loads, found.cost.shared_words) == (4, 4, 32)
    found = whole_warp(*CASES["f32 C -> row blocked"][:2])[0]
    assert (found.cost.shared_stores, found.cost.shared_loads, found.cost.shared_words) == (4, 4, 32)


def test_a_byte_transpose_stores_words():
    found = whole_warp(*CASES["s8 C -> B"][:2])[0]
    assert found.cost.shared_words <= 8
    assert found.program.count()["permute"] == 16


def test_matrices_exchange_between_lanes_on_the_way():
    found = whole_warp(*CASES["f16 C -> B"][:2])[0]
    assert found.program.count()["shared_load"] == 2
    loads = [step for step, _ in found.program.walk() if step.opcode == "matrix_load"]
    assert [step.numbers[:2] for step in loads] == [(4, 1), (4, 1)]  # transposed
    assert "permute" not in found.program.count()
    back = whole_warp(EIGHT_K, c_of(F16, 1, 4, "f16"), find_machine("sm_90a"))[0]
    assert back.cost.instructions <= 14


@pytest.mark.parametrize("transposed", [False, True])
def test_registers_as_rows(transposed):
    layout = operand(f"{F16}:B", 2, 2)
    rows = as_rows(layout, transposed=transposed)
    for lane, item, matrix in product(range(8), (0, 8), range(4)):
        # row `lane` of matrix 0, its word 0, falls to lane 4 * lane; transposed, to lane 0 and the next ones
        held = {int(e) for e in rows.layout.table[lane + 8 * matrix, item : item + 8]}
        lanes = range(4 * lane, 4 * lane + 4) if not transposed else [4 * g + lane // 2 for g in range(8)]
        items = rows.word(item, matrix) if not transposed else (rows.word(item, matrix)[lane % 2],)
        assert held == {int(layout.table[at, i]) for at in lanes for i in items}
    assert as_rows(Layout("odd", (3, 8), "f16", np.arange(24).reshape(8, 3)), transposed=False) is None


def test_in_parts_it_takes_less_memory_and_more_barriers():
    whole, grouped, _ = whole_warp(*CASES["tf32 C -> A"][:2])
    assert grouped.program.memories[0].bytes < whole.program.memories[0].bytes / 1.5
    assert grouped.cost.barriers > whole.cost.barriers
    assert "parts" in grouped.reason
    assert whole_warp(*CASES["f32 C -> row blocked"][:2])[1].program is None


def test_every_lane_permutes_its_own_words():
    lanes = np.arange(32)[:, None]
    source = Layout("mine", (32, 4), "b32", lanes * 4 + np.arange(4))
    turned = Layout("turned", (32, 4), "b32", lanes * 4 + (np.arange(4) + lanes) % 4)
    single = whole_warp(source, turned)[2]
    assert single.cost.barriers == 0
    assert (single.cost.shared_stores, single.cost.shared_loads) == (4, 4)
    halves = whole_warp(source.retype("f16"), turned.retype("f16"))[2]
    assert halves.cost.shared_words == 2 + 4
    other = whole_warp(source, Layout("next", (32, 4), "b32", (lanes * 4 + 4 + np.arange(4)) % 128))[2]
    assert other.program is None
    assert other.reason == "lane 0 needs element (1, 0) of lane 1"


def transpose(rows, columns, lanes, dtype):
    """Rows over lanes, and columns over lanes."""
    numbers = np.arange(rows * columns)
    along = numbers.reshape(lanes, -1)
    across = numbers.reshape(rows, columns).T.reshape(lanes, -1)
    return Layout("rows", (rows, columns), dtype, along), Layout("columns", (rows, columns), dtype, across)


@pytest.mark.parametrize(
    ("size", "lanes", "dtype", "machine"),
    [
        (32, 32, "f32", SM_80),
        (64, 32, "f16", SM_80),
        (128, 32, "s8", SM_80),
        (128, 128, "f32", SM_80),
        (128, 128, "f16", SM_80),
        (128, 256, "f32", SM_80),
        (64, 64, "f32", GFX942),
        (128, 256, "f16", GFX942),
        (128, 128, "f32", GFX942),  # all of its memory: no room for padding
    ],
)
def test_transposes_have_no_bank_conflicts(size, lanes, dtype, machine):
    whole = whole_warp(*transpose(size, size, lanes, dtype), machine)[0]
    assert whole.program is not None
    warps = lanes // machine.lanes
    assert whole.program.warps == warps
    barriers = {step.symbol for step, _ in whole.program.walk() if step.opcode == "barrier"}
    assert barriers == {"block" if warps > 1 else "warp"}


def test_warps_that_keep_to_themselves_do_not_wait_for_the_block():
    source, destination = transpose(32, 32, 32, "f32")
    tables = [np.concatenate([side.table, side.table + 1024]) for side in (source, destination)]
    two = [Layout("two", (64, 32), "f32", table) for table in tables]
    whole = whole_warp(*two)[0]
    assert {step.symbol for step, _ in whole.program.walk() if step.opcode == "barrier"} == {"warp"}


def test_elements_that_several_lanes_hold():
    lane = np.arange(32)[:, None]
    held = Layout("held twice", (16, 4), "b32", lane % 16 * 4 + np.arange(4))
    needed = Layout("needed twice", (16, 4), "b32", np.arange(4)[None] * 16 + lane // 2)
    assert whole_warp(held, needed)[0].program is not None
    once = Layout("once", (16, 4), "b32", np.arange(64).reshape(32, 2))
    for pair in ((held, once), (once, needed), (needed, held)):
        assert whole_warp(*pair)[0].program is not None


def test_few_lanes_and_odd_sizes():
    rng = np.random.default_rng(3)
    for lanes, words in ((12, 3), (6, 5), (16, 4), (24, 2)):
        size = lanes * words
        source = Layout("s", (lanes, words), "b32", np.arange(size).reshape(lanes, words))
        destination = Layout("d", (lanes, words), "b32", rng.permutation(size).reshape(lanes, words))
        assert whole_warp(source, destination)[0].program is not None
        shifted = Layout("d", (lanes, words), "b32", ((np.arange(size) + words) % size).reshape(lanes, words))
        assert whole_warp(source, shifted)[0].program is not None


@st.composite
def linear_pairs(draw):
    """Two layouts of one tile, linear over bits, with random bases."""
    bits = draw(st.integers(5, 10))
    columns = draw(st.integers(1, bits - 1))
    layouts = []
    for name in ("s", "d"):
        order = draw(st.permutations(range(bits)))
        basis = [1 << bit for bit in order]
        for target, other in draw(
            st.lists(st.tuples(st.integers(0, bits - 1), st.integers(0, bits - 1)), max_size=6)
        ):
            if target != other:
                basis[target] ^= basis[other]
        pairs = [divmod(vector, 1 << columns) for vector in basis]
        dtype = draw(st.shared(st.sampled_from(["b32", "f16", "s8", "b32"]), key="type"))
        layouts.append(
            Layout.linear(name, (1 << bits - columns, 1 << columns), dtype, lane=pairs[:5], item=pairs[5:])
        )
    return layouts


@settings(max_examples=80, deadline=None)
@given(pair=linear_pairs())
def test_any_linear_relation(pair):
    assert whole_warp(*pair)[0].program is not None


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(128)))
def test_any_relation_is_proved(order):
    source = Layout("s", (32, 4), "b32", np.arange(128).reshape(32, 4))
    assert whole_warp(source, Layout("d", (32, 4), "b32", np.reshape(order, (32, 4))))[0].program is not None


@pytest.mark.parametrize("machine", [SM_80, GFX942], ids=lambda machine: machine.name)
@pytest.mark.parametrize("dtype", ["b32", "f16", "s8"])
def test_any_permutation_over_several_warps(machine, dtype):
    """By edge colouring where nothing simpler does: no conflict, whole words where parts stay together."""
    rng = np.random.default_rng(7)
    for lanes, items in ((2 * machine.lanes, 4), (4 * machine.lanes, 1), (machine.lanes + 8, 8)):
        size = lanes * items
        order = rng.permutation(size).reshape(lanes, items)
        source = Layout("s", (lanes, items), dtype, np.arange(size).reshape(lanes, items))
        whole = whole_warp(source, Layout("d", (lanes, items), dtype, order), machine)[0]
        assert "coloured" in whole.reason or items == 1  # bytes of one item fit into few banks
        assert {"block"} == {step.symbol for step, _ in whole.program.walk() if step.opcode == "barrier"}


def test_parts_that_stay_together_travel_together():
    rng = np.random.default_rng(2)
    pairs = rng.permutation(128).reshape(64, 2)
    together = np.stack([2 * pairs, 2 * pairs + 1], axis=2).reshape(64, 4)
    source = Layout("s", (64, 4), "f16", np.arange(256).reshape(64, 4))
    whole = whole_warp(source, Layout("d", (64, 4), "f16", together))[0]
    assert (whole.cost.shared_stores, whole.cost.shared_loads, whole.cost.byte_permutes) == (2, 2, 0)
    apart = whole_warp(source, Layout("d", (64, 4), "f16", together[:, [0, 2, 1, 3]]))[0]
    assert (apart.cost.shared_stores, apart.cost.shared_loads) == (4, 4)


def test_what_several_phases_load_is_stored_for_each():
    rng = np.random.default_rng(5)
    source = Layout("s", (64, 1), "b32", rng.permutation(64).reshape(64, 1))
    wanted = np.concatenate([rng.permutation(64), np.full(64, 9)]).reshape(2, 64).T.copy()
    wanted[::3, 1], wanted[1::3, 1] = rng.integers(0, 64, 22), rng.integers(0, 64, 21)
    whole = whole_warp(source, Layout("d", (64, 1), "b32", wanted))[0]
    assert "coloured" in whole.reason
    assert whole.cost.shared_stores > source.items


@pytest.mark.parametrize("machine", [SM_80, GFX942], ids=lambda machine: machine.name)
@pytest.mark.parametrize("dtype", ["f16", "s8"])
def test_linear_relations_over_several_warps(machine, dtype):
    """Parts of words, each in a word of its own where lanes would meet in a bank: addresses stay linear."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        lanes = machine.lanes.bit_length() + int(rng.integers(0, 2))
        bits = lanes + int(rng.integers(1, 4))
        columns = int(rng.integers(1, bits))
        layouts = []
        for name in "sd":
            basis = [1 << int(bit) for bit in rng.permutation(bits)]
            for target, other in rng.integers(0, bits, (6, 2)):
                basis[target] ^= basis[other] if target != other else 0
            pairs = [divmod(vector, 1 << columns) for vector in basis]
            shape = 1 << bits - columns, 1 << columns
            layouts.append(Layout.linear(name, shape, dtype, lane=pairs[:lanes], item=pairs[lanes:]))
        whole = whole_warp(*layouts, machine)[0]
        assert "xor" in whole.reason or "padded" in whole.reason


def test_why_not():
    wide = Layout("wide", (32, 2), "f64", np.arange(64).reshape(32, 2))
    assert all("two registers" in candidate.reason for candidate in whole_warp(wide, wide))
    nibbles = Layout("s", (32, 8), "s4", np.arange(256).reshape(32, 8))
    apart = Layout("d", (32, 4), "s4", np.arange(128).reshape(4, 32).T)
    four = Layout("s", (32, 4), "s4", np.arange(128).reshape(32, 4))
    assert whole_warp(four, apart)[0].program is None
    together = Layout("d", (32, 8), "s4", np.arange(256).reshape(4, 32, 2).transpose(1, 0, 2).reshape(32, 8))
    assert whole_warp(nibbles, together)[0].program is not None


@pytest.mark.parametrize(
    ("addresses", "size", "machine", "access", "found"),
    [
        (lambda lane: lane * 4, 4, SM_80, "load", 0),
        (lambda lane: lane * 0, 4, SM_80, "load", 0),  # all the same word
        (lambda lane: lane * 128, 4, SM_80, "load", 31),
        (lambda lane: lane * 8, 4, SM_80, "load", 1),
        (lambda lane: lane * 8, 8, SM_80, "load", 0),
        (lambda lane: lane * 16, 16, SM_80, "store", 0),
        (lambda lane: lane * 32, 16, SM_80, "store", 4),  # each of 4 phases takes one more
        (lambda lane: lane * 2, 2, SM_80, "store", 0),
        (lambda lane: lane * 4, 4, GFX942, "load", 0),
        (lambda lane: lane * 16, 16, GFX942, "store", 0),
        # lanes 4 to 7 are not served together with 0 to 3 there, but lanes 20 to 23 are
        (lambda lane: (lane % 4 + lane // 16 % 2 * 4) * 16 + lane // 4 % 4 * 128, 16, GFX942, "load", 0),
    ],
)  # fmt: skip
def test_counting_bank_conflicts(addresses, size, machine, access, found):
    if machine is GFX942 and not machine.shared_phases:
        pytest.skip("its phases are not known")
    table = addresses(np.arange(machine.lanes))[None]
    assert conflicts(table, size, machine, access) == found


def test_the_best_passage_is_taken():
    relation = relate(*CASES["tf32 C -> A"][:2])
    best = linear_passage(relation, SM_80)
    tried = trial_passage(relation, SM_80)
    assert best is not None
    assert tried is not None
    assert best.instructions(relation) <= tried.instructions(relation)
    assert best.conflict_free(SM_80)
    assert tried.conflict_free(SM_80)
    choice = Choice(relation, SM_80)
    for passage in (tried, best, tried):
        choice.offer(passage)
    assert choice.best is best
    assert choice.hopeless(best.instructions(relation))
    assert not choice.hopeless(0)


@pytest.mark.parametrize("widths", [(4,), (4, 8), (4, 16)])
@pytest.mark.parametrize("name", ["tf32 C -> A", "f16 C -> B", "f32 C -> row blocked"])
def test_accesses_are_no_wider_than_the_machine_serves(name, widths):
    source, destination, _, _ = CASES[name]
    scrambled = Layout("scrambled", destination.shape, destination.dtype, destination.table[::-1] ^ 5)
    for wanted in (destination, scrambled):
        for candidate in whole_warp(source, wanted, replace(SM_80, shared_widths=widths)):
            steps = [] if candidate.program is None else [step for step, _ in candidate.program.walk()]
            moved = {len(s.results) if s.opcode == "shared_load" else len(s.operands) - 1 for s in steps
                     if s.opcode in ("shared_load", "shared_store")}  # fmt: skip
            assert {4 * words for words in moved} <= set(widths)
            assert not [step for step in steps if step.opcode.startswith("matrix")] or 16 in widths
