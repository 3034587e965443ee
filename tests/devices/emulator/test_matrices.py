"""Every matrix instruction of the tables, on tiles that the catalogue's layouts spread over the lanes."""

import numpy as np
import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.devices.emulator import run
from regweave.layouts import element_type
from regweave.machines.amd.assembly import GFX90A, GFX942
from regweave.machines.catalogue import find_machine
from regweave.programs.numbers import decode

CASES = [
    (machine, name)
    for machine in (GFX90A, GFX942)
    for name in sorted({e.mnemonic for e in machine.instructions.values() if e.unit == "matrix"})
]


def fragment_words(layout, tile):
    """The registers [register, lane] that hold a tile of bit patterns."""
    bits = element_type(layout.dtype).bits
    elements = tile.reshape(-1)[layout.table]  # [lane, item]
    if bits == 64:
        return elements.astype(np.uint64).view(np.uint32).reshape(64, -1).T.copy()
    parts = max(1, 32 // bits)
    groups = elements.astype(np.uint64).reshape(64, -1, parts)
    words = sum(groups[:, :, k] << np.uint64(bits * k) for k in range(parts))
    return words.astype(np.uint32).T.copy()


def kernel(machine, name, sizes):
    k = Kernel(machine, name="multiply")
    places = [k.argument(operand.lower(), "pointer") for operand in "ABCD"]
    at, line = k.vector("at"), k.vector("line")
    k.emit("v_lshlrev_b32", at, 2, "thread")
    values = {}
    for operand, place, count in zip("ABCD", places, sizes, strict=True):
        base = k.scalar(f"base_{operand}", count=2)
        k.emit("s_load_dwordx2", base, "kernarg", place)
        make = k.accumulation if operand == "D" and count > 4 else k.vector
        value = make(f"value_{operand}", count=count)
        values[operand] = value, base
        if operand == "D":
            continue
        for register in range(count):
            k.emit("v_add_u32", line, 256 * register, at)
            part = value if count == 1 else Part(value, register)
            k.emit("global_load_dword", part, line, base)
    acc = values["C"][0]
    if sizes[3] > 4:  # C must be of the result's class
        moved = k.accumulation("moved", count=sizes[2])
        for register in range(sizes[2]):
            k.emit("v_accvgpr_write_b32", Part(moved, register), Part(acc, register))
        acc = moved
    k.emit(name, values["D"][0], values["A"][0], values["B"][0], acc)
    value, base = values["D"]
    for register in range(sizes[3]):
        k.emit("v_add_u32", line, 256 * register, at)
        part = value if sizes[3] == 1 else Part(value, register)
        k.emit("global_store_dword", line, part, base)
    return k.finish()


def numbers(rng, shape, dtype):
    """Bit patterns of small numbers whose sums are exact."""
    kind = element_type(dtype)
    if kind.kind == "integer":
        return rng.integers(-128, 128, shape) & (1 << kind.bits) - 1
    small = rng.integers(-8, 9, shape)
    if dtype == "f64":
        return small.astype(np.float64).view(np.uint64)
    if dtype in ("f32", "tf32"):
        return small.astype(np.float32).view(np.uint32).astype(np.uint64)
    if dtype == "f16":
        return small.astype(np.float16).view(np.uint16).astype(np.uint64)
    if dtype == "bf16":
        return small.astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    patterns = np.arange(256, dtype=np.uint32)
    values = decode(patterns, dtype)
    table = {float(v): p for p, v in zip(patterns, values, strict=True) if not np.isnan(v)}
    return np.vectorize(lambda v: table[float(v)])(small).astype(np.uint64)


@pytest.mark.parametrize(("machine", "name"), CASES, ids=lambda v: getattr(v, "name", v))
def test_products(machine, name):
    known = find_machine(machine.name).instructions
    entry = known[known.resolve(name)]
    rng = np.random.default_rng(3)
    tiles, words = {}, {}
    for operand in "ABC":
        layout = entry.fragments[operand]
        bits = numbers(rng, layout.shape, layout.dtype)
        width = np.uint64 if element_type(layout.dtype).bits == 64 else np.uint32
        tiles[operand] = decode(bits.astype(width), layout.dtype)
        words[operand] = fragment_words(layout, bits)
    out = entry.fragments["D"]
    words["D"] = np.zeros((out.registers, 64), np.uint32)
    given = {operand.lower(): value for operand, value in words.items()}
    run(kernel(machine, name, [len(words[o]) for o in "ABCD"]), grid=1, arguments=given, unwritten=["d"])
    wanted = np.empty(out.shape)
    for block in range(entry.blocks):
        rows, columns = (
            slice(block * entry.m, (block + 1) * entry.m),
            slice(block * entry.n, (block + 1) * entry.n),
        )
        product = tiles["A"][rows].astype(np.float64) @ tiles["B"][:, columns].astype(np.float64)
        wanted[rows] = product + tiles["C"][rows]
    found = given["d"]
    if out.dtype == "f64":
        elements = found.T.copy().view(np.float64)
    else:
        elements = found.T.copy().view({"f32": np.float32, "s32": np.int32}[out.dtype])
    assert np.array_equal(elements, wanted.reshape(-1)[out.table])
