"""The fragments against AMD's matrix instruction calculator.

The formulas below are those that the calculator evaluates for each element: register, part and lane from the
row i, column j, depth k and block b. It does not know gfx950, whose operands of 128 or 64 k have a formula of
their own here.
"""

import numpy as np
import pytest

from regweave.machines.amd import INSTRUCTIONS

WAVE = 64


def mfma_input(side, k_size, blocks, i, k, b):
    together = k_size // (WAVE // (side * blocks))
    return k // together * side * blocks + b * side + i, k % together


def mfma_output(m, n, i, j, b, bits):
    height = 1 if bits == 64 else 4
    rows_at_once = WAVE // n
    blocks_at_once = -(-WAVE // (n * m // height))
    item = b * (m * n // WAVE) + i // (height * rows_at_once) * height + i % height
    lane = (b % blocks_at_once) * n + i // height % rows_at_once * blocks_at_once * n + j
    return lane, item


def f8_input(side, k_size, i, k):
    """Two runs of 16 k for each lane, half of all k apart."""
    half, inside = divmod(k, k_size // 2)
    return inside // 16 * side + i, half * 16 + inside % 16


def wmma_input_12(lanes, bits, k_size, i, k):
    if lanes == 32:
        if bits == 16:
            return 16 * (k // 4 % 2) + i, 4 * (k // 8) + k % 4
        if bits == 8 or k_size == 16:
            return 16 * (k // 8) + i, k % 8
        return 16 * (k // 16) + i, k % 16
    if bits == 16:
        return 32 * (k // 8 % 2) + 16 * (k // 4 % 2) + i, k % 4
    if bits == 8:
        return 32 * (k // 4 % 2) + 16 * (k // 8 % 2) + i, k % 4
    return 32 * (k // 8 % 2) + 16 * (k // 16 % 2) + i, k % 8


def wmma_output_12(lanes, i, j):
    if lanes == 32:
        return 16 * (i // 8) + j, i % 8
    return 32 * (i // 4 % 2) + 16 * (i // 8) + j, i % 4


def expected(entry, operand):
    """{(lane, item): (row, column)} by the formulas."""
    name, side, depth, blocks = entry.name, entry.m, entry.k, entry.blocks
    bits = entry.fragments[operand].element_type.bits
    slots = {}
    for b in range(blocks):
        if operand in "CD":
            for i in range(side):
                for j in range(entry.n):
                    if name.startswith("v_mfma"):
                        slot = mfma_output(side, entry.n, i, j, b, bits)
                    elif "gfx12" in name:
                        slot = wmma_output_12(entry.lanes, i, j)
                    else:
                        rows = entry.lanes // 16
                        slot = (16 * i + j) % entry.lanes, i // rows
                    slots[slot] = b * side + i, j
            continue
        for i in range(side):
            for k in range(depth):
                element = (b * side + i, k) if operand == "A" else (k, b * side + i)
                if name.startswith("v_mfma"):
                    if "f8f6f4" in name and bits == 8:
                        slots[f8_input(side, depth, i, k)] = element
                    else:
                        slots[mfma_input(side, depth, blocks, i, k, b)] = element
                elif "gfx12" in name:
                    slots[wmma_input_12(entry.lanes, bits, depth, i, k)] = element
                else:
                    for copy in range(0, entry.lanes, 16):
                        slots[i + copy, k] = element
    return slots


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if name.startswith(("v_mfma", "v_wmma"))])
def test_fragments(name):
    entry = INSTRUCTIONS[name]
    for operand, layout in entry.fragments.items():
        slots = expected(entry, operand)
        assert len(slots) == layout.table.size
        rows, columns = np.divmod(layout.table, layout.shape[1])
        for (lane, item), element in slots.items():
            assert (rows[lane, item], columns[lane, item]) == element, (operand, lane, item)


def test_a_product_from_the_registers():
    """Two 32 x 32 x 4 blocks, multiplied as the hardware does: by lanes and registers only."""
    entry = INSTRUCTIONS["v_mfma_f32_32x32x4_2b_f16"]
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, 4)), rng.integers(-4, 5, (4, 64))
    held = {operand: entry.fragments[operand].table for operand in "ABD"}
    a_registers, b_registers = a.ravel()[held["A"]], b.ravel()[held["B"]]
    d = np.concatenate([a[:32] @ b[:, :32], a[32:] @ b[:, 32:]])
    for lane in (0, 31, 32, 63):
        for item in range(32):
            block, row = divmod(entry.fragments["D"].element(lane, item)[0], 32)
            column = entry.fragments["D"].element(lane, item)[1]
            total = a_registers[32 * block + row] @ b_registers[32 * block + column]
            assert d.ravel()[held["D"][lane, item]] == total


def test_dots_are_local():
    entry = INSTRUCTIONS["v_dot4_i32_i8"]
    tiles = [entry.tile(operand) for operand in "ABD"]
    assert (entry.blocks, tiles) == (64, [(64, 4), (4, 64), (64, 1)])
    a, b, c = (entry.fragments[operand] for operand in "ABC")
    for lane in range(64):
        assert [a.element(lane, 0, part) for part in range(4)] == [(lane, k) for k in range(4)]
        assert [b.element(lane, 0, part) for part in range(4)] == [(k, lane) for k in range(4)]
        assert c.element(lane, 0) == (lane, 0)
