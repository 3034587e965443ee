"""Registers that M0 chooses while the kernel runs: index mode and s_movrel."""

from __future__ import annotations

import pytest

from regweave.assembly.amd import FinishedKernel, Kernel, Part
from regweave.assembly.amd.text import parse_kernel
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly import GFX906, GFX942

TABLE = """kernel k
vector table x4, x, other
scalar i
s_and_b32 i, group_x, 3
{fill}
s_set_gpr_idx_on i, gpr_idx({mode})
{line}
s_set_gpr_idx_off
{then}
"""
FILL = "\n".join(f"v_mov_b32 table.{i}, {i}" for i in range(4))


def finish(mode: str, line: str, then: str = "ds_write_b32 x, x", fill: str = FILL) -> FinishedKernel:
    return parse_kernel(TABLE.format(mode=mode, line=line, then=then, fill=fill), GFX906).finish()


def live(kernel: FinishedKernel, name: str) -> tuple[int, int]:
    return next((row.first, row.last) for row in kernel.register_map.rows if row.name == name)


def test_all_registers_from_the_named_one_on_may_be_read():
    kernel = finish("SRC0", "v_mov_b32 x, table.0")
    assert live(kernel, "table") == (1, 6)
    assert [line.strip() for line in kernel.body()][5:8] == [
        "s_set_gpr_idx_on s0, gpr_idx(SRC0)",
        "v_mov_b32 v0, v0",
        "s_set_gpr_idx_off",
    ]
    with pytest.raises(AssemblyError, match=r"may read 'table' \(register 3 of 4\) before it is written"):
        finish("SRC0", "v_mov_b32 x, table.0", fill=FILL.rpartition("\n")[0])
    finish("SRC0", "v_mov_b32 x, table.2", fill=FILL.replace("table.1", "other"))  # only 2 and 3 are meant


def test_the_registers_that_are_not_written_keep_what_they_hold():
    then = "\n".join(f"ds_write_b32 table.{i}, table.{i}" for i in range(4))
    kernel = finish("DST", "v_mov_b32 table.0, 7", then)
    assert live(kernel, "table")[0] == 1  # what was written before is still needed
    kernel = finish("SRC0", "v_mov_b32 table.0, 7", then)
    assert live(kernel, "table")[0] == 1  # the mode does not speak of the result: three registers are kept


def test_a_table_may_be_filled_without_being_cleared():
    kernel = finish("DST", "v_mov_b32 table.0, 7", "ds_write_b128 other, table", "v_mov_b32 other, 0")
    assert live(kernel, "table") == (3, 5)


def test_sources_are_counted_behind_the_result():
    filled = FILL + "\nv_mov_b32 other, 1\nv_mov_b32 x, 1"
    kernel = finish("SRC1", "v_fmac_f32 x, other, table.0", fill=filled)
    assert live(kernel, "table") == (1, 8)
    kernel = finish("SRC0", "v_fmac_f32 x, other, table.0", fill=filled)
    assert live(kernel, "other") == (5, 8)


@pytest.mark.parametrize(
    ("mode", "line", "message"),
    [
        ("SRC0", "v_mov_b32 x, v9", "which registers may be meant is not known"),
        ("SRC0", "l:\nv_mov_b32 x, table.0", "label 'l' stands in index mode"),
        ("SRC0", "s_cbranch_scc0 l", "'s_cbranch_scc0' stands in index mode"),
        ("SRC0", "s_endpgm", "'s_endpgm' stands in index mode"),
        ("SRC0", "v_readlane_b32 i, table.0, 3", "cannot be used in index mode"),
        ("SRC0", "s_set_gpr_idx_on i, gpr_idx(DST)", "s_set_gpr_idx_on while the index mode is on"),
        ("SRC9", "v_nop", r"index mode 'gpr_idx\(SRC9\)' cannot be read.*SRC0"),
    ],
)
def test_what_cannot_be_followed_is_refused(mode, line, message):
    with pytest.raises(AssemblyError, match=message):
        finish(mode, line)


def test_a_mode_that_is_changed_while_it_is_off():
    with pytest.raises(AssemblyError, match="s_set_gpr_idx_mode while the index mode is off"):
        parse_kernel("kernel k\ns_set_gpr_idx_mode gpr_idx(DST)", GFX942)


def test_a_mode_that_is_never_switched_off():
    text = "kernel k\nvector t x2\nv_mov_b32 t.0, 1\ns_set_gpr_idx_on 1, gpr_idx(DST)\nv_mov_b32 t.0, 2"
    with pytest.raises(AssemblyError, match="the kernel ends in index mode"):
        parse_kernel(text, GFX906).finish()


def relative(name: str, *, cleared: bool) -> Kernel:
    k = Kernel(GFX906, name="k")
    table, x = k.scalar("table", count=4), k.scalar("x")
    k.emit("s_and_b32", "m0", "group_x", 3)
    if cleared:
        for i in range(4):
            k.emit("s_mov_b32", Part(table, i), i)
    if name == "s_movrels_b32":
        k.emit(name, x, Part(table, 0))
    else:
        k.emit(name, Part(table, 0), 1)
        k.emit("s_add_u32", x, Part(table, 0), Part(table, 3))
    return k


def test_scalar_registers_that_m0_chooses():
    assert live(relative("s_movrels_b32", cleared=True).finish(), "table") == (1, 5)
    with pytest.raises(AssemblyError, match=r"'table'.*before it is written"):
        relative("s_movrels_b32", cleared=False).finish()
    relative("s_movreld_b32", cleared=False).finish()
    assert live(relative("s_movreld_b32", cleared=True).finish(), "table")[0] == 1


def test_m0_is_kept_away_from():
    k = Kernel(GFX906, name="k")
    table = k.scalar("table", count=4)
    k.emit("s_mov_b32", "m0", 1)
    k.emit("s_movreld_b32", Part(table, 0), 5)
    text = [line.strip() for line in k.finish().body()]
    assert text[:3] == ["s_mov_b32 m0, 1", "s_nop 0", "s_movreld_b32 s0, 5"]
