"""Matrix instructions, from the fragments of the catalogue.

    v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]

The operands' registers are put together to tiles as the catalogue's layouts say, multiplied, and taken apart
again. f32 and f64 products are added one k after the other, each with one rounding. Products of shorter types
are exact; they are summed in float64 and added to the sum with one rounding. The device's order within an
instruction is not documented: results of short types may differ in their last bit. Whole numbers wrap around.

All lanes take part, whatever EXEC says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions.words import number_bits, vector_places
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import LANES
from regweave.errors import UnsupportedError
from regweave.layouts import Layout, element_type
from regweave.machines.amd.generations import MACHINES
from regweave.machines.fused import fused
from regweave.programs.numbers import decode

Array = Any


def prepare_matrix(program: Program, step: Step) -> Callable[[Cohort], None]:
    """The action of a matrix instruction. UnsupportedError for modifiers that are not emulated."""
    machine = MACHINES[program.machine.name]
    name = machine.instructions.resolve(step.name)
    if name is None:
        raise UnsupportedError(f"{step} is not in the catalogue of {machine.name}", where=program.name)
    entry = machine.instructions[name]
    for word, value in step.modifiers.items():
        if word not in ("cbsz", "abid", "blgp") or value != "0":
            raise UnsupportedError(f"{step} with {word}:{value} is not emulated", where=program.name)
    layouts = entry.fragments
    numbers = [vector_places(program, o) if o.kind == "register" else [] for o in step.operands]
    start = step.operands[3]
    sizes = (entry.blocks, entry.m, entry.n, entry.k)
    result = layouts["D"].dtype
    initial = number_bits(start.text, "f64" if result == "f64" else "f32") if not numbers[3] else 0

    def action(c: Cohort) -> None:
        every = np.ones((c.count, LANES), bool)
        a, b = (
            _tile(_read(c, numbers[at], layouts[name], every), layouts[name])
            for at, name in ((1, "A"), (2, "B"))
        )
        layout = layouts["C"]
        if numbers[3]:
            total = _accumulators(_tile(_read(c, numbers[3], layout, every), layout), result)
        else:
            total = np.full((c.count, *layout.shape), initial, np.uint64 if result == "f64" else np.uint32)
            total = _accumulators(total, result)
        product = _multiply(_decoded(a, layouts["A"]), _decoded(b, layouts["B"]), total, sizes, result)
        for number, word in zip(numbers[0], _apart(product, layouts["D"]), strict=True):
            c.write(number, word, every)

    return action


def _read(c: Cohort, numbers: list[int], layout: Layout, every: Array) -> Array:
    """Elements [waves, lanes, items] of a fragment's registers."""
    kind = element_type(layout.dtype)
    words = [c.read(number, every) for number in numbers]
    if kind.bits == 64:
        pairs = zip(words[::2], words[1::2], strict=True)
        return np.stack([x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32) for x, y in pairs], -1)
    if kind.bits == 32:
        return np.stack(words, -1)
    mask = np.uint32((1 << kind.bits) - 1)
    shifts = range(0, 32, kind.bits)
    return np.stack([word >> np.uint32(shift) & mask for word in words for shift in shifts], -1)


def _tile(elements: Array, layout: Layout) -> Array:
    """The tile [waves, rows, columns] of a fragment."""
    tile = np.empty((len(elements), layout.shape[0] * layout.shape[1]), elements.dtype)
    tile[:, layout.table.reshape(-1)] = elements.reshape(len(elements), -1)
    return tile.reshape(-1, *layout.shape)


def _decoded(tile: Array, layout: Layout) -> Array:
    """The tile's numbers: floats of their own type where each product is rounded, else float64 or int64."""
    if layout.dtype == "f32":
        return tile.view(np.float32)
    return decode(tile, layout.dtype)


def _accumulators(tile: Array, dtype: str) -> Array:
    return tile.view({"f32": np.float32, "f64": np.float64, "s32": np.int32}[dtype])


def _multiply(a: Array, b: Array, total: Array, sizes: tuple[int, int, int, int], result: str) -> Array:
    """Blocks of A times blocks of B, added to `total`: [waves, blocks * m, n]."""
    blocks, m, n, k = sizes
    a = a.reshape(-1, blocks, m, k)
    b = b.reshape(-1, k, blocks, n).transpose(0, 2, 1, 3)
    shape, total = total.shape, total.reshape(-1, blocks, m, n)
    if a.dtype == total.dtype:
        for at in range(k):
            total = fused(a[..., at, None], b[:, :, at, None, :], total)
    elif result == "s32":
        exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64) + total
        total = (exact & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    else:
        total = (a @ b + total).astype(total.dtype)
    return total.reshape(shape)


def _apart(product: Array, layout: Layout) -> list[Array]:
    """The registers of a product, each [waves, lanes]."""
    elements = product.reshape(len(product), -1)[:, layout.table]
    if product.dtype == np.float64:
        words = np.ascontiguousarray(elements).view(np.uint32).reshape(*elements.shape, 2)
        return [words[..., item, part] for item in range(elements.shape[2]) for part in range(2)]
    return list(np.moveaxis(elements, 2, 0).view(np.uint32))
