"""How operands are looked up, and what is refused."""

from __future__ import annotations

import pytest

from regweave.assembly import Variable
from regweave.assembly.amd import Kernel, Part
from regweave.errors import AssemblyError, RegweaveError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942


def kernel(machine=GFX906, **options) -> Kernel:
    return Kernel(machine, name="k", **options)


def body(k: Kernel) -> list[str]:
    return [line.strip() for line in k.finish().body()]


def test_every_rule_in_one_template():
    k = kernel()
    known, fresh = k.vector("known"), Variable("fresh")
    k.emit_template("v_lshlrev_b32 %0, 2, %thread_x", known)
    k.emit("s_load_dwordx2", k.scalar("base", count=2), "kernarg", 0)
    k.emit_template("global_load_dwordx4 %0, %1, %base offset:16", fresh, known)
    k.emit_template("s_cbranch_vccz %0", "end")
    k.label("end")
    k.emit("v_mov_b32", "v9", Part(fresh, 3))
    rules = [(d.text, d.rule, d.demand) for d in k.decisions]
    assert rules == [
        ("%0", "known", "vector"), ("2", "number", ""), ("%thread_x", "keyword", "vector"),
        ("%0", "known", "scalar x2"), ("kernarg", "keyword", "scalar x2"), ("%2", "number", ""),
        ("%0", "new", "vector x4"), ("%1", "known", "vector"), ("%base", "name", "scalar x2"),
        ("%0", "label", ""), ("v9", "register", ""), ("%1", "known", "vector x4"),
    ]  # fmt: skip


def test_variables_are_looked_up_by_identity_not_by_name():
    k = kernel()
    first, second = Variable("x"), Variable("x")
    k.emit_template("v_mov_b32 %0, 1\nv_mov_b32 %1, 2\nv_add_u32 %0, %0, %1", first, second)
    assert body(k) == ["v_mov_b32 v0, 1", "v_mov_b32 v1, 2", "v_add_u32 v0, v0, v1", "s_endpgm"]


def test_a_constraint_says_how_many_registers_a_new_variable_gets():
    k = kernel()
    pair = Variable("pair")
    k.emit_template("v_mov_b32 %0.1, 7", pair, constraints="0:v4@4")
    assert (pair.count, pair.alignment) == (4, 4)


def test_a_keyword_gets_exactly_its_registers():
    k = kernel()
    k.emit_template("s_load_dwordx2 %0, %where, 8", Variable("x"), constraints="0:s2 where:s2=s0")
    k.emit_template("v_mov_b32 %0, %tile", Variable("y"), constraints="tile:s1=s2")
    assert body(k)[:2] == ["s_load_dwordx2 s[0:1], s[0:1], 8", "v_mov_b32 v0, s2"]


def test_physical_and_virtual_registers_share_a_template():
    k = kernel()
    t, u = k.vector("t"), k.vector("u")
    k.emit("v_mov_b32", t, 1)
    k.emit_template("v_add_u32 v1, v0, %0", t)  # v0: the work-item's number; v1 is now taken
    k.emit("v_mov_b32", u, 2)
    k.emit_template("v_add_u32 %0, v1, %1", t, u)
    k.emit_template("v_mov_b32 v[7], %0", t)
    text = body(k)
    assert text[1] == "v_add_u32 v1, v0, v1"  # t dies where v1 is born
    assert text[2] == "v_mov_b32 v0, 2"  # free again: nothing reads v0 any more, but v1 is taken
    assert text[3].endswith(", v1, v0")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.emit("v_mov_b32", k.vector("t"), "offst"), "no register is registered as 'offst'"),
        (lambda k: k.emit_template("v_mov_b32 %3, 0", k.vector("t")), "%3 is bound to nothing"),
        (lambda k: k.scalar("pair", count=2, pin="s1"), "2 registers from s1 on.*multiple of 2"),
        (lambda k: k.scalar("quad", count=4, pin="s6"), "multiple of 4"),
        (lambda k: k.emit_line("s_load_dwordx2 s[1:2], kernarg, 0"), "from s1 on are not aligned"),
        (lambda k: k.vector("v7"), "is a register and cannot be a variable"),
        (lambda k: k.emit("v_fmaf32", 1), "no instruction 'v_fmaf32'.*v_fma_f32"),
        (lambda k: k.emit("v_mov_b32", k.vector("pair", count=2), 0), "does not take"),
        (lambda k: k.emit("v_mov_b32", Part(k.vector("pair", count=2), 2), 0), "register 2 of 'pair'|beyond"),
        (lambda k: k.accumulation("x"), "no accumulation registers"),
        (lambda k: k.emit("v_add_f32", k.vector("d"), k.scalar("p"), k.scalar("q")), "2 scalar registers"),
        (lambda k: k.emit("v_add_f32", k.vector("d"), 123456, k.scalar("q")), "registers or literals"),
        (lambda k: k.emit_template("v_mov_b32 %0, 0", Variable("x"), constraints="0:q4"), "cannot be read"),
        (lambda k: k.emit_template("v_mov_b32 %0, 0", Variable("x"), constraints="0:v4=v4"), "mixes"),
        (lambda k: k.emit_line("v_mov_b32 v0, s["), "brackets"),
        (lambda k: k.emit_line("v_add_f32 v0, , v1"), "operand is missing"),
        (lambda k: (k.label("x"), k.label("x")), "defined twice"),
        (lambda k: k.argument("x", "float"), "one of pointer"),
        (lambda k: k.emit("v_mov_b32", Kernel(GFX906, name="o").vector("t"), 0), "not a variable of this"),
        (lambda k: k.emit("v_mov_b32", k.vector("d"), [1]), "cannot be an operand"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(RegweaveError, match=message):
        call(kernel())


def test_pairs_inside_a_tuple_are_even_where_the_machine_wants_it():
    k = kernel(GFX90A)
    quad = k.vector("quad", count=4)
    with pytest.raises(AssemblyError, match=r"2 registers from %\w+.1 on are not aligned.*multiple of 2"):
        k.emit("v_add_f64", k.vector("d", count=2), Part(quad, 1, 2), 1.0)
    old = kernel()
    odd = old.vector("quad", count=4)
    for at in range(4):
        old.emit("v_mov_b32", Part(odd, at), 0)
    old.emit("v_add_f64", old.vector("d", count=2), Part(odd, 1, 2), 1.0)
    assert "v_add_f64 v[0:1], v[1:2], 1.0" in body(old)


def test_labels_may_look_like_local_ones_of_the_assembler():
    k = kernel()
    k.label(".L1")
    k.emit("s_cmp_eq_u32", "group_x", 0)
    k.emit("s_cbranch_scc1", ".L1")
    assert body(k)[0] == ".Lk_.L1:"


def test_signs_absolute_values_and_modifiers_stay_where_they_are():
    k = kernel()
    x = k.vector("x")
    k.emit("v_mov_b32", x, 1.0)
    k.emit_template("v_fma_f32 %0, -%0, |%0|, -|%0| clamp", x)
    assert body(k)[1] == "v_fma_f32 v0, -v0, |v0|, -|v0| clamp"


def test_dpp_reads_its_destination_only_where_lanes_may_keep_their_value():
    k = kernel()
    x, y = k.vector("x"), k.vector("y")
    k.emit("v_mov_b32", x, 1)
    k.emit("v_mov_b32_dpp", y, x, modifiers="quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf")
    k.finish()
    k = kernel()
    x, y = k.vector("x"), k.vector("y")
    k.emit("v_mov_b32", x, 1)
    k.emit("v_mov_b32_dpp", y, x, modifiers="row_shr:1 row_mask:0xf bank_mask:0xf")
    with pytest.raises(AssemblyError, match="may read 'y' before it is written"):
        k.finish()


def test_a_matrix_result_lies_apart_from_its_factors():
    k = kernel(GFX942)
    quad, a = k.vector("quad", count=4), k.vector("pair", count=2)
    k.emit("v_mfma_f32_16x16x16_f16", quad, Part(quad, 0, 2), a, 0)
    with pytest.raises(AssemblyError, match="overlaps its factors"):
        k.finish()
    k = kernel(GFX942)
    acc, a = k.vector("acc", count=4), k.vector("pair", count=2)
    k.emit("v_mov_b32", Part(a, 0), 0)
    k.emit("v_mov_b32", Part(a, 1), 0)
    k.emit("v_mfma_f32_16x16x16_f16", acc, a, a, 0)
    assert "v_mfma_f32_16x16x16_f16 v[2:5], v[0:1], v[0:1], 0" in body(k)
