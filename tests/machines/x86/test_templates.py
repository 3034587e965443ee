"""Templates and constraints: what is derived from the lines, and what is refused."""

import pytest

from regweave.errors import AssemblyError
from regweave.machines import Machine, RegisterClass
from regweave.machines.instructions import Instruction, Line, Operand, Pattern
from regweave.machines.table import Table, takes
from regweave.machines.x86 import AVX2, AVX512


def roles(pattern):
    return [(access.read, access.first_write is not None) for access in pattern.accesses]


@pytest.mark.parametrize(
    ("operands", "lines", "expected"),
    [
        ("d:v a:v", "vmovaps %=0, %1", [(False, True), (True, False)]),
        ("d:v a:v b:v", "vfmadd231ps %+0, %1, %2", [(True, True), (True, False), (True, False)]),
        ("d:v a:v", ("vmovaps %=0, %1", "vaddps %+0, %+0, %1"), [(False, True), (True, False)]),
        ("d:v", "vxorps %=0, %=0, %=0", [(False, True)]),
        ("d:v a:v", "vaddps %=0, %0, %1", [(True, True), (True, False)]),
        ("to:m a:v", "vmovups %0, %1", [(True, False), (True, False)]),
    ],
)
def test_what_an_operand_does_comes_from_the_lines(operands, lines, expected):
    assert roles(Pattern(operands, lines)) == expected


@pytest.mark.parametrize(
    ("operands", "lines", "conflicts"),
    [
        # one line reads before it writes
        ("d:v a:v", "vmovaps %=0, %1", ()),
        # the result is there while a source is still to be read
        ("d:v a:v b:v", ("vmovaps %=0, %1", "vaddps %+0, %+0, %2"), ((0, 2),)),
        # the scratch dies where the result is born
        ("d:v a:v ~t:v", ("vmovaps %=2, %1", "vmovaps %=0, %2"), ()),
        # the scratch is there while a source is still to be read
        ("d:v a:v b:v ~t:v", ("vmovaps %=3, %1", "vaddps %=0, %3, %2"), ((3, 2),)),
        # two results always need two registers
        ("d:v e:v a:v", "foo %=0, %=1, %2", ((0, 1), (1, 0))),
        # a scratch beside an accumulator, whose old value lives on
        ("d:v a:v ~t:v", ("vmovaps %=2, %1", "vaddps %+0, %+0, %2"), ((0, 2), (2, 0))),
    ],
)
def test_conflicts_come_from_the_lines(operands, lines, conflicts):
    assert Pattern(operands, lines).conflicts == conflicts


@pytest.mark.parametrize(
    ("operands", "lines", "complaint"),
    [
        ("d:v", "vmovaps %=0, %1", "uses operand %1"),
        ("d:v a:v", "vxorps %=0, %=0, %=0", "never uses its operand 'a'"),
        ("d:v ~t:v", "vaddps %=0, %0, %1", "reads its scratch operand 't'"),
        ("~t:v d:v", "vmovaps %=1, %=0", "stands before a bound one"),
        ("d:v2", "vmovaps %=0.2, %0.0", "beyond the operand's registers"),
        ("d=v", "vmovaps %=0, %0", "cannot be read"),
        ("d:v", "vmovaps %=0, %", "starts no operand"),
    ],
)
def test_a_bad_template_is_refused(operands, lines, complaint):
    with pytest.raises(AssemblyError, match=complaint):
        Pattern(operands, lines).accesses  # noqa: B018


def test_unknown_controls_and_flags_are_refused():
    with pytest.raises(AssemblyError, match="expected jump, branch"):
        Pattern("", "jmp x", control="leap")
    with pytest.raises(AssemblyError, match="expected set, lost, read"):
        Pattern("", "nop", flags="kept")


def test_constraints_in_words():
    assert Operand.parse("d:v4@2") == Operand("d", ("v",), 4, 2)
    assert Operand.parse("~t:k") == Operand("t", ("k",), scratch=True)
    assert takes(Operand.parse("b:v|m"), "m")
    assert takes(Operand.parse("b:v|m"), "c")
    assert not takes(Operand.parse("b:v|m"), "b")
    assert not takes(Operand.parse("b:v"), "v2")
    assert Line.parse("add %+0, %#0000007f").tokens[1] == "0000007f"


def test_a_form_prints_memory_as_the_entry_wants_it():
    for kinds, line in {
        ("v", "v", "v"): "vaddps zmm0, zmm1, zmm2",
        ("v", "v", "m"): "vaddps zmm0, zmm1, zmmword ptr [rax]",
        ("v", "v", "b"): "vaddps zmm0, zmm1, dword ptr [rax]{1to16}",
    }.items():
        form = AVX512.table.form("add", kinds)
        assert form.render(("zmm0", "zmm1", "zmm2" if kinds[2] == "v" else "[rax]"), AVX512.views) == line
        assert AVX512.table.form("add", kinds) is form
    narrow = AVX2.table.form("add", ("v", "v", "b"))
    texts = ("ymm0", "ymm1", "[rax]", "ymm2")
    assert narrow.render(texts, AVX2.views) == "vbroadcastss ymm2, dword ptr [rax]\nvaddps ymm0, ymm1, ymm2"


def test_the_table_names_what_is_near_and_what_fits():
    with pytest.raises(AssemblyError, match="nearest: fma"):
        AVX512.table["fmaa"]
    with pytest.raises(
        AssemblyError, match=r"'fma' does not take \(v v label\) .*expected 'd:v a:v b:v\|m\|b'"
    ):
        AVX512.table.form("fma", ("v", "v", "l"))
    with pytest.raises(AssemblyError, match="twice"):
        Table("m", [Instruction("x", ()), Instruction("x", ())], {})


def test_a_machine_checks_itself():
    with pytest.raises(ValueError, match="twice"):
        RegisterClass("vector", "v", ("a", "a"), 32)
    with pytest.raises(ValueError, match="does not have"):
        RegisterClass("vector", "v", ("a",), 32, saved=frozenset("b"))
    with pytest.raises(ValueError, match="alignment"):
        RegisterClass("vector", "v", ("a",), 32, alignment=0)
    one = RegisterClass("vector", "v", ("a",), 32)
    with pytest.raises(ValueError, match="one letter"):
        Machine("m", "none", "", 1, (one, RegisterClass("other", "v", ("b",), 32)))
    with pytest.raises(ValueError, match="at least one lane"):
        Machine("m", "none", "", 0, (one,))
    with pytest.raises(ValueError, match="nearest: vector"):
        Machine("m", "none", "", 1, (one,)).register_class("vectors")
