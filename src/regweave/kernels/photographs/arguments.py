"""What a kernel of a filter of bytes is called with, and which filters and rows there are kernels for.

This is a module of its own because only who writes code needs the rest: code that is on disk is run without.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from regweave.kernels.photographs.columns import Tall, way_of
from regweave.kernels.photographs.structure import ByteFilter

if TYPE_CHECKING:
    from regweave.machines.x86 import VectorMachine

#: Rows of the result in a band.
BAND = 16
#: Registers for constants and for what is being calculated.
_WORKING = 6


class PhotographArguments(ctypes.Structure):
    """What the kernel is called with.

    rows, outs   tables of addresses: of the image's rows from the first that the kernel reaches on, of the
                 result's rows
    length       bytes of a row, `least_length` or more
    last         the first row of the last band: bands may overlap
    borders      table of offsets in a row: where the bytes left of it come from, then those right of it
    keep         all ones, or 0: then bytes left and right of the rows are 0
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in ("rows", "outs", "length", "last", "borders", "keep"))


def spare_registers(filter: ByteFilter, machine: VectorMachine) -> int:
    """Vector registers that are left for constants, beside what is kept from row to row and made of a row;
    below zero where these are too many already."""
    if filter.wide:
        kept = Tall.registers(filter)
    else:
        kept = sum(way_of(uses).registers(filter.height) for uses in filter.uses)
    there = len(machine.register_class("vector").registers)
    return there - kept - 2 * len(filter.rows) - _WORKING


def ends_of(filter: ByteFilter, machine: VectorMachine) -> tuple[int, int]:
    """Bytes of a row of the result, at its ends, whose neighbours may lie beyond the edge: whole vectors."""
    line = machine.vector_bytes
    return -(-filter.left // line) * line, -(-(filter.right + line - 1) // line) * line


def least_length(filter: ByteFilter, machine: VectorMachine) -> int:
    """Bytes that a row must have."""
    return sum(ends_of(filter, machine))
