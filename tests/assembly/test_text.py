"""The text form gives the same program as the builder's calls."""

import pytest

from regweave.assembly import Builder, parse_text
from regweave.errors import AssemblyError
from regweave.machines.x86 import AVX2, AVX512

TEXT = """
kernel squares(x, n, out)             ; a comment
vector acc, v, pair x2
general i, count @rcx
mask k

zero acc
mov i, 0x10
mov count, -3
loop:
  load v, [x + 4*i - 64]
  fma acc, v, repeat [x + 8]
  mul v, v, 2.5
  `vmaxps %=0, %1, %2` v, v, acc
  add count, i
  dec n
  jump_nonzero loop
mask_from_count k, i
store_masked [out + i], v, k
store [out], acc
"""


def by_calls(machine):
    b = Builder(machine, name="squares", arguments=("x", "n", "out"))
    acc, v = b.vector("acc"), b.vector("v")
    b.vector("pair", count=2)
    i, count, k = b.general("i"), b.general("count", pin="rcx"), b.mask("k")
    b.emit("zero", acc)
    b.emit("mov", i, 16)
    b.emit("mov", count, -3)
    b.label("loop")
    b.emit("load", v, b.at("x", -64, index=i, scale=4))
    b.emit("fma", acc, v, b.at("x", 8, repeat=True))
    b.emit("mul", v, v, b.constant(2.5))
    b.emit_template("vmaxps %=0, %1, %2", v, v, acc)
    b.emit("add", count, i)
    b.emit("dec", "n")
    b.emit("jump_nonzero", "loop")
    b.emit("mask_from_count", k, i)
    b.emit("store_masked", b.at("out", index=i), v, k)
    b.emit("store", b.at("out"), acc)
    return b


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
def test_the_same_program(machine):
    assert parse_text(TEXT, machine).finish().text == by_calls(machine).finish().text


def test_a_symbol_is_one_variable():
    b = parse_text("kernel f(x)\nvector a, b\nzero a\nzero b\nstore [x], a\nstore [x], b", AVX2)
    assert len(set(b.finish().registers.values())) == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the text is empty; expected kernel name"),
        ("vector a", r"first line does not name the kernel \(at line 1: vector a\)"),
        (
            "kernel f(x)\n\nvector acc\nzero acx",
            r"registered as 'acx' \(at line 4: zero acx; f\); nearest: acc",
        ),
        (
            "kernel f(x)\nvector a\nzerro a",
            r"avx2 has no instruction 'zerro' \(at line 3: zerro a\); nearest: zero",
        ),
        ("kernel f(x)\nvector a-b", "'a-b' is not a symbol"),
        ("kernel f(x)\ngeneral a x2", "only vectors come in tuples"),
        ("kernel f(x)\nmask k @k1", "masks cannot be pinned"),
        ("kernel f(x)\nvector a\nload a, [x + x + x]", r"\[x \+ x \+ x\] is not an address"),
        ("kernel f(x)\nvector a\nload a, [64]", r"\[64\] has no base"),
        ("kernel f(x)\nvector a\nload a, [2*x + 64]", "has no base"),
        ("kernel f(x)\nvector a\nload a, {x}", "'{x}' is not an operand"),
        ("kernel f(x)\n: x", "neither a declaration, a label nor an operation"),
        ("kernel f(x)\na:\na:", r"label 'a' is defined twice \(at line 3: a:; f\)"),
    ],
)
def test_mistakes_tell_the_line(text, complaint):
    with pytest.raises(AssemblyError, match=complaint):
        parse_text(text, AVX2)
