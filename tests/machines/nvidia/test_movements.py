"""Loads, stores and moves of matrices against the fragments that they are made to feed."""

import numpy as np
import pytest

from regweave.layouts import repeat
from regweave.machines.catalogue import find_layout
from regweave.machines.nvidia import INSTRUCTIONS, LAYOUTS


def test_four_matrices_are_the_a_operand():
    held, wanted = find_layout("ldmatrix.m8n8.x4.b16:r"), find_layout("mma.m16n8k16.f16:A")
    # lanes 0-15 give rows 0-15 of columns 0-7, lanes 16-31 the same rows of columns 8-15
    row, column = np.divmod(held.table, 8)
    assert np.array_equal(row % 16 * 16 + column + 8 * (row // 16), wanted.table)


def test_transposed_matrices_are_the_b_operand_of_a_row_major_matrix():
    assert find_layout("ldmatrix.m8n8.x2.trans.b16:r@f16") == find_layout("mma.m16n8k16.f16:B")
    assert find_layout("ldmatrix.m8n8.x1.b16:r@f16") == find_layout("mma.m16n8k8.f16:B^T")


def test_bytes_of_four_rows_and_two_columns():
    held = LAYOUTS["ldmatrix.m16n16.x2.trans.b8:r"]
    for lane in range(32):
        for register in range(4):
            for part in range(4):
                row = 16 * (register // 2) + 4 * (lane % 4) + part
                assert held.element(lane, register, part) == (row, lane // 4 + 8 * (register % 2))


@pytest.mark.parametrize(
    ("store", "accumulators"),
    [("stmatrix.m8n8.x2.b16:r@f16", "mma.m16n8k16.f16.f16:D"),
     ("stmatrix.m16n8.x1.trans.b8:r@e4m3", "mma.m16n8k32.e4m3:D@e4m3^T")],
)  # fmt: skip
def test_stores_take_accumulators_as_they_are(store, accumulators):
    assert find_layout(store) == find_layout(accumulators)


def test_movmatrix_transposes():
    source, result = LAYOUTS["movmatrix.m8n8.trans.b16:a"], LAYOUTS["movmatrix.m8n8.trans.b16:d"]
    assert result == source.transpose()
    assert source.element(5, 0, 1) == result.element(5, 0, 1)[::-1] == (1, 3)


@pytest.mark.parametrize("count", [1, 2, 8, 32])
def test_tensor_memory_of_256_bits_holds_accumulators(count):
    tile = repeat(find_layout("mma.m16n8k8.tf32:C"), 1, count)
    assert find_layout(f"tcgen05.ld.16x256b.x{count}:r@f32") == tile
    assert np.array_equal(tile.table, INSTRUCTIONS[f"wgmma.m64n{8 * count}k8.tf32"].fragments["D"].table[:32])


def test_every_layout_is_a_bijection_with_the_registers_of_its_name():
    for name, layout in LAYOUTS.items():
        assert layout.bijective, name
        assert layout.basis is not None, name
    names = ("ld.32x32b.x64", "st.16x64b.x8", "ld.16x128b.x8", "ld.16x256b.x8", "st.16x32bx2.x8")
    registers = [LAYOUTS[f"tcgen05.{name}:r"].registers for name in names]
    assert registers == [64, 8, 16, 32, 8]


def test_mnemonics_name_layouts():
    for mnemonic, name in LAYOUTS.aliases.items():
        assert find_layout(mnemonic) is LAYOUTS[name]
        assert mnemonic.rpartition(":")[0] != name.rpartition(":")[0]
