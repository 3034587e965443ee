"""Damaged texts end in a kernel or in one clear error, never in anything else."""

from __future__ import annotations

import random

import pytest

from regweave.assembly.amd.text import parse_kernel
from regweave.errors import AssemblyError, RegweaveError
from regweave.machines.amd.assembly import GFX90A, GFX906, GcnMachine

TEXT = """kernel sums
workgroup 64
argument x pointer
reserve row s1 @ s2
vector at, value, sum
scalar base x2, count
variable quad
`s_load_dwordx2 %0, %kernarg, argument(x)` base
`v_mov_b32 %0.3, %row` quad with 0:v4
v_lshlrev_b32 at, 2, thread_x
v_add_u32 at, at, quad.3
v_mov_b32 sum, 0
s_movk_i32 count, 8
loop:
  global_load_dword value, at, base
  v_add_f32 sum, sum, value
  s_sub_u32 count, count, 1
  s_cmp_lg_u32 count, 0
  s_cbranch_scc1 loop
global_store_dword at, sum, base"""
_SCRAPS = """v0|s[0:1]|s[1:0]|v[300]|v[|]|%|%0|%99|`|``|,|x0|x999|@|@ s8|0x|-1|1e999|nan|vcc|exec|scc|m0|off
argument(|argument(x)|.|quad.9|quad.3:1|quad.|neg(|loop:|loop|kernel|with|with 0:v4|with 9:v4|é
reserve r s2 @ s300|lds -1|lds 1|lds ²|occupancy 99|workgroup 0|workgroup 99999|waits manual|s_nop 99|s_nop x
s_waitcnt|s_waitcnt zzz|s_waitcnt vmcnt(|v_mfma_f32_16x16x16f16 v[0:3], v0, v1, 0|row_shr:1|row_mask:zz
quad_perm:[0,1,2,3]|s_branch nowhere|s_cbranch_scc0|v_readlane_b32 s0, v0, s1|s_endpgm|s_endpgm 256"""


@pytest.mark.parametrize(
    "line",
    [
        "v_mov_b32 v{}, 0",
        "v_mov_b32 v[{}:2], 0",
        "v_mov_b32 sum, {}",
        "s_nop {}",
        "s_waitcnt vmcnt({})",
        "vector y x{}",
        "reserve r s1 @ s{}",
        "`v_mov_b32 %0.{}, 0` quad",
        "`v_mov_b32 %0, 0` quad with 0:v{}",
    ],
)
def test_a_number_that_python_does_not_read(line):
    with pytest.raises(AssemblyError, match=r"a number of more than 400 digits \(at line \d+: ") as caught:
        parse_kernel(TEXT.replace("v_mov_b32 sum, 0", line.format("9" * 5000)), GFX906)
    assert len(str(caught.value)) < 400


def damaged(seed: int) -> str:
    choose = random.Random(seed)
    scraps = _SCRAPS.replace("\n", "|").split("|")
    lines = TEXT.splitlines()
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(lines))
        words = lines[at].split(" ")
        kind = choose.randrange(4)
        if kind == 0:
            lines.insert(at, choose.choice(scraps))
        elif kind == 1:
            del lines[at]
        else:
            words.insert(choose.randrange(len(words) + 1), choose.choice(scraps))
            if kind == 2:
                words.pop(choose.randrange(len(words)))
            lines[at] = " ".join(words)
    return "\n".join(lines)


def outcome(text: str, machine: GcnMachine) -> str:
    """The finished text, or the error's words; any other exception fails the test."""
    try:
        return parse_kernel(text, machine).finish().text
    except RegweaveError as error:
        return f"error: {error}"


def test_damaged_texts():
    outcomes = [outcome(damaged(seed), GFX906) for seed in range(400)]
    wrong = [text for text in outcomes if text.startswith("error: ")]
    assert 50 < len(wrong) < 390
    assert min(map(len, wrong)) > 20


def test_a_choice_of_halves_that_cannot_be_read():
    with pytest.raises(AssemblyError, match=r"op_sel:\[a\] cannot be read"):
        parse_kernel("kernel k\nv_pk_add_f32 v[0:1], v[0:1], v[0:1] op_sel:[a]", GFX90A)


def test_a_half_that_is_not_chosen_is_not_read():
    text = "kernel k\nvector pair x2, sum x2\nv_mov_b32 pair.0, 1.0\nv_pk_add_f32 sum, pair, pair {}"
    parse_kernel(text.format("op_sel_hi:[0,0]"), GFX90A).finish()
    with pytest.raises(AssemblyError, match=r"may read 'pair' \(register 1 of 2\)"):
        parse_kernel(text.format("op_sel_hi:[0,1]"), GFX90A).finish()


@pytest.mark.parametrize("number", ["16", "-1", "0x1f", "1.5"])
def test_of_a_no_op_four_bits_count(number):
    with pytest.raises(AssemblyError, match=r"line 2: s_nop .*expected 0 to 15, for 1 to 16 states"):
        parse_kernel(f"kernel k\ns_nop {number}", GFX906)
    parse_kernel("kernel k\ns_nop 0xf", GFX906)


def test_marks_and_tabs_of_editors():
    text = "\ufeffkernel\tk\r\n\tvector\tx\tx2\r\n\tv_mov_b32\tx.0,\t0\t; zero\r\n"
    assert "  v_mov_b32 v0, 0\n" in parse_kernel(text, GFX906).finish().text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("s_branch 5", "'5' cannot be a label"),
        ("v_mov_b32 v256, 0", "gfx906 has no register 'v256' for this kernel .*expected up to v255"),
        ("s_mov_b32 s102, 0", "has no register 's102' .*expected up to s101"),
        (
            "v_mov_b32 v0, s[0:1]",
            r"does not take a scalar register x2 as operand 1 .*a vector register / a sc",
        ),
        (
            "v_mov_b32 v0",
            "does not take .a vector register. .*expected a vector register, a vector register /",
        ),
        ("s_mov_b64 s[2:3], exec_lo", "does not take 'exec_lo' as operand 1"),
    ],
)
def test_what_is_wrong_with_a_line(line, words):
    with pytest.raises(AssemblyError, match=words):
        parse_kernel(f"kernel k\n{line}", GFX906)


def test_code_that_nothing_reaches():
    kernel = parse_kernel("kernel k\nvector t\ns_endpgm\nv_mov_b32 t, 1\nv_add_f32 t, t, t", GFX90A)
    assert "v_add_f32 v0, v0, v0" in kernel.finish().text
