"""Liveness over loops, branches and local routines, and the mistakes that only the whole program shows."""

from __future__ import annotations

import pytest

from regweave.assembly import Builder, prove
from regweave.devices import cpu
from regweave.errors import AssemblyError
from regweave.machines.x86 import AVX2, supports


def builder(*arguments):
    return Builder(AVX2, name="kernel", arguments=arguments)


def shared(listing, a, b):
    return listing.registers[a] == listing.registers[b]


def test_a_value_that_a_loop_carries_keeps_its_register_through_the_loop():
    b = builder("n")
    carried, inside = b.general("carried"), b.general("inside")
    b.emit("mov", carried, 1)
    b.label("loop")
    b.emit("mov", inside, 2)
    b.emit("add", inside, inside)
    b.emit("add", carried, 1)
    b.emit("dec", "n")
    b.emit("jump_nonzero", "loop")
    listing = b.finish()
    prove(listing)
    assert not shared(listing, carried, inside)


def test_values_of_two_branches_share_a_register():
    b = builder("n")
    left, right = b.general("left"), b.general("right")
    b.emit("cmp", "n", 0)
    b.emit("jump_zero", "other")
    b.emit("mov", left, 1)
    b.emit("add", "n", left)
    b.emit("return")
    b.label("other")
    b.emit("mov", right, 1)
    b.emit("add", "n", right)
    listing = b.finish()
    prove(listing)
    assert shared(listing, left, right)


@pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")
def test_a_routine_keeps_what_is_live_across_its_calls():
    b = builder("x", "y")
    kept, inner, result = b.general("kept"), b.general("inner"), b.general("result", pin="rax")
    b.emit("mov", kept, 100)
    b.emit("mov", result, "x")
    b.emit("call", "double")
    b.emit("add", kept, result)
    b.emit("mov", result, "y")
    b.emit("call", "double")
    b.emit("add", result, kept)
    b.emit("return")
    b.label("double")
    b.emit("mov", inner, result)
    b.emit("call", "add_inner")
    b.emit("ret")
    b.label("add_inner")
    b.emit("add", result, inner)
    b.emit("ret")
    listing = b.finish()
    prove(listing)
    assert cpu.load(listing)(3, 20) == 100 + 6 + 40
    assert len({listing.registers[v] for v in (kept, inner, result)}) == 3
    # y is dead at the routine's last call only: it too must not share with the routine's own
    assert not shared(listing, inner, b["y"])


def test_values_between_two_calls_may_use_the_routines_registers():
    b = builder("x")
    inner, between = b.general("inner"), b.general("between")
    b.emit("call", "work")
    b.emit("mov", between, "x")
    b.emit("add", "x", between)
    b.emit("call", "work")
    b.emit("return")
    b.label("work")
    b.emit("mov", inner, 5)
    b.emit("add", "x", inner)
    b.emit("ret")
    listing = b.finish()
    prove(listing)
    assert shared(listing, inner, between)


def test_what_a_routine_always_writes_is_written_for_the_caller():
    b = builder("x")
    made = b.general("made")
    b.emit("call", "make")
    b.emit("add", "x", made)
    b.emit("return")
    b.label("make")
    b.emit("mov", made, 1)
    b.emit("ret")
    prove(b.finish())


def test_what_a_routine_writes_only_sometimes_is_not():
    b = builder("x")
    made = b.general("made")
    b.emit("call", "make")
    b.emit("add", "x", made)
    b.emit("return")
    b.label("make")
    b.emit("test", "x", "x")
    b.emit("jump_zero", "skip")
    b.emit("mov", made, 1)
    b.label("skip")
    b.emit("ret")
    with pytest.raises(AssemblyError, match=r"never written: 'made' \(read at 1: add x, made\)"):
        b.finish()


def test_a_read_of_what_no_way_wrote_is_an_error():
    b = builder("n")
    acc, maybe = b.vector("acc"), b.general("maybe")
    b.emit("fma", acc, acc, acc)
    b.emit("cmp", "n", 1)
    b.emit("jump_zero", "end")
    b.emit("mov", maybe, 3)
    b.label("end")
    b.emit("add", "n", maybe)
    with pytest.raises(AssemblyError) as caught:
        b.finish()
    assert "'acc' (read at 0: fma acc, acc, acc), 'maybe' (read at end+0: add n, maybe)" in caught.value.what
    assert caught.value.fix == "write it on every way that leads there, or make it an argument"


def test_unknown_labels_name_what_is_near():
    b = builder()
    b.label("loop")
    b.emit("jump", "lop")
    with pytest.raises(
        AssemblyError, match=r"label 'lop' is not defined \(at kernel, loop\+0: jump lop\); nearest: loop"
    ):
        b.finish()


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        (["ret"], "'ret' outside a routine.*write 'return'"),
        (["call sub", "return", ":sub", "return"], "'return' inside a routine.*write 'ret'"),
        (["call sub", ":sub", "ret"], "'ret' outside a routine|reached both"),
        (
            ["call sub", "return", ":other", "call sub", "ret", ":sub", "call other", "ret"],
            "a routine calls itself",
        ),
        (["call sub", "return", ":sub", "call sub", "ret"], "a routine calls itself.*recursion cannot work"),
        (
            ["call a", "call b", "return", ":a", "inc n", ":b", "ret"],
            "reached both by running on and by a call",
        ),
        (["call sub", "return", ":sub"], "'return' inside a routine"),
    ],
)
def test_control_that_cannot_work(steps, complaint):
    b = builder("n")
    for step in steps:
        name, *operand = step.split()
        if name.startswith(":"):
            b.label(name[1:])
        else:
            b.emit(name, *operand)
    with pytest.raises(AssemblyError, match=complaint):
        b.finish()


def test_return_is_added_where_control_could_run_off_the_end():
    for steps in ([], ["inc"], ["jump"]):
        b = builder("n")
        b.label("start")
        for step in steps:
            b.emit(step, "start" if step == "jump" else "n")
        ends_itself = steps == ["jump"]
        assert b.finish().text.rstrip().endswith("jmp .Lkernel_start" if ends_itself else "ret")


def test_code_that_nothing_reaches_is_allowed():
    b = builder("n")
    dead = b.general("dead")
    b.emit("return")
    b.emit("mov", dead, 1)
    b.emit("add", dead, "n")
    prove(b.finish())
