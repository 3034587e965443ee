"""The fragments against the formulas of the PTX ISA, written as the ISA writes them.

g is groupID = %laneid >> 2, t is threadID_in_group = %laneid % 4, i the element's number within the lane.
"""

import numpy as np
import pytest

from regweave.machines.catalogue import find_layout
from regweave.machines.nvidia import INSTRUCTIONS

# shape, bits of an element -> operand -> (elements per lane, row of element i, column of element i)
FORMULAS = {
    ("m8n8k4", 64): {
        "A": (1, lambda g, t, i: g, lambda g, t, i: t),
        "B": (1, lambda g, t, i: t, lambda g, t, i: g),
    },
    ("m16n8k4", 64): {
        "A": (2, lambda g, t, i: g if i == 0 else g + 8, lambda g, t, i: t),
        "B": (1, lambda g, t, i: t, lambda g, t, i: g),
    },
    ("m16n8k8", 64): {
        "A": (4, lambda g, t, i: g if i in (0, 2) else g + 8, lambda g, t, i: t if i < 2 else t + 4),
        "B": (2, lambda g, t, i: t if i == 0 else t + 4, lambda g, t, i: g),
    },
    ("m16n8k16", 64): {
        "A": (8, lambda g, t, i: g if i % 2 == 0 else g + 8,
              lambda g, t, i: i * 2 + t if i % 2 == 0 else i * 2 - 2 + t),
        "B": (4, lambda g, t, i: t + i * 4, lambda g, t, i: g),
    },
    ("m16n8k4", 32): {
        "A": (2, lambda g, t, i: g if i == 0 else g + 8, lambda g, t, i: t),
        "B": (1, lambda g, t, i: t, lambda g, t, i: g),
    },
    ("m16n8k8", 32): {
        "A": (4, lambda g, t, i: g if i in (0, 2) else g + 8, lambda g, t, i: t if i in (0, 1) else t + 4),
        "B": (2, lambda g, t, i: t if i == 0 else t + 4, lambda g, t, i: g),
    },
    ("m16n8k8", 16): {
        "A": (4, lambda g, t, i: g if i < 2 else g + 8, lambda g, t, i: t * 2 + (i & 1)),
        "B": (2, lambda g, t, i: t * 2 + i, lambda g, t, i: g),
    },
    ("m16n8k16", 16): {
        "A": (8, lambda g, t, i: g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
              lambda g, t, i: t * 2 + (i & 1) if i < 4 else t * 2 + (i & 1) + 8),
        "B": (4, lambda g, t, i: t * 2 + (i & 1) if i < 2 else t * 2 + (i & 1) + 8, lambda g, t, i: g),
    },
    ("m8n8k16", 8): {
        "A": (4, lambda g, t, i: g, lambda g, t, i: t * 4 + i),
        "B": (4, lambda g, t, i: t * 4 + i, lambda g, t, i: g),
    },
    ("m16n8k16", 8): {
        "A": (8, lambda g, t, i: g if i < 4 else g + 8, lambda g, t, i: t * 4 + (i & 3)),
        "B": (4, lambda g, t, i: t * 4 + i, lambda g, t, i: g),
    },
    ("m16n8k32", 8): {
        "A": (16, lambda g, t, i: g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
              lambda g, t, i: t * 4 + (i & 3) if i < 8 else t * 4 + (i & 3) + 16),
        "B": (8, lambda g, t, i: t * 4 + (i & 3) if i < 4 else t * 4 + (i & 3) + 16, lambda g, t, i: g),
    },
    ("m8n8k32", 4): {
        "A": (8, lambda g, t, i: g, lambda g, t, i: t * 8 + i),
        "B": (8, lambda g, t, i: t * 8 + i, lambda g, t, i: g),
    },
    ("m16n8k32", 4): {
        "A": (16, lambda g, t, i: g if i < 8 else g + 8, lambda g, t, i: t * 8 + (i & 7)),
        "B": (8, lambda g, t, i: t * 8 + (i & 7), lambda g, t, i: g),
    },
    ("m16n8k64", 4): {
        "A": (32, lambda g, t, i: g if 0 <= i < 8 or 16 <= i < 24 else g + 8,
              lambda g, t, i: t * 8 + (i & 7) if i < 16 else t * 8 + (i & 7) + 32),
        "B": (16, lambda g, t, i: t * 8 + (i & 7) if i < 8 else t * 8 + (i & 7) + 32, lambda g, t, i: g),
    },
    ("m8n8k128", 1): {
        "A": (32, lambda g, t, i: g, lambda g, t, i: t * 32 + i),
        "B": (32, lambda g, t, i: t * 32 + i, lambda g, t, i: g),
    },
    ("m16n8k128", 1): {
        "A": (64, lambda g, t, i: g if i < 32 else g + 8, lambda g, t, i: t * 32 + (i & 31)),
        "B": (32, lambda g, t, i: t * 32 + i, lambda g, t, i: g),
    },
    ("m16n8k256", 1): {
        "A": (128, lambda g, t, i: g if 0 <= i < 32 or 64 <= i < 96 else g + 8,
              lambda g, t, i: t * 32 + (i & 31) if i < 64 else t * 32 + (i & 31) + 128),
        "B": (64, lambda g, t, i: t * 32 + i if i < 32 else t * 32 + (i & 31) + 128, lambda g, t, i: g),
    },
}  # fmt: skip
ACCUMULATORS = {
    8: (2, lambda g, t, i: g, lambda g, t, i: t * 2 + i),
    16: (4, lambda g, t, i: g if i < 2 else g + 8, lambda g, t, i: t * 2 + (i & 1)),
}
ONE_WARP = [name for name in INSTRUCTIONS if name.startswith("mma.") and "m8n8k4" not in name]
ONE_WARP.append("mma.m8n8k4.f64")
VOLTA = [name for name in INSTRUCTIONS if name.startswith("mma.m8n8k4") and "f16" in name]
WGMMA = [name for name in INSTRUCTIONS if name.startswith("wgmma")]


def placed(items, row, column, columns):
    return [
        [row(lane >> 2, lane % 4, i) * columns + column(lane >> 2, lane % 4, i) for i in range(items)]
        for lane in range(32)
    ]


@pytest.mark.parametrize("name", ONE_WARP)
def test_fragments_follow_the_isa(name):
    entry = INSTRUCTIONS[name]
    bits = entry.fragments["A"].element_type.bits
    formulas = FORMULAS[name.split(".")[1], bits]
    wanted = {**formulas, "C": ACCUMULATORS[entry.m], "D": ACCUMULATORS[entry.m]}
    for operand, layout in entry.fragments.items():
        assert layout.table.tolist() == placed(*wanted[operand], layout.shape[1]), operand


def test_every_formula_is_asked_for():
    asked = {(name.split(".")[1], INSTRUCTIONS[name].fragments["A"].element_type.bits) for name in ONE_WARP}
    assert asked == set(FORMULAS)
    assert {*ONE_WARP, *VOLTA, *WGMMA} == set(INSTRUCTIONS)


# row X of a lane below 16, X + 4 of the others, and so for whole rows of A and columns of B
QUADS = {
    ("A", "row"): lambda lane, i: (lane % 4 + 4 * (lane >= 16), i),
    ("A", "col"): lambda lane, i: (i % 4 + 4 * (lane >= 16), lane % 4),
    ("B", "row"): lambda lane, i: (lane % 4, i + 4 * (lane >= 16)),
    ("B", "col"): lambda lane, i: (i, lane % 4 + 4 * (lane >= 16)),
    "f16": lambda lane, i: (lane % 4 + 4 * (lane >= 16), i),
    "f32": lambda lane, i: (
        (lane & 0b1) + (i & 0b10) + 4 * (lane >= 16),
        (i & 0b100) + (lane & 0b10) + (i & 0b1),
    ),
}


@pytest.mark.parametrize("name", VOLTA)
def test_quad_pairs_follow_the_isa(name):
    entry = INSTRUCTIONS[name]
    orders = dict(zip("AB", entry.mnemonic.split(".")[4:6], strict=True))
    assert entry.blocks == 4
    for operand, layout in entry.fragments.items():
        assert layout.items == (4 if operand in "AB" else 8)
        formula = QUADS[(operand, orders[operand]) if operand in "AB" else layout.dtype]
        for lane in range(32):
            product = lane % 16 // 4  # lanes 0-3 and 16-19 are the first, and so on
            for i in range(layout.items):
                row, column = formula(lane, i)
                stacked = (row, column + 8 * product) if operand == "B" else (row + 8 * product, column)
                assert divmod(int(layout.table[lane, i]), layout.shape[1]) == stacked, (operand, lane, i)


@pytest.mark.parametrize("name", WGMMA)
def test_four_warps_follow_the_isa(name):
    entry = INSTRUCTIONS[name]
    assert set(entry.fragments) == {"A", "C", "D"}
    assert (entry.m, entry.lanes) == (64, 128)
    lane = np.arange(128)[:, None]
    row = 16 * (lane // 32) + lane % 32 // 4
    for operand in "CD":
        # row = groupID for di where (i % 4) < 2, col = (i / 4) * 8 + threadID_in_group * 2 + (i % 2)
        i = np.arange(entry.n // 2)[None, :]
        wanted = (row + 8 * (i % 4 >= 2)) * entry.n + i // 4 * 8 + lane % 4 * 2 + i % 2
        assert np.array_equal(entry.fragments[operand].table, wanted)
    layout = entry.fragments["A"]
    packed = layout.element_type.per_register
    register, part = np.divmod(np.arange(layout.items)[None, :], packed)
    column = (lane % 4) * packed + part + 4 * packed * (register >= 2)
    assert np.array_equal(layout.table, (row + 8 * (register % 2)) * entry.k + column)


@pytest.mark.parametrize("name", [*ONE_WARP, *VOLTA])
def test_lanes_that_multiply_agree_on_k(name):
    """Executed as the hardware can: a lane sees elements by place only, and C = A B comes out."""
    entry = INSTRUCTIONS[name]
    rng = np.random.default_rng(1)
    values = {operand: rng.integers(-4, 5, entry.tile(operand)) for operand in "AB"}
    registers = {operand: values[operand].ravel()[entry.fragments[operand].table] for operand in "AB"}
    blocks = [
        values["A"][entry.m * at : entry.m * (at + 1)] @ values["B"][:, entry.n * at : entry.n * (at + 1)]
        for at in range(entry.blocks)
    ]
    wanted = np.concatenate(blocks)
    if name in VOLTA:
        row_of_a, column_of_b = _quads(entry, registers)
    else:
        row_of_a, column_of_b = _groups(entry, registers)
    result = np.einsum("bmk,bkn->bmn", row_of_a, column_of_b).reshape(wanted.shape)
    assert np.array_equal(result, wanted)


def _groups(entry, registers):
    """Rows of A and columns of B as lanes 4g + t hold them, in the order (t, place), which both share."""
    packed = entry.fragments["A"].element_type.per_register
    by_lane = registers["A"].reshape(8, 4, -1, entry.m // 8, packed)  # g, t, along k, row g or g + 8, part
    rows = by_lane.transpose(3, 0, 1, 2, 4).reshape(1, entry.m, entry.k)
    columns = registers["B"].reshape(8, entry.k).T[None]
    return rows, columns


def _quads(entry, registers):
    """The same for the four pairs of quads; a column-major A or row-major B has k in the lanes of a quad."""
    order = entry.mnemonic.split(".")[4:6]
    pairs = {key: held.reshape(2, 4, 4, 4).transpose(1, 0, 2, 3) for key, held in registers.items()}
    a, b = pairs["A"], pairs["B"]  # product, quad, lane of the quad, place
    a = a if order[0] == "row" else a.swapaxes(2, 3)
    b = b if order[1] == "col" else b.swapaxes(2, 3)
    return a.reshape(4, 8, 4), b.reshape(4, 8, 4).swapaxes(1, 2)


def test_the_worked_example_of_the_tf32_seam():
    c, a = find_layout("mma.m16n8k8.tf32:C"), find_layout("mma.m16n8k8.tf32:A")
    for g in range(8):
        for t in range(4):
            lane = 4 * g + t
            held = [c.element(lane, r) for r in range(4)]
            needed = [a.element(lane, r) for r in range(4)]
            assert held == [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)]
            assert needed == [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]


def test_types_and_registers():
    found = {
        name: (find_layout(name).dtype, find_layout(name).registers)
        for name in ("mma.m16n8k16.bf16:A", "mma.m16n8k16.bf16:C", "mma.m16n8k16.f16.f16:D",
                     "mma.m16n8k16.f64:A", "mma.m16n8k256.b1.and:A", "mma.m16n8k32.e2m1:B",
                     "mma.m16n8k64.e2m1.mxf4:B", "wgmma.m64n256k16.bf16:D")
    }  # fmt: skip
    assert found == {
        "mma.m16n8k16.bf16:A": ("bf16", 4), "mma.m16n8k16.bf16:C": ("f32", 4),
        "mma.m16n8k16.f16.f16:D": ("f16", 2), "mma.m16n8k16.f64:A": ("f64", 16),
        "mma.m16n8k256.b1.and:A": ("b1", 4), "mma.m16n8k32.e2m1:B": ("e2m1b8", 2),
        "mma.m16n8k64.e2m1.mxf4:B": ("e2m1", 2), "wgmma.m64n256k16.bf16:D": ("f32", 128),
    }  # fmt: skip
