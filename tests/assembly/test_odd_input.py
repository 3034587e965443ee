"""Bad and odd input to the builder and the text form: one clear error, or the right program."""

import numpy as np
import pytest

from regweave.assembly import Builder, parse_text, prove
from regweave.devices import cpu
from regweave.errors import AssemblyError
from regweave.machines.x86 import AVX2, AVX512


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("add x, " + "9" * 5000, "has 5000 digits"),
        ("vector t x" + "9" * 5000, "has 5000 digits"),
        ("vector v\nmul v, v, 1e39", "1e[+]39 cannot be a constant"),
        ("vector v\nmul v, v, 1e999", "1e999 is beyond every float"),
        ("vector 5", "'5' is not a symbol"),
        ("vector a\nzero a\nmask a", "'a' is declared twice"),
        ("general x", "'x' is declared twice"),
        ("shl x, 64", "'shl' cannot have the number 64.*expected 0 to 63"),
        ("shl x, -1", "'shl' cannot have the number -1"),
        ("align 8192", "'align' cannot have the number 8192.*expected 0 to 4096"),
        ("vector v\nshift_left_int v, v, 32", "expected 0 to 31"),
        ("`mov %=0:z, 1` x", "operand %0 of a template has no view 'z'.*expected d or w or b"),
        ("vector v\n`vmovd %=0:d, %1` v, x", "operand %0 .*no view 'd'.*expected x or y"),
        ("`mov %=x:x, 1`", "operand %x of a template has no view 'x'"),
        ("vector a, b\nzero a\n`vaddps %=0, %1, %5` b, a", "'vaddps %=0, %1, %5' uses operand %5"),
        ("vector t x8 @zmm30", "'t' asks for 8 registers from zmm30 on, the last is zmm31"),
    ],
)
def test_text_that_cannot_be_right(lines, complaint):
    with pytest.raises(AssemblyError, match=complaint):
        parse_text("kernel f(x)\n" + lines, AVX512).finish()


@pytest.mark.parametrize(
    ("head", "complaint"),
    [
        ("kernel f(x, x)", "two arguments of f have one name"),
        ("kernel f(x y)", "'x y' cannot be an argument"),
        ("kernel f(1)", "'1' cannot be an argument"),
    ],
)
def test_heads_that_cannot_be_right(head, complaint):
    with pytest.raises(AssemblyError, match=complaint):
        parse_text(head, AVX512)


def test_leading_zeros_mean_nothing():
    assert "add rdi, 10" in parse_text("kernel f(x)\nadd x, 010", AVX512).finish().text


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda b: b.constant(2**32), "constant 4294967296 does not fit into 32 bits"),
        (lambda b: b.constant("1"), "'1' cannot be a constant"),
        (lambda b: b.constants([1.0, 1e39]), "1e[+]39 cannot be a constant"),
        (lambda b: b.constants([]), "0 bytes of data"),
        (lambda b: b.data(b"x", align=3), "1 bytes of data aligned to 3"),
        (lambda b: b.data(b"x", align=1 << 16), "aligned to 65536"),
        (lambda b: b.stack(1 << 17), "stack of 131072 bytes.*65536 bytes in all"),
        (lambda b: b.at("x", 1.5), "address offset 1.5 of 'x'"),
        (lambda b: b.vector("a\nud2"), "cannot be a register's name"),
    ],
)
def test_values_that_do_not_fit(machine, call, complaint):
    with pytest.raises(AssemblyError, match=complaint):
        call(Builder(machine, name="f", arguments=("x",)))


def test_integers_of_any_type_are_bit_patterns():
    b = Builder(AVX512, name="f")
    assert repr(b.constant(np.int64(5))) == repr(b.constant(5)) != repr(b.constant(5.0))


def test_remarks_take_one_line():
    b = Builder(AVX512, name="f", arguments=("x",))
    b.comment("first\nud2")
    b.emit("inc", b["x"])
    assert "# 0: inc x  (first ud2)" in b.finish().annotated().splitlines()


def test_a_label_is_never_a_constants_symbol():
    b = Builder(AVX512, name="f", arguments=("x",))
    v = b.vector("v")
    b.emit("zero", v)
    b.label("data0")
    b.emit("add", v, v, b.constant(2.0))
    b.emit("store", b.at("x"), v)
    assert cpu.assemble(b.finish().text)


def test_variables_of_another_builder_are_refused():
    other = Builder(AVX2, name="other", arguments=("y",))
    b = Builder(AVX512, name="f", arguments=("x",))
    for operand in (other["y"], other.at("y")):
        c = Builder(AVX512, name="f", arguments=("x",))
        c.emit("mov", c["x"], operand)
        with pytest.raises(AssemblyError, match="<general y> is not a variable of this builder"):
            c.finish()
    b.emit("zero", other.vector("v"))
    with pytest.raises(AssemblyError, match="<vector v> is not a variable of this builder"):
        b.finish()


@pytest.mark.parametrize(
    "lines",
    [
        "jump end\nvector a\nstore [x], a\nend:\nreturn",
        "general a\nreturn\nagain:\nadd a, 5\njump_nonzero again",
        "general a\nreturn\nmov a, 5\nmov [x], a",
    ],
)
def test_unreachable_code_is_no_fault(lines):
    listing = parse_text("kernel f(x)\n" + lines, AVX512).finish()
    prove(listing)
    assert cpu.assemble(listing.text)


def test_a_listing_stays_what_it_was():
    b = Builder(AVX512, name="f", arguments=("x",))
    b.emit("mov", b.at("x"), 1)
    listing = b.finish()
    before = listing.text
    b.emit("mov", b.general("more"), b["x"])
    b.finish()
    assert listing.operations == 2
    assert str(listing.register_map).count("\n") == 1
    assert [line for line in listing.annotated().splitlines() if line[0] != "#"] == before.splitlines()


def test_pinned_tuples_get_all_their_registers():
    b = Builder(AVX512, name="f", arguments=("x",))
    tile, v = b.vector("tile", count=4, pin="zmm4"), [b.vector(f"v{i}") for i in range(6)]
    for one in v:
        b.emit("load", one, b.at("x"))
    b.emit_template("\n".join(f"vmovaps %=0.{i}, %1" for i in range(4)), tile, v[0])
    b.emit_template("\n".join(f"vaddps %+0, %0, %1.{i}" for i in range(4)), v[5], tile)
    for one in v:
        b.emit("store", b.at("x"), one)
    listing = b.finish()
    prove(listing)
    assert listing.registers[tile] == ("zmm4", "zmm5", "zmm6", "zmm7")


def test_one_register_may_be_aligned():
    b = Builder(AVX512, name="f", arguments=("x",))
    low, high = b.vector("low"), b.vector("high", align=4)
    b.emit("load", low, b.at("x"))
    b.emit("load", high, b.at("x"))
    b.emit("add", low, low, high)
    b.emit("store", b.at("x"), low)
    assert b.finish().registers[high] == ("zmm4",)


def test_routines_nest_only_so_deep():
    b = Builder(AVX512, name="f")
    b.emit("call", "r0")
    b.emit("return")
    for i in range(200):
        b.label(f"r{i}")
        if i < 199:
            b.emit("call", f"r{i + 1}")
        b.emit("ret")
    with pytest.raises(AssemblyError, match="routines call one another more than 100 deep"):
        b.finish()


def test_templates_with_numbers_in_them_do_not_pile_up():
    for number in range(1100):
        b = Builder(AVX512, name="f", arguments=("x",))
        b.emit_template(f"mov %=0, {number}", b["x"])
    assert len(AVX512.table.templates) <= 1000
