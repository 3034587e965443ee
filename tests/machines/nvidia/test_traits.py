"""The fragments against CUTLASS's statement of the same facts: thread-value layouts, (shape):(stride).

A thread-value layout maps (thread, value) to a number, the first mode of each fastest; the number counts
down the columns of A (m x k), of B as n x k, of C (m x n), or, for copies, bits along the rows of memory.
"""

import math

import numpy as np
import pytest

from regweave.machines.nvidia import INSTRUCTIONS, LAYOUTS

T = (4, 8)
ROW_16x8 = ((T, (2, 2)), ((32, 1), (16, 8)))
ROW_8x8 = ((T, 2), ((16, 1), 8))
ROW_8x16 = ((T, 4), ((32, 1), 8))
ONE_8x4 = ((T, 1), ((8, 1), 0))
A_8 = ((T, (4, 2, 2)), ((64, 1), (16, 8, 256)))
A_4, B_4 = ((T, (8, 2, 2)), ((128, 1), (16, 8, 512))), ((T, (8, 2)), ((64, 1), (8, 256)))
A_1, B_1 = ((T, (32, 2, 2)), ((512, 1), (16, 8, 2048))), ((T, (32, 2)), ((256, 1), (8, 1024)))
A_16 = ((T, (2, 2, 2)), ((32, 1), (16, 8, 128)))
MMA = {
    "mma.m16n8k8.f16": (ROW_16x8, ROW_8x8, ROW_16x8),
    "mma.m16n8k16.bf16": (A_16, ((T, (2, 2)), ((16, 1), (8, 64))), ROW_16x8),
    "mma.m16n8k4.tf32": (((T, 2), ((16, 1), 8)), ONE_8x4, ROW_16x8),
    "mma.m16n8k8.tf32": (((T, (2, 2)), ((16, 1), (8, 64))), ((T, 2), ((8, 1), 32)), ROW_16x8),
    "mma.m8n8k4.f64": (ONE_8x4, ONE_8x4, ROW_8x8),
    "mma.m16n8k4.f64": (((T, 2), ((16, 1), 8)), ONE_8x4, ROW_16x8),
    "mma.m16n8k8.f64": (((T, (2, 2)), ((16, 1), (8, 64))), ((T, 2), ((8, 1), 32)), ROW_16x8),
    "mma.m16n8k16.f64": (((T, (2, 4)), ((16, 1), (8, 64))), ((T, 4), ((8, 1), 32)), ROW_16x8),
    "mma.m8n8k16.s8": (ROW_8x16, ROW_8x16, ROW_8x8),
    "mma.m16n8k16.s8": (((T, (4, 2)), ((64, 1), (16, 8))), ROW_8x16, ROW_16x8),
    "mma.m16n8k32.e4m3": (A_8, ((T, (4, 2)), ((32, 1), (8, 128))), ROW_16x8),
    "mma.m8n8k32.s4": (((T, 8), ((64, 1), 8)), ((T, 8), ((64, 1), 8)), ROW_8x8),
    "mma.m16n8k32.u4": (((T, (8, 2)), ((128, 1), (16, 8))), ((T, 8), ((64, 1), 8)), ROW_16x8),
    "mma.m16n8k64.s4": (A_4, B_4, ROW_16x8),
    "mma.m16n8k64.e2m1.mxf4": (A_4, B_4, ROW_16x8),
    "mma.m8n8k128.b1.and": (((T, 32), ((256, 1), 8)), ((T, 32), ((256, 1), 8)), ROW_8x8),
    "mma.m16n8k128.b1.xor": (((T, (32, 2)), ((512, 1), (16, 8))), ((T, 32), ((256, 1), 8)), ROW_16x8),
    "mma.m16n8k256.b1.and": (A_1, B_1, ROW_16x8),
}  # fmt: skip
W = (4, 8, 4)
WGMMA = {
    "wgmma.m64n96k8.tf32": ((W, (2, 2)), ((64, 1, 16), (8, 256))),
    "wgmma.m64n8k16.f16": ((W, (2, 2, 2)), ((128, 1, 16), (64, 8, 512))),
    "wgmma.m64n256k32.e5m2": ((W, (4, 2, 2)), ((256, 1, 16), (64, 8, 1024))),
}
# of one product; its threads are 0-3 and 16-19, of the next ones 4 later
BY_ROW, BY_COLUMN = ((8, 4), (1, 8)), (((4, 2), 4), ((8, 4), 1))
ACCUMULATORS = {
    "f16": ((8, 8), (1, 8)),
    "f32": (((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))),
}
# bits of an element, then bits along the rows of the tile in memory
COPIES = {
    "ldmatrix.m8n8.x1.b16:r": (16, (32, 32), (32, 1)),
    "ldmatrix.m8n8.x2.b16:r": (16, (32, (32, 2)), (32, (1, 1024))),
    "ldmatrix.m8n8.x4.b16:r": (16, (32, (32, 4)), (32, (1, 1024))),
    "stmatrix.m8n8.x4.b16:r": (16, (32, (32, 4)), (32, (1, 1024))),
    "ldmatrix.m8n8.x1.trans.b16:r": (16, (T, (16, 2)), ((256, 16), (1, 128))),
    "ldmatrix.m8n8.x4.trans.b16:r": (16, (T, (16, 2, 4)), ((256, 16), (1, 128, 1024))),
    "stmatrix.m8n8.x2.trans.b16:r": (16, (T, (16, 2, 2)), ((256, 16), (1, 128, 1024))),
    "ldmatrix.m8n16.x1.b8x16.b4x16_p64:r": (8, (32, 32), (32, 1)),
    "ldmatrix.m8n16.x4.b8x16.b6x16_p32:r": (8, (32, (32, 4)), (32, (1, 1024))),
    "stmatrix.m16n8.x1.trans.b8:r": (8, (T, (8, 2, 2)), ((256, 8), (1, 128, 64))),
    "stmatrix.m16n8.x4.trans.b8:r": (8, (T, (8, 2, 2, 4)), ((256, 8), (1, 128, 64, 1024))),
    "tcgen05.ld.16x256b.x1:r": (32, (T, (64, 2)), ((64, 256), (1, 2048))),
    "tcgen05.st.16x256b.x2:r": (32, (T, (64, 2, 2)), ((64, 512), (1, 4096, 256))),
    "tcgen05.ld.16x128b.x1:r": (32, (T, (32, 2)), ((32, 128), (1, 1024))),
    "tcgen05.ld.16x128b.x2:r": (32, (T, (32, 2, 2)), ((32, 256), (1, 2048, 128))),
    "tcgen05.ld.16x64b.x1:r": (32, ((2, 2, 8), 32), ((512, 32, 64), 1)),
    "tcgen05.st.16x64b.x2:r": (32, ((2, 2, 8), (32, 2)), ((1024, 32, 128), (1, 64))),
    "tcgen05.ld.16x32bx2.x1:r": (32, ((16, 2), 32), ((64, 32), 1)),
    "tcgen05.ld.16x32bx2.x2:r": (32, ((16, 2), 64), ((128, 64), 1)),
    "tcgen05.ld.32x32b.x1:r": (32, (32, 32), (32, 1)),
    "tcgen05.st.32x32b.x2:r": (32, (32, 64), (64, 1)),
}


def numbers(shape, stride):
    """All values of one mode, the first sub-mode fastest."""
    if isinstance(shape, int):
        return np.arange(shape) * stride
    found = np.zeros(1, dtype=np.int64)
    for size, step in zip(shape, stride, strict=True):
        found = (numbers(size, step)[:, None] + found[None, :]).ravel()
    return found


def table(layout):
    """[threads, values] of a thread-value layout."""
    (threads, values), (thread_steps, value_steps) = layout
    return numbers(threads, thread_steps)[:, None] + numbers(values, value_steps)[None, :]


def elements(layout, extent, operand):
    """Those numbers as element numbers of the operand's tile, whose first CUTLASS mode has `extent`."""
    first, second = table(layout) % extent, table(layout) // extent
    size = math.prod(table(layout).shape) // extent
    return second * extent + first if operand == "B" else first * size + second


@pytest.mark.parametrize("name", MMA)
def test_mma_traits(name):
    entry = INSTRUCTIONS[name]
    for operand, layout, extent in zip("ABC", MMA[name], (entry.m, entry.n, entry.m), strict=True):
        assert np.array_equal(entry.fragments[operand].table, elements(layout, extent, operand)), operand


@pytest.mark.parametrize("name", WGMMA)
def test_wgmma_traits(name):
    entry = INSTRUCTIONS[name]
    assert np.array_equal(entry.fragments["A"].table, elements(WGMMA[name], 64, "A"))
    accumulators = ((W, (2, 2, entry.n // 8)), ((128, 1, 16), (64, 8, 512)))
    assert np.array_equal(entry.fragments["D"].table, elements(accumulators, 64, "D"))


@pytest.mark.parametrize("a", ["row", "col"])
@pytest.mark.parametrize("b", ["row", "col"])
@pytest.mark.parametrize("d", ["f16", "f32"])
def test_volta_traits(a, b, d):
    entry = INSTRUCTIONS["mma.m8n8k4" + (f".{a}.{b}" if (a, b) != ("row", "col") else "") + ".f16"
                         + (".f16" if d == "f16" else "")]  # fmt: skip
    facts = {
        "A": BY_ROW if a == "row" else BY_COLUMN,
        "B": BY_ROW if b == "col" else BY_COLUMN,
        "D": ACCUMULATORS[d],
    }
    threads = numbers((4, 2), (1, 16))
    for operand, layout in facts.items():
        held = elements(layout, 8, operand)
        for product in range(4):
            row, column = np.divmod(
                entry.fragments[operand].table[threads + 4 * product], entry.tile(operand)[1]
            )
            inside = row * 8 + column - 8 * product if operand == "B" else (
                (row - 8 * product) * entry.tile(operand)[1] + column
            )  # fmt: skip
            assert np.array_equal(inside, held), (operand, product)


@pytest.mark.parametrize("name", COPIES)
def test_copy_traits(name):
    bits, *layout = COPIES[name]
    held = table(layout)
    assert np.array_equal(held[:, ::bits] + bits - 1, held[:, bits - 1 :: bits])  # whole elements
    assert np.array_equal(LAYOUTS[name].table, held[:, ::bits] // bits)
