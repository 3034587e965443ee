"""What a kernel of a filter of bytes is called with, and which filters and rows there are kernels for.

This is a module of its own because only who writes code needs the rest: code that is on disk is run without.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from regweave.kernels.photographs.columns import Tall, way_of
from regweave.kernels.photographs.kept import kept_bytes, needs_pairs
from regweave.kernels.photographs.structure import ByteFilter

if TYPE_CHECKING:
    from regweave.machines.x86 import VectorMachine

#: Rows of the result in a band whose code is written out.
BAND = 16
#: So many where sums of rows are kept in memory, but no more than some times the filter's height.
_BANDS, _MOST_BAND = (64, 48, 32, 24, 16, 8), 6
#: Bytes of the stack that a kernel takes, and what its slots are aligned by.
_MOST_STACK, _SLACK = 60 << 10, 512
_ADDRESS = 8
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


def in_memory(filter: ByteFilter, machine: VectorMachine) -> bool:
    """Whether what is needed of the rows above is kept in memory, not in registers."""
    return filter.deep or spare_registers(filter, machine) < 0


def band_rows(filter: ByteFilter, machine: VectorMachine) -> int:
    """Rows of the result in a band; 0 where a row is too long for the stack.

    The rows above a band are done for it again; of longer bands fewer are, and where the code is a loop they
    make it no longer.
    """
    if not in_memory(filter, machine):
        return BAND
    bands = (band for band in _BANDS if band <= max(_MOST_BAND * filter.height, _BANDS[-1]))
    return next((band for band in bands if _stack_bytes(filter, machine, band) <= _MOST_STACK), 0)


def _stack_bytes(filter: ByteFilter, machine: VectorMachine, band: int) -> int:
    line, lines = machine.vector_bytes, band + filter.height - 1
    ends = sum(ends_of(filter, machine)) + 2 * (filter.left + filter.right)
    binomial = 2 * filter.height * line * len(filter.uses)
    kept = kept_bytes(filter, lines, line, pairs=needs_pairs(filter))
    return lines * (ends + 2 * _ADDRESS) + kept + binomial + _SLACK


def ends_of(filter: ByteFilter, machine: VectorMachine) -> tuple[int, int]:
    """Bytes of a row of the result, at its ends, whose neighbours may lie beyond the edge: whole vectors."""
    line = machine.vector_bytes
    return -(-filter.left // line) * line, -(-(filter.right + line - 1) // line) * line


def least_length(filter: ByteFilter, machine: VectorMachine) -> int:
    """Bytes that a row must have."""
    return sum(ends_of(filter, machine))
