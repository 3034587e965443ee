"""Register assignment: reuse, exact fits, tuples, pins, clobbers, saved registers, and what failures say."""

from __future__ import annotations

import pytest

from regweave.assembly import Builder, prove
from regweave.assembly.flow import solve
from regweave.assembly.splitting import split
from regweave.errors import RegisterError, VerificationError
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import AVX2, AVX512


def builder(machine=AVX512, *arguments):
    return Builder(machine, name="kernel", arguments=arguments or ("x", "out"))


def use(b, *variables):
    for v in variables:
        b.emit("store", b.at("out"), v)


def loads(b, count, stem="v"):
    made = b.vectors(stem, count)
    for v in made:
        b.emit("load", v, b.at("x"))
    return made


def test_registers_are_used_again():
    b = builder()
    for i in range(100):
        v = b.vector(f"t{i}")
        b.emit("load", v, b.at("x", i))
        use(b, v)
    listing = b.finish()
    prove(listing)
    assert {r for v, r in listing.registers.items() if v.kind == "v"} == {("zmm0",)}
    assert listing.pressure.most["vector"] == 1


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.name)
def test_the_whole_register_file_can_be_used(machine):
    b = builder(machine)
    limit = machine.register_class("vector").count
    made = loads(b, limit)
    b.emit("add", made[0], made[0], made[1])
    use(b, *made)
    listing = b.finish()
    prove(listing)
    assert listing.pressure.most["vector"] == limit
    assert len({listing.registers[v] for v in made}) == limit


def test_a_result_may_take_the_register_of_a_source_that_dies():
    b = builder(AVX2)
    made = loads(b, 16)
    last = b.vector("last")
    b.emit("add", last, made[0], made[1])
    use(b, *made[2:], last)
    prove(b.finish())


def test_the_error_lists_what_is_live():
    b = builder(AVX2)
    b.label("loop")
    made = loads(b, 17, "tile")
    use(b, *made)
    with pytest.raises(RegisterError) as caught:
        b.finish()
    error = str(caught.value)
    assert "kernel needs 17 of 16 vector registers at loop+16: load tile16, [x]" in error
    assert "none is left for 'tile16'" in error
    assert "  tile0: defined at loop+0: load tile0, [x], last use loop+17: store [out], tile0\n" in error
    assert error.count("tile") >= 17 * 3
    assert caught.value.fix == "use fewer variables at once, or end some earlier"


def test_the_error_counts_tuples_and_the_frame():
    b = builder()
    b.stack(8)
    made = [b.general(f"r{i}") for i in range(13)]
    for r in made:
        b.emit("mov", r, 0)
    for r in made:
        b.emit("mov", b.at("x"), r)
    use_ = b.at("out")
    b.emit("mov", use_, 1)
    with pytest.raises(RegisterError, match="needs 15 of 14 general registers"):
        b.finish()


def test_tuples_are_consecutive_and_aligned():
    b = builder()
    odd = loads(b, 1)[0]
    quad, pair = b.vector("quad", count=4, align=4), b.vector("pair", count=2)
    b.emit_template(Pattern("d:v4 a:m", tuple(f"vmovups %=0.{i}, %1" for i in range(4))), quad, b.at("x"))
    b.emit_template(Pattern("d:v2 a:m", tuple(f"vmovups %=0.{i}, %1" for i in range(2))), pair, b.at("x"))
    b.emit_template(Pattern("a:v4 b:v2 c:v", "foo %0.3, %1.1, %2"), quad, pair, odd)
    listing = b.finish()
    prove(listing)
    assert listing.registers[odd] == ("zmm0",)
    assert listing.registers[quad] == ("zmm4", "zmm5", "zmm6", "zmm7")
    assert listing.registers[pair] == ("zmm1", "zmm2")
    assert listing.pressure.most["vector"] == 7
    assert "quad  vector   zmm4..zmm7" in str(listing.register_map)


def test_tuples_that_find_no_run_say_so():
    b = builder(AVX2)
    made = loads(b, 14)
    big = b.vector("big", count=4)
    b.emit_template(Pattern("d:v4 a:m", tuple(f"vmovups %=0.{i}, %1" for i in range(4))), big, b.at("x"))
    b.emit_template(Pattern("a:v4", "foo %0.0"), big)
    use(b, *made)
    with pytest.raises(
        RegisterError, match=r"needs 18 of 16 .*'big' \(no 4 consecutive registers are free\)"
    ):
        b.finish()


def test_a_tuple_in_a_hard_place_is_coloured_first():
    """By first appearance the small ones would leave no run; taken again, the tuple goes first."""
    b = builder(AVX2)
    made = loads(b, 8)
    use(b, *made[::2])
    rest = made[1::2]
    big = b.vector("big", count=12)
    b.emit_template(Pattern("d:v12 a:m", tuple(f"vmovups %=0.{i}, %1" for i in range(12))), big, b.at("x"))
    b.emit_template(Pattern("a:v12", "foo %0.0"), big)
    use(b, *rest)
    listing = b.finish()
    prove(listing)
    assert len(listing.registers[big]) == 12


def test_unrelated_values_of_one_variable_are_split_when_it_helps():
    """Three variables reused around a circle of conflicts: as wholes they need three, two are left."""
    b = builder(AVX2)
    kept = loads(b, 14, "kept")
    a, c, d = b.vectors("t", 3)
    for first, second in ((a, c), (c, d), (d, a)):
        b.emit("load", first, b.at("x"))
        b.emit("load", second, b.at("x", 32))
        use(b, first, second)
    use(b, *kept)
    listing = b.finish()
    prove(listing)
    assert listing.pressure.most["vector"] == 16
    assert sum(v.name == "t0" for v in listing.registers) == 2


def test_splitting_leaves_single_values_alone():
    b = builder(AVX2)
    use(b, *loads(b, 3))
    listing = b.finish()
    assert split(listing.program, listing.flow) is None


def test_pins_are_kept_and_conflicts_between_them_told():
    b = builder()
    pinned = b.vector("pinned", pin="zmm7")
    b.emit("load", pinned, b.at("x"))
    use(b, pinned)
    assert b.finish().registers[pinned] == ("zmm7",)
    b = builder()
    first, second = b.vector("first", pin="zmm7"), b.vector("second", pin="zmm7")
    b.emit("load", first, b.at("x"))
    b.emit("load", second, b.at("x"))
    use(b, first, second)
    with pytest.raises(
        RegisterError, match=r"'second' \(first is pinned to zmm7 too and live at the same time\)"
    ):
        b.finish()


def test_a_pinned_register_that_is_destroyed_is_told():
    b = builder()
    q, r = b.general("q"), b.general("r", pin="rdx")
    b.emit("mov", r, 5)
    b.emit("divide_unsigned", q, "x", "x")
    b.emit("add", q, r)
    with pytest.raises(
        RegisterError, match="rdx is destroyed while it is live there; copy it to another variable"
    ):
        b.finish()
    b = builder()
    b.stack(8)
    frame = b.general("frame", pin="rbp")
    b.emit("mov", frame, 5)
    with pytest.raises(RegisterError, match="rbp holds the frame"):
        b.finish()


def test_what_is_destroyed_is_given_to_nobody_who_lives_on():
    b = builder(AVX512, "x", "y")
    quotient, kept = b.general("quotient"), b.general("kept")
    b.emit("mov", kept, 9)
    b.emit("divide_unsigned", quotient, "x", "y")
    b.emit("add", quotient, kept)
    listing = b.finish()
    prove(listing)
    assert listing.registers[kept][0] not in ("rax", "rdx")


def test_saved_registers_are_saved_only_if_used():
    def text(count):
        b = builder()
        made = [b.general(f"r{i}") for i in range(count)]
        for r in made:
            b.emit("mov", r, 0)
        for r in made:
            b.emit("mov", b.at("x"), r)
        listing = b.finish()
        prove(listing)
        return listing.text

    assert "push" not in text(8)
    nine = text(9).splitlines()
    assert nine[nine.index("kernel:") + 1] == "push rbx"
    assert nine[-2:] == ["pop rbx", "ret"]
    assert text(13).count("push") == text(13).count("pop") == 5


def test_only_functions_with_vectors_clear_them():
    b = builder()
    b.emit("inc", "x")
    assert "vzeroupper" not in b.finish().text
    b = builder()
    use(b, *loads(b, 1))
    assert b.finish().text.rstrip().endswith("vzeroupper\nret")


def test_every_return_restores():
    b = builder()
    made = [b.general(f"r{i}") for i in range(9)]
    for r in made:
        b.emit("mov", r, 0)
    b.emit("cmp", "x", 0)
    b.emit("jump_zero", "early")
    for r in made:
        b.emit("mov", b.at("x"), r)
    b.emit("return")
    b.label("early")
    b.emit("return")
    assert b.finish().text.count("pop rbx\nret") == 2


def test_the_proof_finds_a_wrong_register():
    b = builder()
    first, second = loads(b, 2)
    use(b, first, second)
    listing = b.finish()
    listing.registers[second] = listing.registers[first]
    with pytest.raises(
        VerificationError, match=r"zmm0 should hold 'v0' but holds 'v1' \(at kernel, 2: store"
    ):
        prove(listing)


def test_masks_never_get_k0():
    b = builder()
    v = loads(b, 1)[0]
    made = [b.mask(f"k{i}") for i in range(7)]
    for k in made:
        b.emit("compare_less", k, v, v)
    for k in made:
        b.emit("store_masked", b.at("out"), v, k)
    listing = b.finish()
    assert {listing.registers[k][0] for k in made} == {f"k{i}" for i in range(1, 8)}


def test_code_that_nothing_reaches_is_split_too():
    b = Builder(AVX512, name="k", arguments=("x",))
    b.emit("return")
    t = b.vector("t")
    b.emit("add", t, t, t)
    b.emit("store", b.at("x"), t)
    b.emit("zero", t)
    b.emit("store", b.at("x"), t)
    b.emit("return")
    program = b._program(b._arguments)
    flow = solve(program)
    finer = split(program, flow)
    assert finer is not None
    assert [v.name for v in finer.variables].count("t") == 2
