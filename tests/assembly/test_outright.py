"""x86: registers that a template names outright, saved ones, upper halves, k0, flags."""

from __future__ import annotations

import pytest

from regweave.assembly import Builder, prove
from regweave.devices import cpu
from regweave.errors import AssemblyError
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import AVX2, AVX512


def builder(machine=AVX512) -> Builder:
    return Builder(machine, name="kernel", arguments=("x", "n", "out"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("vmovaps zmm5, %0", "names 'zmm5', which may hold anybody's value.*pinned to 'zmm5'"),
        ("vmovaps xmm5, %0:x", "names 'xmm5'.*pinned to 'zmm5'"),
        ("vmovd EBX, %0:x", "names 'ebx'.*pinned to 'rbx'"),
        ("vmovaps %0 {k0}, %0", "names 'k0': as a mask it means that there is none"),
        ("vmovaps %0 {k3}, %0", "names 'k3'.*pinned to 'k3'"),
        ("vmovups [rsp+8], %0", "names 'rsp': the stack belongs to the function's frame"),
        ("vaddps %=0, %0, %0\nvzeroupper", "'vzeroupper' changes zmm0, zmm1, zmm2, zmm3, .*clobbers"),
        ("vaddps %=0, %0, %0\nrdtsc", "'rdtsc' changes rax, rdx.*clobbers"),
    ],
)
def test_a_register_that_nobody_declared_is_refused(template, message):
    b = builder()
    v = b.vector("v")
    b.emit("zero", v)
    with pytest.raises(AssemblyError, match=message):
        b.emit_template(template, v)


def test_registers_of_a_machine_go_by_all_their_names():
    b = builder(AVX2)
    with pytest.raises(AssemblyError, match=r"names 'xmm3'.*pinned to 'ymm3'"):
        b.emit_template("vpxor xmm3, xmm3, xmm3")


def test_a_declared_register_is_given_to_nobody_who_lives_on():
    b = builder()
    kept = b.general("kept")
    b.emit("mov", kept, 3)
    b.emit_template(Pattern("", ("mov rax, 7", "mov rcx, rax"), clobbers=("rax", "rcx"), flags="lost"))
    b.emit("mov", b.at("out"), kept)
    listing = b.finish()
    prove(listing)
    assert listing.registers[kept][0] not in ("rax", "rcx")


@pytest.mark.parametrize("how", ["pinned", "clobbered"])
def test_callee_saved_registers_are_kept_for_the_caller(how):
    b = builder()
    if how == "pinned":
        b.emit_template("mov %=0, 5\nmov [%out], %0", b.general("rbx", pin="rbx"))
    else:
        b.emit_template(Pattern("to:m", ("mov rbx, 5", "mov %0, rbx"), clobbers=("rbx",)), b.at("out"))
    text = b.finish().text.split()
    assert text.count("push") == text.count("pop") == 1
    assert text[text.index("push") + 1] == text[text.index("pop") + 1] == "rbx"


def test_upper_halves_are_cleared_behind_the_last_use_of_vectors():
    b = builder()
    v = b.vector("v")
    b.emit("zero", v)
    b.emit("store", b.at("out"), v)
    b.emit("cmp", "n", 1)
    b.emit("jump_less", "end")
    b.emit("store", b.at("x"), v)
    b.label("end")
    lines = b.finish().text.splitlines()
    assert lines[-2:] == ["vzeroupper", "ret"]
    assert lines.count("vzeroupper") == 1
    only_named = builder()
    only_named.emit_template(Pattern("", "vpxor xmm3, xmm3, xmm3", clobbers=("zmm3",)))
    assert only_named.finish().text.endswith("vzeroupper\nret\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ret", "names 'ret': where it leads is not known"),
        ("jmp away", "names 'jmp': where it leads"),
        ("jnz away", "names 'jnz': where it leads"),
        ("call away", "'call' changes rax"),
        ("push %0", "names 'push': the stack belongs"),
        ("leave", "names 'leave': the stack belongs"),
        ("std", "names 'std': code behind it expects"),
        ("mulx %=0, %=1, %0", "names 'mulx': it reads registers"),
        ("lock cmpxchg [%0], %1", "'lock' changes rax"),
        ("stosq", "'stosq' changes rdi"),
        ("imul %0", "'imul' changes rax, rdx"),
        ("imul qword ptr [%0 + 8]", "'imul' changes rax, rdx"),
        ("lodsb", "'lodsb' changes rax, rsi"),
        ("cwde", "'cwde' changes rax"),
    ],
)
def test_what_a_template_would_do_unseen(line, words):
    b = builder()
    used = [b["x"], b["out"]][: 1 + ("%1" in line or "%=1" in line)] if "%" in line else []
    with pytest.raises(AssemblyError, match=words):
        b.emit_template(line, *used)
    b.emit_template("imul %+0, %1", b["x"], b["out"])
    assert "imul rdi, " in b.finish().text


@pytest.mark.parametrize("line", ["add %+0, 1", "shl %+0, 3", "vptest %1, %1", "kortestw %2, %2"])
def test_flags_that_a_template_may_change_are_not_read_behind_it(line):
    b = builder()
    v, k = b.vector("v"), b.mask("k")
    b.emit("zero", v)
    b.emit("compare_less", k, v, v)
    b.emit("cmp", "n", 3)
    used = [operand for sign, operand in (("%+0", b["x"]), ("%1", v), ("%2", k)) if sign in line]
    for number, sign in enumerate(("%+0", "%1", "%2")):
        if sign in line and sign != "%+0":
            line = line.replace(sign, f"%{0 if number else number}")
    b.emit_template(line, *used)
    with pytest.raises(AssemblyError, match="reads the flags, but 'template' changed them"):
        b.emit("jump_less", "end")


@pytest.mark.parametrize("line", ["mov %=0, 1", "lea %=0, [%0+8]", "movzx %=0:d, word ptr [%0]"])
def test_flags_that_a_template_leaves_alone_may_be_read(line):
    b = builder()
    b.emit("cmp", "n", 3)
    b.emit_template(line, b["x"])
    b.emit("jump_less", "end")
    b.label("end")
    b.finish()


def test_natively_the_callers_registers_survive():
    if cpu.chosen_machine() is None:
        pytest.skip("needs AVX2")
    b = builder(cpu.chosen_machine())
    many = [b.general(f"r{i}") for i in range(11)]  # more than the caller lets us change
    for i, r in enumerate(many):
        b.emit("mov", r, i)
    for r in many[1:]:
        b.emit("add", many[0], r)
    b.emit("mov", b.general("result", pin="rax"), many[0])
    total = b["n"]
    b.emit("mov", total, many[0])
    b.emit("mov", b.at("out"), total)
    import numpy as np

    out = np.zeros(1, np.int64)
    run = cpu.load(b.finish())
    for _ in range(3):  # the interpreter itself keeps values in rbx and r12 to r15
        run(0, 0, out.ctypes.data)
    assert out[0] == sum(range(11))
