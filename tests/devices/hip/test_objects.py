"""Finished kernels become objects whose counts and instructions are those that were declared."""

from __future__ import annotations

import random
import re

import pytest

from regweave.assembly.amd import FinishedKernel, Kernel, Part
from regweave.devices.hip.disassembler import disassemble, unsupported_reason
from regweave.devices.hip.messagepack import unpack
from regweave.devices.hip.objects import assemble, machine_code, read_counts
from regweave.errors import AssemblyError, DeviceError, InputError
from regweave.machines.amd.assembly import GFX906, TARGETS, GcnMachine

pytest.importorskip("ziglang")


def tile(machine: GcnMachine) -> FinishedKernel:
    """A small product through LDS, with whatever the machine multiplies by."""
    k = Kernel(machine, name="tile", workgroup=(64, 1, 1), lds_bytes=4096)
    out, scale = k.argument("out", "pointer"), k.argument("scale", "f32")
    last = k.argument("last", "u64")
    assert (out, scale, last) == (0, 8, 16)
    base, factor = k.scalar("base", count=2), k.scalar("factor")
    at, pair, total = k.vector("at"), k.vector("pair", count=2), k.vector("total")
    k.emit("s_load_dwordx2", base, "kernarg", out)
    k.emit("s_load_dword", factor, "kernarg", scale)
    k.emit("v_lshlrev_b32", at, 3, "thread" if machine.unified else "thread_x")
    k.emit("ds_read_b64", pair, at)
    if machine.unified:
        acc = k.accumulation("acc", count=4)
        k.emit("v_mfma_f32_16x16x16_f16", acc, pair, pair, 0)
        k.emit("v_accvgpr_read_b32", total, Part(acc, 3))
    else:
        k.emit("v_mov_b32", total, 0)
        k.emit("v_dot2_f32_f16", total, Part(pair, 0), Part(pair, 1), total)
    k.emit("v_cmp_lt_f32", "vcc", 0, total)
    k.emit("v_cndmask_b32", total, 0, total, "vcc")
    k.emit("v_mul_f32", total, factor, total)
    k.emit("global_store_dword", at, total, base)
    return k.finish()


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_the_object_declares_what_the_text_uses(machine: GcnMachine):
    kernel = tile(machine)
    counts = read_counts(assemble(kernel.text, machine.target_id), "tile")
    body = "\n".join(kernel.body())
    highest = {}
    for letter in "vsa":
        singles = re.findall(rf"\b{letter}(\d+)\b", body)
        spans = re.findall(rf"\b{letter}\[\d+:(\d+)\]", body)
        highest[letter] = max((int(n) + 1 for n in (*singles, *spans)), default=0)
    assert highest == {
        "v": kernel.used["vector"],
        "s": kernel.used["scalar"],
        "a": kernel.used["accumulation"],
    }
    offset = machine.accumulation_offset(highest["v"]) if highest["a"] else highest["v"]
    assert counts.vectors == offset + highest["a"]
    assert counts.accumulators == highest["a"]
    assert counts.offset == (machine.accumulation_offset(highest["v"]) if machine.unified else 0)
    assert counts.file == machine.registers_in_file(highest["v"], highest["a"])
    assert counts.scalars == highest["s"] + 2  # VCC
    assert (counts.lds_bytes, counts.kernarg_bytes) == (4096, 24)


@pytest.mark.parametrize(
    ("named", "wanted", "scalars"), [("", 0, 2), ("group_x", 1, 3), ("group_y", 2, 4), ("group_z", 3, 5)]
)
def test_the_workgroups_numbers_are_asked_for_as_far_as_they_are_named(named, wanted, scalars):
    k = Kernel(GFX906, name="k", workgroup=(64, 1, 1))
    x = k.argument("x", "pointer")
    base, at, value = k.scalar("base", count=2), k.vector("at"), k.vector("value")
    k.emit("v_mov_b32", value, named or 7)
    k.emit("s_load_dwordx2", base, "kernarg", x)
    k.emit("v_lshlrev_b32", at, 2, "thread_x")
    k.emit("global_store_dword", at, value, base)
    kernel = k.finish()
    for i, axis in enumerate("xyz"):
        assert f".amdhsa_system_sgpr_workgroup_id_{axis} {int(i < wanted)}\n" in kernel.text
    assert kernel.demands.scalars == scalars
    counts = read_counts(assemble(kernel.text, GFX906.target_id), "k")
    assert counts.scalars == scalars


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_the_disassembly_is_the_text(machine: GcnMachine):
    if unsupported_reason(machine.name):
        pytest.skip(str(unsupported_reason(machine.name)))
    kernel = tile(machine)
    read = disassemble(machine_code(assemble(kernel.text, machine.target_id)), machine.name)
    written = [line.strip() for line in kernel.body()]

    def normal(line: str) -> list[str]:
        line = re.sub(r"^(\w+?)_(e32|e64)\b", r"\1", line)
        return re.split(r"[\s,]+", re.sub(r"0x[0-9a-f]+", lambda m: str(int(m[0], 16)), line))

    assert list(map(normal, read)) == list(map(normal, written))


@pytest.mark.parametrize(
    ("library", "machine", "said"),
    [
        (None, "gfx942", "no shared LLVM"),
        ((None, 15), "gfx942", "comes with LLVM 17, here is 15"),
        ((None, 0), "gfx90a", "here is an unknown one"),
        ((None, 99), "gfx1", "does not know gfx1"),
    ],
)
def test_a_machine_that_llvm_does_not_know_is_an_error(monkeypatch, library, machine, said):
    monkeypatch.setattr("regweave.devices.hip.disassembler._library", lambda: library)
    with pytest.raises(DeviceError, match=said):
        disassemble(bytes(8), machine)


def test_the_assemblers_refusal_names_the_line():
    with pytest.raises(AssemblyError, match=r"refuses the text.*\(at v_mov_b33 v0, 1\)"):
        assemble("s_nop 0\nv_mov_b33 v0, 1\n", "gfx906:xnack-", link=False)


def test_damaged_objects_are_told():
    data = assemble(Kernel(GFX906, name="k").finish().text, GFX906.target_id)
    choose, wrong = random.Random(0), 0
    for at in range(200):
        damaged = bytearray(data if at % 2 else data[: choose.randrange(len(data))])
        for _ in range(4):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        for read in (lambda: read_counts(bytes(damaged), "k"), lambda: machine_code(bytes(damaged))):  # noqa: B023
            try:
                read()
            except InputError:
                wrong += 1
    assert wrong > 100


def test_what_is_no_object_is_refused():
    with pytest.raises(InputError, match="no object file"):
        read_counts(b"\x7fELF\x01" + bytes(100), "k")
    data = assemble(tile(TARGETS["gfx906"]).text, "gfx906:xnack-")
    with pytest.raises(InputError, match="no kernel 'other'"):
        read_counts(data, "other")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x82\xa1a\x07\xa1b\x91\xc3", {"a": 7, "b": [True]}),
        (b"\xcd\x01\x00", 256),
        (b"\xd1\xff\xfe", -2),
        (b"\xff", -1),
        (b"\xd9\x03xyz", "xyz"),
        (b"\xdc\x00\x02\x01\x02", [1, 2]),
        (b"\xde\x00\x01\xa1k\xc0", {"k": None}),
    ],
)
def test_messagepack(data, value):
    assert unpack(data) == value


@pytest.mark.parametrize("data", [b"", b"\xa5ab", b"\xcd\x01", b"\xc4\x01x", b"\x92\x01"])
def test_messagepack_that_is_cut_off_or_something_else(data):
    with pytest.raises(InputError, match="metadata"):
        unpack(data)
