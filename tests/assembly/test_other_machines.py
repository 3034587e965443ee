"""The builder knows no processor: a machine with scalar registers, accumulators in aligned tuples and its own
syntax."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from regweave.assembly import Builder, prove
from regweave.errors import AssemblyError, RegisterError
from regweave.machines import AssemblyMachine, RegisterClass
from regweave.machines.instructions import Instruction, Pattern
from regweave.machines.table import Table


class Wave(AssemblyMachine):
    """In the manner of a GPU: tuples are written v[4:7], addresses are a register pair and an offset."""

    def address(self, base: str, index: str | None, scale: int, offset: int) -> str:
        return f"{base} offset:{offset}"

    def run(self, registers: Sequence[str]) -> str:
        first, last = registers[0], registers[-1]
        return f"{first[0]}[{first[1:]}:{last[1:]}]"

    def data_base(self, symbol: str) -> str:
        return symbol

    def head(self, name: str) -> Sequence[str]:
        return (f"{name}:",)

    def frame(
        self, saved: Sequence[str], stack_bytes: int | None, vectors: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        return (), ("s_waitcnt 0",)


def registers(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i}" for i in range(count))


ENTRIES = (
    Instruction("load4", (Pattern("d:v4 from:m", "global_load_dwordx4 %=0, %1"),)),
    Instruction("matrix", (Pattern("d:a4@4 a:v b:v", "v_mfma_f32_4x4x1f32 %+0, %1, %2, %0"),)),
    Instruction("clear", (Pattern("d:a4@4", tuple(f"v_accvgpr_write %=0.{i}, 0" for i in range(4))),)),
    Instruction("take", (Pattern("d:v a:a4@4", "v_accvgpr_read %=0, %1.2"),)),
    Instruction("store", (Pattern("to:m a:v", "global_store_dword %0, %1"),)),
    Instruction("return", (Pattern("", "s_endpgm", control="leave"),)),
)
WAVE = Wave(
    "wave64",
    "test",
    "a wave of 64 lanes",
    64,
    (
        RegisterClass("vector", "v", registers("v", 16), 32),
        RegisterClass("general", "r", registers("s", 16), 32),
        RegisterClass("accumulator", "a", registers("a", 10), 32, alignment=2),
    ),
    make_table=lambda: Table("wave64", ENTRIES, {"m": ("", "")}),
    views={},
    arguments=("s4", "s6"),
    mask_class="general",
    repeats=1,
    frame_register="s15",
    result="s0",
)


def kernel(accumulators: int) -> Builder:
    b = Builder(WAVE, name="k", arguments=("x", "out"))
    tiles = [b.variable(f"tile{i}", "accumulator", count=4, align=4) for i in range(accumulators)]
    quad, one = b.vector("quad", count=4), b.vector("one")
    for tile in tiles:
        b.emit("clear", tile)
    b.emit("load4", quad, b.at("x", 16))
    b.emit_template("v_mov_b32 %=0, %1.3", one, quad)
    for tile in tiles:
        b.emit("matrix", tile, one, one)
    for tile in tiles:
        b.emit("take", one, tile)
        b.emit("store", b.at("out"), one)
    return b


def test_tuples_addresses_and_frames_are_the_machines():
    listing = kernel(1).finish()
    assert prove(listing) > 10
    assert listing.text.splitlines()[5:] == [
        "global_load_dwordx4 v[0:3], s4 offset:16",
        "v_mov_b32 v0, v3",
        "v_mfma_f32_4x4x1f32 a[0:3], v0, v0, a[0:3]",
        "v_accvgpr_read v0, a2",
        "global_store_dword s6 offset:0, v0",
        "s_waitcnt 0",
        "s_endpgm",
    ]


def test_alignment_limits_how_many_tuples_fit():
    assert prove(kernel(2).finish()) > 10
    with pytest.raises(RegisterError, match="needs 12 of 10 accumulator registers"):
        kernel(3).finish()


def test_a_template_may_mean_a_part_of_a_tuple():
    b = Builder(WAVE, name="k", arguments=("x", "out"))
    quad, pair = b.vector("quad", count=4), b.vector("pair", count=2)
    b.emit("load4", quad, b.at("x"))
    b.emit_template("v_pk_add %=0, %1.2:3, %1.0:1", pair, quad)
    b.emit_template("global_store_dword %0 offset:0, %1.1", b["out"], pair)
    listing = b.finish()
    assert prove(listing) == 7
    assert "v_pk_add v[0:1], v[2:3], v[0:1]" in listing.text
    assert "global_store_dword s6 offset:0, v1" in listing.text


def test_a_part_lies_inside_its_tuple():
    b = Builder(WAVE, name="k", arguments=("x",))
    quad = b.vector("quad", count=4)
    with pytest.raises(AssemblyError, match="beyond the operand's registers"):
        b.emit_template("v_pk_mov %=0.3:4, 0", quad)
    with pytest.raises(AssemblyError, match="beyond the operand's registers"):
        b.emit_template("v_pk_mov %=0.3:1, 0", quad)


def test_a_nearly_full_file_of_tuples_is_filled(monkeypatch):
    def crowded(seed: int) -> Builder:
        choose = random.Random(seed)
        b = Builder(WAVE, name="k", arguments=("x", "out"))
        living, held = [], 0
        for number in range(14):
            if living and (choose.random() < 0.5 or held >= 15):
                v = living.pop(choose.randrange(len(living)))
                b.emit_template("global_store %0, %1.0", b["out"], v) if v.count > 1 else b.emit(
                    "store", b.at("out"), v
                )
                held -= v.count
            count = choose.choice((1, 2, 2, 4, 6))
            if held + count <= 16:
                living.append(b.vector(f"x{number}", count=count))
                b.emit_template("v_mov_b32 %=0, 1", living[-1])
                held += count
        for v in living:
            b.emit_template("global_store %0, %1", b["out"], v)
        return b

    for seed in range(60):
        prove(crowded(seed).finish())
    monkeypatch.setattr("regweave.assembly.allocation.search", lambda *_, **__: None)
    refused = 0
    for seed in range(60):
        try:
            crowded(seed).finish()
        except RegisterError:
            refused += 1
    assert refused
