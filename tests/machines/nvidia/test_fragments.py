"""The fragments against the formulas of the PTX ISA, written as the ISA writes them."""

import pytest

from regweave.machines.catalogue import find_layout
from regweave.machines.nvidia import INSTRUCTIONS

# operand -> (elements per lane, row of element i, column of element i), with g = lane / 4 and t = lane % 4
TF32_K8 = {
    "A": (4, lambda g, t, i: g if i in (0, 2) else g + 8, lambda g, t, i: t if i in (0, 1) else t + 4),
    "B": (2, lambda g, t, i: t if i == 0 else t + 4, lambda g, t, i: g),
}
F16_K8 = {
    "A": (4, lambda g, t, i: g if i < 2 else g + 8, lambda g, t, i: t * 2 + (i & 1)),
    "B": (2, lambda g, t, i: t * 2 + i, lambda g, t, i: g),
}
F16_K16 = {
    "A": (
        8,
        lambda g, t, i: g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
        lambda g, t, i: t * 2 + (i & 1) if i < 4 else t * 2 + (i & 1) + 8,
    ),
    "B": (4, lambda g, t, i: t * 2 + (i & 1) if i < 2 else t * 2 + (i & 1) + 8, lambda g, t, i: g),
}
ACCUMULATOR = (4, lambda g, t, i: g if i < 2 else g + 8, lambda g, t, i: t * 2 + (i & 1))
FORMULAS = {
    "mma.m16n8k8.tf32": TF32_K8,
    "mma.m16n8k8.f16": F16_K8,
    "mma.m16n8k16.f16": F16_K16,
    "mma.m16n8k16.bf16": F16_K16,
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("operand", "ABCD")
def test_fragments_follow_the_isa(name, operand):
    items, row, column = {**FORMULAS[name], "C": ACCUMULATOR, "D": ACCUMULATOR}[operand]
    layout = find_layout(f"{name}:{operand}")
    assert (layout.lanes, layout.items) == (32, items)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(items):
            expected = row(g, t, i), column(g, t, i)
            assert divmod(int(layout.table[lane, i]), layout.shape[1]) == expected


def test_no_instruction_is_left_out():
    assert set(INSTRUCTIONS) == set(FORMULAS)


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
    assert (find_layout("mma.m16n8k16.bf16:A").dtype, find_layout("mma.m16n8k16.bf16:A").registers) == (
        "bf16",
        4,
    )
    assert (find_layout("mma.m16n8k16.bf16:C").dtype, find_layout("mma.m16n8k16.bf16:C").registers) == (
        "f32",
        4,
    )
