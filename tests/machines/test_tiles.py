"""Vector registers as tiles of rows or columns."""

import numpy as np
import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.machines.catalogue import find_layout, find_machine, fragment_names
from regweave.machines.x86 import AVX2, AVX512


@pytest.mark.parametrize(
    ("name", "lanes", "registers"), [("avx512", 16, 32), ("avx2", 8, 16), ("neon", 4, 32)]
)
def test_machines(name, lanes, registers):
    machine = find_machine(name)
    assert (machine.name, machine.lanes, machine.registers_per_lane) == (name, lanes, registers)
    assert machine.shared_bytes == 0
    assert fragment_names(machine)
    for text in fragment_names(machine):
        assert find_layout(text, machine).bijective


def test_they_are_the_machines_that_kernels_are_written_for():
    for machine in (AVX512, AVX2):
        assert find_machine(machine.name).classes[0] is machine.register_class("vector")


@pytest.mark.parametrize("count", [1, 3, 16])
def test_rows_and_columns(count):
    rows, columns = find_layout(f"avx512.rows:{count}"), find_layout(f"avx512.columns:{count}")
    assert (rows.shape, columns.shape) == ((count, 16), (16, count))
    for lane in range(16):
        for register in range(count):
            assert rows.element(lane, register) == (register, lane)
            assert columns.element(lane, register) == (lane, register)
    assert np.array_equal(rows.transpose().table, columns.table)


def test_narrow_elements_share_a_lane():
    halves = find_layout("neon.rows.f16:2")
    assert (halves.shape, halves.registers) == ((2, 8), 2)
    assert [halves.element(1, 1, part) for part in (0, 1)] == [(1, 2), (1, 3)]
    octets = find_layout("avx2.columns.s8:3@u8")
    assert (octets.shape, octets.dtype) == ((32, 3), "u8")
    assert octets.element(7, 2, 3) == (31, 2)


def test_wrong_names():
    with pytest.raises(InputError, match=r"nearest: avx512.rows:3"):
        find_layout("avx512.rows:33")
    with pytest.raises(UnsupportedError, match=r"avx2 has no avx512.rows:4.*avx2.rows:4"):
        find_layout("avx512.rows:4", find_machine("avx2"))
