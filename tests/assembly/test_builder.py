"""The builder: operands by identity, name and constraint; memory, constants, templates; errors that help."""

from __future__ import annotations

import ctypes

import pytest

from regweave.assembly import Builder, Listing, Memory, Variable, prove
from regweave.devices import cpu
from regweave.errors import AssemblyError
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import AVX2, AVX512, supports

needs_avx2 = pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")


def builder(machine=AVX2, arguments=("x", "n", "out")):
    return Builder(machine, name="kernel", arguments=arguments)


def body(listing: Listing) -> list[str]:
    """The instructions alone."""
    code = listing.text.partition("kernel:\n")[2].partition(".section")[0]
    return [line for line in code.splitlines() if line not in ("vzeroupper", "ret")]


def test_variables_are_looked_up_by_identity_not_by_name():
    b = builder()
    first, second = b.vector("v"), b.vector("v")
    b.emit("load", first, b.at("x"))
    b.emit("load", second, b.at("x", 32))
    b.emit("add", first, first, second)
    b.emit("store", b.at("out"), first)
    assert body(b.finish()) == [
        "vmovups ymm0, ymmword ptr [rdi]",
        "vmovups ymm1, ymmword ptr [rdi+32]",
        "vaddps ymm0, ymm0, ymm1",
        "vmovups ymmword ptr [rdx], ymm0",
    ]


def test_a_name_is_looked_up_among_the_registered_ones():
    b = builder()
    b.vector("acc")
    b.emit("load", "acc", b.at("x", 8, index="n", scale=4))
    b.emit("store", b.at("out", -4), "acc")
    listing = b.finish()
    assert body(listing) == ["vmovups ymm0, ymmword ptr [rdi+rsi*4+8]", "vmovups ymmword ptr [rdx-4], ymm0"]
    assert b["acc"] in listing.registers
    with pytest.raises(
        AssemblyError, match=r"no register is registered as 'acx' \(at kernel\); nearest: acc"
    ):
        b.emit("zero", "acx")
    with pytest.raises(AssemblyError, match="no register is registered as 'y'"):
        b.at("y")


def test_reserved_keywords_sit_where_the_convention_says():
    b = builder(arguments=("a", "b", "c", "d", "e", "f"))
    for name in "abcdef":
        b.emit("mov", b.at(name), 0)
    listing = b.finish()
    found = {v.name: r for v, r in listing.registers.items()}
    assert found == {"a": ("rdi",), "b": ("rsi",), "c": ("rdx",), "d": ("rcx",), "e": ("r8",), "f": ("r9",)}
    with pytest.raises(AssemblyError, match="7 arguments; expected at most 6"):
        builder(arguments="abcdefg")


def test_an_unknown_variable_gets_what_its_constraint_says():
    b = builder()
    pair = Variable("pair")
    assert "unregistered" in repr(pair)
    loads = Pattern("d:v2@2 from:m", ("vmovups %=0.0, %1", "vmovups %=0.1, %1"))
    b.emit("zero", b.vector("first"))
    b.emit_template(loads, pair, b.at("x"))
    assert (pair.count, pair.alignment, b["pair"]) == (2, 2, pair)
    lone = Variable("lone")
    b.emit("load", lone, b.at("x"))
    assert lone.count == 1
    adds = Pattern("a:v b:v2 c:v", ("vaddps %+0, %0, %1.1", "vaddps %+0, %0, %2"))
    b.emit_template(adds, b["first"], pair, lone)
    b.emit("store", b.at("out"), b["first"])
    listing = b.finish()
    prove(listing)
    assert listing.registers[pair] == ("ymm2", "ymm3")


def test_templates_of_ones_own():
    b = builder()
    x, y = b.vector("x0"), b.vector("y0")
    b.emit_template("vbroadcastss %=0, dword ptr [%x]\nvaddps %=1, %0, %0", x, y)
    b.emit_template("vmovd %=0:d, %1:x", b["n"], y)
    b.emit_template("mov dword ptr [%out], %n:d")
    listing = b.finish()
    prove(listing)
    assert body(listing) == [
        "vbroadcastss ymm0, dword ptr [rdi]",
        "vaddps ymm1, ymm0, ymm0",
        "vmovd esi, xmm1",
        "mov dword ptr [rdx], esi",
    ]
    with pytest.raises(AssemblyError, match="registered as 'nowhere'"):
        b.emit_template("inc %nowhere")


def test_constants_are_shared_and_fit_the_machine():
    wide, narrow = builder(AVX512), builder(AVX2)
    for b, operand in (
        (wide, "dword ptr [rip+.Lkernel.data0]{1to16}"),
        (narrow, "ymmword ptr [rip+.Lkernel.data0]"),
    ):
        v = b.vector()
        b.emit("zero", v)
        b.emit("add", v, v, b.constant(1.5))
        b.emit("mul", v, v, b.constant(0x3FC00000))
        b.emit("store", b.at("out"), v)
        lines = body(b.finish())
        assert lines[1] == f"{'vaddps zmm0, zmm0' if b is wide else 'vaddps ymm0, ymm0'}, {operand}"
        assert lines[2].endswith(operand)


@needs_avx2
def test_data_and_the_stack():
    b = builder(arguments=("out",))
    v, w = b.vector(), b.vector()
    table = b.constants([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    small, slot = b.stack(4), b.stack(32, align=64)
    assert isinstance(slot, Memory)
    b.emit("mov32", small, 7)
    b.emit("load", v, table)
    b.emit("store", slot, v)
    b.emit("broadcast", w, slot + 12)
    b.emit("add", v, v, w)
    b.emit("store", b.at("out"), v)
    address, low = b.general("address"), b.general("low", pin="rax")
    b.emit("lea", address, slot)
    b.emit("mov", low, address)
    b.emit("and", low, 63)
    b.emit("mov32", address, small)
    b.emit("add", low, address)
    listing = b.finish()
    prove(listing)
    out = (ctypes.c_float * 8)()
    assert cpu.load(listing)(ctypes.addressof(out)) == 7
    assert list(out) == [5, 6, 7, 8, 9, 10, 11, 12]


@needs_avx2
def test_bytes_of_any_length_are_data():
    b = builder(arguments=())
    r = b.general("r", pin="rax")
    b.emit("mov", r, b.data(bytes(range(1, 11)), align=1) + 2)
    assert cpu.load(b.finish())() == int.from_bytes(bytes(range(3, 11)), "little")


def test_a_macro_may_overwrite_its_own_source():
    b = builder()
    a, n, c = b.vectors("v", 3)
    for i, v in enumerate((a, n, c)):
        b.emit("load", v, b.at("x", 32 * i))
    b.emit("fma_to", a, a, n, c)
    b.emit("store", b.at("out"), a)
    listing = b.finish()
    prove(listing)
    assert sum("vfmadd231ps" in line for line in body(listing)) == 1
    with pytest.raises(AssemblyError, match="changes 'v0' before it reads it as another operand"):
        b.emit_template(Pattern("d:v a:v", ("vaddps %+0, %0, %0", "vmulps %+0, %0, %1")), a, a)


def test_moves_vanish_where_both_sides_share_a_register():
    b = builder()
    a, c, d = b.vectors("v", 3)
    b.emit("load", a, b.at("x"))
    b.emit("move", c, a)
    b.emit("load", d, b.at("x"))
    b.emit("fma_to", c, d, d, c)
    b.emit("store", b.at("out"), c)
    listing = b.finish()
    prove(listing)
    assert [line.split()[0] for line in body(listing)] == ["vmovups", "vmovups", "vfmadd231ps", "vmovups"]


def test_comments_show_up_in_the_annotated_text():
    b = builder()
    b.comment("the first tile")
    b.emit("zero", b.vector("acc"))
    b.emit("store", b.at("out", 4), "acc")
    text = b.finish().annotated()
    assert "# 0: zero acc  (the first tile)\nvxorps xmm0, xmm0, xmm0\n" in text
    assert "# 1: store [out + 4], acc\n" in text


def test_labels_are_unique_to_the_listing():
    b = builder()
    fresh = [b.fresh_label("loop") for _ in range(3)]
    assert len(set(fresh)) == 3
    b.label("loop")
    b.emit("dec", "n")
    b.emit("jump_nonzero", "loop")
    listing = b.finish()
    assert ".Lkernel_loop:" in listing.text
    assert listing.operations == 3
    with pytest.raises(AssemblyError, match="label 'loop' is defined twice"):
        b.label("loop")
    with pytest.raises(AssemblyError, match="cannot be a label"):
        b.label("a b")
    with pytest.raises(AssemblyError, match="cannot be a symbol"):
        Builder(AVX2, name="no-name")


@pytest.mark.parametrize(
    ("emit", "complaint"),
    [
        (lambda b, v: b.emit("fmaa", v, v, v), "avx2 has no instruction 'fmaa'; nearest: fma"),
        (lambda b, v: b.emit("fma", v, v), r"'fma' does not take \(v v\)"),
        (lambda b, v: b.emit("add", v, v, 3), r"'add' does not take \(v v immediate\)"),
        (lambda b, v: b.emit("mul", v, v, 0.5), r"0.5 cannot be an operand of 'mul'.*constant\(x\) makes"),
        (lambda b, v: b.emit("add", b["n"], None), "None cannot be an operand of 'add'"),
        (lambda b, v: b.emit("mov", b["n"], 2**64), "does not fit into 64 bits"),
        (lambda b, v: b.at(v), "<vector v> cannot be part of an address; expected general"),
        (lambda b, v: b.at("x", index="n", scale=3), "address scale 3 of 'x'; expected 1, 2, 4 or 8"),
        (lambda b, v: b.at("x", 2**31), "address offset 2147483648 of 'x'; expected 32 bits"),
        (lambda b, v: b.stack(8, align=128), "stack of 8 bytes aligned to 128"),
        (lambda b, v: b.general("r", pin="rsp"), "'r' cannot be pinned to 'rsp'"),
        (lambda b, v: b.vector("v", count=17), "asks for 17 registers aligned to 1; expected 1 to 16"),
        (lambda b, v: b.emit("jump_less", "there"), "reads the flags, but a label stands before it"),
        (lambda b, v: b.call_pointer(b["n"], *range(7)), "a C call with 7 arguments; expected at most 6"),
    ],
)
def test_wrong_calls_are_explained(emit, complaint):
    b = builder()
    with pytest.raises(AssemblyError, match=complaint):
        emit(b, b.vector("v"))


def test_flags_must_come_from_right_before():
    b = builder()
    b.emit("cmp", "n", 3)
    b.emit("jump_less", "out_")
    b.emit("jump_greater", "out_")
    b.emit("imul", "n", "n")
    with pytest.raises(AssemblyError, match=r"'imul' changed them .*; put cmp or test"):
        b.emit("mov_if_zero", "n", "x")
    b.emit("test", "n", "n")
    b.label("out_")
    with pytest.raises(AssemblyError, match="a label stands before it"):
        b.emit("jump_zero", "out_")


def test_variables_show_what_they_are():
    b = builder(AVX512)
    assert [repr(v) for v in (b.vector("t", count=4), b.general("n"), b.mask("k"))] == [
        "<vector t x4>",
        "<general n>",
        "<mask k>",
    ]
    assert repr(b.at("x", -8, index="n", scale=4)) == "[x + n * 4 - 8]"
    assert builder(AVX2).mask().register_class.name == "vector"
