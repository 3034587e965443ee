"""What a matrix instruction computes, from its fragments: registers to matrices, product, and back.

    >>> multiply(instruction, (a0, a1, a2, a3, b0, b1, c0, c1, c2, c3))
    (d0, d1, d2, d3)

Products are summed in float64 and rounded once; integers are exact and wrap around.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import UnsupportedError
from regweave.layouts import Layout
from regweave.machines.gpu import MatrixInstruction
from regweave.programs.numbers import decode, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray


def multiply(instruction: MatrixInstruction, words: tuple[NDArray[np.uint32], ...]) -> tuple[Any, ...]:
    """The registers of D from those of A, B and C, each an array with one word per thread."""
    fragments = instruction.fragments
    matrices, first = [], 0
    for operand in ("A", "B", "C"):
        layout = fragments[operand]
        matrices.append(read_tile(layout, words[first : first + layout.registers]))
        first += layout.registers
    a, b, c = matrices
    blocks = instruction.blocks
    if blocks == 1:
        return write_tile(fragments["D"], a @ b + c)
    # A stacks its blocks by rows, B side by side, and C and D as A does
    rows = a.reshape(-1, blocks, instruction.m, instruction.k)
    columns = b.reshape(-1, instruction.k, blocks, instruction.n).transpose(0, 2, 1, 3)
    return write_tile(fragments["D"], (rows @ columns).reshape(c.shape) + c)


def read_tile(layout: Layout, registers: tuple[NDArray[np.uint32], ...]) -> NDArray[Any]:
    """`[warps, rows, columns]` of numbers from a layout's registers, each with one word per thread."""
    kind = layout.element_type
    words = np.stack(registers, axis=1).reshape(-1, layout.lanes, layout.registers)
    if kind.bits > 32:
        pairs = words.astype(np.uint64).reshape(*words.shape[:2], -1, kind.registers)
        if kind.registers != 2:
            raise UnsupportedError(f"{layout.dtype} elements are not computed with", where=layout.name)
        bits = pairs[..., 0] | pairs[..., 1] << np.uint64(32)
    else:
        shifts = (np.arange(kind.per_register) * kind.bits).astype(np.uint32)
        mask = np.uint32((1 << kind.bits) - 1)
        bits = (words[..., None] >> shifts & mask).reshape(*words.shape[:2], -1)
    numbers = decode(bits[..., : layout.items], layout.dtype)
    tile = np.empty((numbers.shape[0], layout.elements), dtype=numbers.dtype)
    tile[:, layout.table] = numbers
    return tile.reshape(-1, *layout.shape)


def write_tile(layout: Layout, tile: NDArray[Any]) -> tuple[NDArray[np.uint32], ...]:
    """The registers of a layout, each with one word per thread, from `[warps, rows, columns]` of numbers."""
    kind = layout.element_type
    bits = encode(tile.reshape(-1, layout.elements)[:, layout.table], layout.dtype)
    if kind.bits > 32:
        parts = [(bits >> np.uint64(32 * part)) & np.uint64(0xFFFFFFFF) for part in range(kind.registers)]
        words = np.stack(parts, axis=-1).astype(np.uint32)
    else:
        shifts = (np.arange(kind.per_register) * kind.bits).astype(np.uint32)
        full = np.zeros((*bits.shape[:2], layout.registers * kind.per_register), dtype=np.uint32)
        full[..., : layout.items] = bits
        words = np.bitwise_or.reduce(full.reshape(*bits.shape[:2], -1, kind.per_register) << shifts, axis=-1)
    columns = words.reshape(-1, layout.registers).T
    return tuple(np.ascontiguousarray(column) for column in columns)
