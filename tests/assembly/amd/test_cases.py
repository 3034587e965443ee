"""What goes wrong elsewhere: aliases, alignment, flags, labels, things that were never taken."""

from __future__ import annotations

import re

import pytest

from regweave.assembly.amd.text import parse_kernel
from regweave.errors import RegweaveError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942


def body(text: str, machine=GFX906) -> list[str]:
    return [line.strip() for line in parse_kernel(f"kernel k\n{text}", machine).finish().body()]


def complaint(text: str, machine=GFX906) -> str:
    with pytest.raises(RegweaveError) as error:
        body(text, machine)
    return str(error.value)


ALIAS = """reserve row s1 @ s8
scalar x
s_load_dword row, kernarg, 0
`s_mov_b32 {temporary}, 0`
s_add_u32 x, row, 1
"""


def test_a_temporary_that_is_a_named_register_is_an_error_with_both_lines():
    text = complaint(ALIAS.format(temporary="s8"))
    assert "'s_mov_b32 s8, 0' overwrites s8, which is 'row', and 's_add_u32 x, row, 1' reads it" in text
    assert "operations 1 and 2" in text
    assert body(ALIAS.format(temporary="s9"))[1] == "s_mov_b32 s9, 0"
    assert body(ALIAS.format(temporary="%row"))[0] == "s_load_dword s8, s[0:1], 0"


def test_a_temporary_that_is_a_keyword():
    text = "vector x, y\nv_mov_b32 x, thread_x\n`v_mov_b32 v0, 1`\nv_add_u32 y, x, {}"
    assert "overwrites v0, which is 'thread_x'" in complaint(text.format("thread_x"))
    assert body(text.format("v0"))[2] == "v_add_u32 v0, v1, v0"  # by its number it is what was written


def test_an_alias_is_found_around_a_loop():
    text = ALIAS.format(temporary="s8").replace("s_add_u32", "loop:\ns_add_u32").splitlines()
    moved = [*text[:3], *text[4:], text[3], "s_cmp_lg_u32 x, 9", "s_cbranch_scc1 loop"]
    assert "overwrites s8, which is 'row'" in complaint("\n".join(moved))


def test_a_temporary_by_number_is_kept_apart_from_variables():
    lines = body("vector x, y\nv_mov_b32 x, 1\n`v_mov_b32 v1, 2`\nv_add_u32 y, x, v1\nv_add_u32 x, x, y")
    assert lines[0] == "v_mov_b32 v0, 1"  # v1 is taken while x lives
    assert lines[2] == "v_add_u32 v1, v0, v1"


def test_what_was_never_taken_cannot_be_freed():
    assert "gfx906 has no instruction 'free'" in complaint("vector x\nfree x")
    kernel = parse_kernel("kernel k\nvector never, unread\nv_mov_b32 unread, 1", GFX906).finish()
    assert kernel.used["vector"] == 1  # a result that nobody reads has its register for one instruction
    assert [row.name for row in kernel.register_map.rows] == ["unread"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scalar t x2 @ s3\ns_mov_b64 t, 0", "'t' cannot be 2 registers from s3 on.*a multiple of 2"),
        ("reserve t s2 @ s1", "from s1 on.*a multiple of 2"),
        ("s_mov_b64 s[1:2], 0", r"2 registers from s1 on are not aligned.*multiple of 2"),
        ("`s_mov_b64 s[1:2], 0`", r"2 registers from s1 on are not aligned.*multiple of 2"),
        ("scalar q x4\ns_mov_b64 q.1:2, 0", r"2 registers from %\w+\.1 on are not aligned"),
        ("scalar q x4 @ s6", "multiple of 4"),
    ],
)
def test_scalar_pairs_that_are_not_aligned(text, message):
    assert re.search(message, complaint(text), re.DOTALL)


@pytest.mark.parametrize("machine", [GFX90A, GFX942], ids=lambda m: m.name)
@pytest.mark.parametrize(
    "text",
    [
        "v_add_f64 v[1:2], v[2:3], 1.0",
        "vector p x2 @ v1\nv_add_f64 p, 1.0, 1.0",
        "reserve p v2 @ v5",
        "vector q x4\nv_add_f64 q.1:2, 1.0, 1.0",
        "global_load_dwordx2 v[3:4], v0, s[0:1]",
    ],
)
def test_odd_vector_pairs_are_refused_where_the_machine_wants_even_ones(machine, text):
    assert "multiple of 2" in complaint(text, machine)


def test_odd_vector_pairs_are_free_on_gfx906():
    assert body("vector p x2 @ v1\nv_add_f64 p, 1.0, 1.0")[0] == "v_add_f64 v[1:2], 1.0, 1.0"


def test_sixty_four_bit_temporaries_are_even_beside_single_ones():
    text = "scalar one, pair x2, other\ns_mov_b32 one, 1\ns_mov_b64 pair, 5\ns_mov_b32 other, 2\n"
    text += "s_add_u32 one, one, other\ns_add_u32 one, one, pair.1"
    lines = body(text)
    pair = next(line for line in lines if line.startswith("s_mov_b64"))
    assert int(pair.split("[")[1].split(":")[0]) % 2 == 0


def test_a_temporary_in_vcc_that_a_flag_overwrites():
    text = "scalar x\ns_mov_b64 vcc, 5\nv_cmp_lt_f32 vcc, 0, thread_x\ns_add_u32 x, vcc_lo, 1"
    found = complaint(text)
    assert "VCC is set by 's_mov_b64 vcc, 5' and overwritten by 'v_cmp_lt_f32 vcc, 0, thread_x'" in found
    body(
        "scalar x\ns_mov_b64 vcc, 5\ns_add_u32 x, vcc_lo, 1\n"
        "v_cmp_lt_f32 vcc, 0, thread_x\ns_add_u32 x, x, vcc_lo"
    )


def test_variables_never_get_flags():
    text = (
        "\n".join(f"s_mov_b32 t{i}, {i}" for i in range(90))
        + "\n"
        + "\n".join(f"s_add_u32 t0, t0, t{i}" for i in range(90))
    )
    lines = body("scalar " + ", ".join(f"t{i}" for i in range(90)) + "\n" + text)
    assert not any(word in line for line in lines for word in ("vcc", "m0", "exec", "scc"))


@pytest.mark.parametrize("between", ["s_add_u32 i, i, 1", "s_lshl_b32 i, i, 1", "s_and_saveexec_b64 m, vcc"])
def test_scc_between_comparison_and_branch(between):
    start = "scalar i, m x2\ns_mov_b32 i, 0\nv_cmp_lt_f32 vcc, 0, thread_x\nloop:\n"
    text = f"{start}s_cmp_lt_u32 i, 8\n{between}\ns_cbranch_scc1 loop"
    assert f"SCC is set by 's_cmp_lt_u32 i, 8' and overwritten by '{between}'" in complaint(text)
    body(text.replace(between, "s_mul_i32 i, i, 3\nv_mov_b32 v1, 0"))  # these leave SCC alone


def test_a_matrix_instruction_in_a_template_keeps_its_distance():
    text = (
        "vector p x2, c x4\nv_mov_b32 p.0, 0\nv_mov_b32 p.1, 0\n`v_mfma_f32_16x16x16f16 %0, %1, %1, 0` c, p\n"
    )
    lines = body(text + "`global_store_dword %0, %1.3, %kernarg` p.0, c", GFX90A)
    assert lines[2] == "s_nop 1"
    assert lines[4:6] == ["s_nop 7", "s_nop 2"]  # eleven states


def test_labels_like_those_of_a_compiler():
    lines = body(".L1:\ns_cmp_eq_u32 group_x, 0\ns_cbranch_scc1 .L1\n$x.2:\ns_cbranch_scc0 $x.2")
    assert lines[0] == ".Lk_.L1:"
    assert "'.L9'" in complaint("s_branch .L9")


def test_numbered_and_virtual_registers_in_one_template():
    lines = body("vector x, y\nv_mov_b32 x, 1\n`v_add_u32 v2, %0, v0` x\n`v_mul_lo_u32 %0, v2, %1` y, x")
    assert lines == ["v_mov_b32 v1, 1", "v_add_u32 v2, v1, v0", "v_mul_lo_u32 v0, v2, v1", "s_endpgm"]
