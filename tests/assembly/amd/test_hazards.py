"""Waits and distances: where they are inserted, how long, and that missing ones are found."""

from __future__ import annotations

import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942


def kernel(machine=GFX906, **options) -> Kernel:
    return Kernel(machine, name="k", **options)


def lines(machine, text: str, **options) -> list[str]:
    """The finished instructions of a text of plain lines, whose registers are named outright."""
    k = kernel(machine, **options)
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.endswith(":"):
            k.label(line[:-1])
        else:
            k.emit_line(line)
    return [line.strip() for line in k.finish().body()]


def before(text: list[str], start: str) -> list[str]:
    """What was put in front of the last instruction that starts so."""
    at = max(i for i, line in enumerate(text) if line.startswith(start))
    found = []
    while at and text[at - 1].startswith(("s_nop", "s_waitcnt")):
        at -= 1
        found.insert(0, text[at])
    return found


SETUP = "v_mov_b32 v1, 0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 0\n"
LOADS = SETUP + "s_mov_b64 s[8:9], 0\n"


def test_a_load_is_waited_for_by_how_many_came_after_it():
    text = lines(
        GFX906,
        LOADS
        + """
        global_load_dword v4, v1, s[8:9]
        global_load_dword v5, v1, s[8:9] offset:4
        global_load_dword v6, v1, s[8:9] offset:8
        v_add_f32 v7, v4, v4
        v_add_f32 v8, v6, v6
    """,
    )
    assert before(text, "v_add_f32 v7") == ["s_waitcnt vmcnt(2)"]
    assert before(text, "v_add_f32 v8") == ["s_waitcnt vmcnt(0)"]


def test_stores_count_as_younger_operations():
    text = lines(
        GFX906,
        LOADS
        + """
        global_load_dword v4, v1, s[8:9]
        global_store_dword v1, v2, s[8:9] offset:64
        v_add_f32 v7, v4, v4
    """,
    )
    assert before(text, "v_add_f32 v7") == ["s_waitcnt vmcnt(1)"]


def test_scalar_loads_come_in_no_order_and_so_does_a_mixture():
    text = lines(
        GFX906,
        SETUP
        + """
        s_load_dword s4, s[0:1], 0
        s_load_dword s5, s[0:1], 4
        s_add_u32 s6, s4, s4
    """,
    )
    assert before(text, "s_add_u32") == ["s_waitcnt lgkmcnt(0)"]
    text = lines(
        GFX906,
        SETUP
        + """
        ds_read_b32 v4, v1
        ds_read_b32 v5, v1 offset:4
        s_load_dword s4, s[0:1], 0
        v_add_f32 v7, v4, v4
    """,
    )
    assert before(text, "v_add_f32") == ["s_waitcnt lgkmcnt(0)"]


def test_lds_comes_in_order():
    text = lines(
        GFX906,
        SETUP
        + """
        ds_read_b32 v4, v1
        ds_read_b32 v5, v1 offset:4
        v_add_f32 v7, v4, v4
    """,
    )
    assert before(text, "v_add_f32") == ["s_waitcnt lgkmcnt(1)"]


@pytest.mark.parametrize(
    ("load", "count"), [("ds_read_b32 v{}, v1", 14), ("global_load_dword v{}, v1, s[8:9]", 62)]
)
def test_a_counter_that_may_be_full_is_waited_for_to_one_below(load, count):
    loads = "\n".join(load.format(4 + i) for i in range(80))
    text = lines(GFX906, LOADS + loads + "\nv_add_f32 v2, v4, v4")
    (wait,) = before(text, "v_add_f32")
    assert wait.endswith(f"cnt({count})")


def test_flat_operations_belong_to_both_counters():
    text = lines(
        GFX906,
        SETUP
        + """
        flat_load_dword v4, v[1:2]
        global_load_dword v5, v[1:2], off
        v_add_f32 v7, v4, v4
    """,
    )
    assert before(text, "v_add_f32") == ["s_waitcnt vmcnt(0) lgkmcnt(0)"]


def test_a_register_under_way_may_not_be_overwritten_either():
    text = lines(GFX906, LOADS + "global_load_dword v4, v1, s[8:9]\nv_mov_b32 v4, 1")
    assert before(text, "v_mov_b32 v4") == ["s_waitcnt vmcnt(0)"]
    text = lines(
        GFX906,
        LOADS
        + """
        global_load_dword v4, v1, s[8:9]
        global_load_dword v4, v1, s[8:9] offset:4
        v_mov_b32 v5, v4
    """,
    )
    assert "s_waitcnt" not in text[text.index("global_load_dword v4, v1, s[8:9] offset:4") - 1]


def test_a_barrier_waits_for_lds():
    text = lines(GFX906, SETUP + "ds_write_b32 v1, v2\ns_barrier\nds_read_b32 v4, v1\nv_mov_b32 v5, v4")
    assert before(text, "s_barrier") == ["s_waitcnt lgkmcnt(0)"]


def test_a_barrier_does_not_wait_for_lanes_that_exchange():
    text = lines(GFX906, SETUP + "ds_bpermute_b32 v4, v1, v2\ns_barrier\nv_mov_b32 v5, v4")
    assert before(text, "s_barrier") == []
    assert before(text, "v_mov_b32 v5") == ["s_waitcnt lgkmcnt(0)"]


def test_a_loop_waits_for_what_its_end_leaves_under_way():
    text = lines(
        GFX906,
        LOADS
        + """
        s_mov_b32 s4, 4
        v_mov_b32 v4, 0
        loop:
        v_add_f32 v5, v4, v4
        global_load_dword v4, v1, s[8:9]
        global_load_dword v6, v1, s[8:9] offset:4
        s_sub_u32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 loop
        v_add_f32 v5, v5, v6
    """,
    )
    assert before(text, "v_add_f32 v5, v4") == ["s_waitcnt vmcnt(1)"]
    assert before(text, "v_add_f32 v5, v5") == ["s_waitcnt vmcnt(0)"]


def test_what_only_the_first_round_waits_for_stands_before_the_loop():
    text = lines(
        GFX906,
        SETUP
        + """
        s_load_dwordx2 s[8:9], s[0:1], 0
        s_mov_b32 s4, 4
        loop:
        global_load_dword v4, v1, s[8:9]
        v_add_f32 v5, v4, v4
        s_sub_u32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 loop
        """,
    )
    assert text[text.index(".Lk_loop:") - 1] == "s_waitcnt lgkmcnt(0)"
    assert before(text, "global_load") == []
    assert before(text, "v_add_f32") == ["s_waitcnt vmcnt(0)"]


def test_a_loop_that_is_jumped_to_is_waited_for_before_the_jump():
    text = lines(
        GFX906,
        SETUP
        + """
        s_load_dwordx2 s[8:9], s[0:1], 0
        s_mov_b32 s4, 4
        s_branch loop
        other:
        s_endpgm
        loop:
        global_load_dword v4, v1, s[8:9]
        s_sub_u32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 loop
        s_branch other
        """,
    )
    assert before(text, "s_branch .Lk_loop") == ["s_waitcnt lgkmcnt(0)"]
    assert before(text, "global_load") == []


def test_a_wait_does_not_move_into_another_loop():
    text = lines(
        GFX906,
        SETUP
        + """
        s_load_dwordx2 s[8:9], s[0:1], 0
        v_mov_b32 v6, 0
        first:
        v_add_u32 v6, v6, 1
        v_cmp_gt_u32 vcc, 9, v6
        s_cbranch_vccnz first
        second:
        global_load_dword v4, v1, s[8:9]
        v_add_u32 v6, v6, 1
        v_cmp_gt_u32 vcc, 19, v6
        s_cbranch_vccnz second
        """,
    )
    assert before(text, "s_cbranch_vccnz .Lk_first") == []
    assert before(text, "global_load") == ["s_waitcnt lgkmcnt(0)"]


def test_waits_of_the_author_count():
    text = lines(
        GFX906, LOADS + "global_load_dword v4, v1, s[8:9]\ns_waitcnt vmcnt(0) & lgkmcnt(0)\nv_mov_b32 v5, v4"
    )
    assert sum("s_waitcnt" in line for line in text) == 1
    raw = lines(GFX906, LOADS + "global_load_dword v4, v1, s[8:9]\ns_waitcnt 0x0f70\nv_mov_b32 v5, v4")
    assert sum("s_waitcnt" in line for line in raw) == 1


def test_a_wait_that_the_author_forgot_is_an_error_with_both_lines():
    missing = LOADS + "global_load_dword v4, v1, s[8:9]\nv_mov_b32 v5, v4"
    with pytest.raises(AssemblyError) as error:
        lines(GFX906, missing, waits="manual")
    assert "'v_mov_b32 v5, v4' comes before v4 has arrived from 'global_load_dword v4" in str(error.value)
    assert "s_waitcnt vmcnt(0)" in str(error.value)
    whole = missing.replace("\nv_mov_b32 v5", "\ns_waitcnt vmcnt(0)\nv_mov_b32 v5")
    assert "s_waitcnt vmcnt(0)" in lines(GFX906, whole, waits="manual")


@pytest.mark.parametrize(
    ("machine", "text", "start", "states"),
    [
        # a vector instruction writes a scalar register, memory reads it
        (GFX906, LOADS + "v_readfirstlane_b32 s8, v1\nglobal_load_dword v4, v1, s[8:9]", "global_load", 5),
        (GFX906, LOADS + "v_readfirstlane_b32 s8, v1\ns_nop 1\n"
         "global_load_dword v4, v1, s[8:9]", "global", 3),
        # what DPP moves; EXEC before DPP
        (GFX906, SETUP + "v_mov_b32 v4, v1\nv_mov_b32_dpp v5, v4 row_mirror", "v_mov_b32_dpp", 2),
        (GFX906, SETUP + "v_cmpx_lt_f32 vcc, v1, v2\nv_mov_b32_dpp v5, v3 row_mirror", "v_mov_b32_dpp", 5),
        # the lane's number; VCC before v_div_fmas
        (GFX906, SETUP + "v_readfirstlane_b32 s4, v1\nv_readlane_b32 s5, v2, s4", "v_readlane", 4),
        (GFX906, SETUP + "v_cmp_lt_f32 vcc, v1, v2\nv_div_fmas_f32 v4, v1, v2, v3", "v_div_fmas", 4),
        # 128-bit stores still read their data
        (GFX906, LOADS + "v_mov_b32 v4, 0\nv_mov_b32 v5, 0\nv_mov_b32 v6, 0\nv_mov_b32 v7, 0\n"
         "global_store_dwordx4 v1, v[4:7], s[8:9]\nv_mov_b32 v4, 1", "v_mov_b32 v4, 1", 1),
        (GFX942, LOADS + "v_mov_b32 v4, 0\nv_mov_b32 v5, 0\nv_mov_b32 v6, 0\nv_mov_b32 v7, 0\n"
         "global_store_dwordx4 v1, v[4:7], s[8:9]\nv_mov_b32 v4, 1", "v_mov_b32 v4, 1", 2),
        # an atomic operation's four words too
        (GFX906, LOADS + "v_mov_b32 v4, 0\nv_mov_b32 v5, 0\nv_mov_b32 v6, 0\nv_mov_b32 v7, 0\n"
         "global_atomic_cmpswap_x2 v[8:9], v1, v[4:7], s[8:9] glc\nv_mov_b32 v4, 1", "v_mov_b32 v4, 1", 1),
        # EXEC and M0 before memory; s_setreg before another
        (GFX906, LOADS + "v_cmpx_lt_f32 vcc, v1, v2\nglobal_load_dword v4, v1, s[8:9]", "global_load", 5),
        (GFX906, LOADS + "s_mov_b64 s[10:11], 0\nv_readfirstlane_b32 m0, v1\n"
         "buffer_load_dword v1, s[8:11], 0 offen lds", "buffer_load", 5),
        (GFX906, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\n"
         "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 2", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2", 2),
        # an f64 matrix instruction between a vector instruction and the store of its result
        (GFX90A, SETUP + "v_mov_b32 v5, 0\nv_mov_b32 v6, 0\nv_mov_b32 v7, 0\ns_nop 7\nv_mov_b32 v4, 0\n"
         "v_mfma_f64_4x4x4f64 v[8:9], v[2:3], v[2:3], 0\nds_write_b32 v1, v4", "ds_write_b32", 1),
        (GFX90A, SETUP + "v_mov_b32 v5, 0\nv_mov_b32 v6, 0\nv_mov_b32 v7, 0\ns_nop 7\nv_mov_b32 v4, 0\n"
         "v_mfma_f64_4x4x4f64 v[8:9], v[2:3], v[2:3], 0\nds_write_b32 v1, v5", "ds_write_b32", 0),
        # packed: what LLVM takes for a shifted result
        (GFX942, SETUP + "v_pk_mul_f16 v4, v1, v1\nv_pk_add_f16 v5, v4, v4", "v_pk_add_f16", 1),
        (GFX942, SETUP + "v_pk_mul_f16 v4, v1, v1 op_sel_hi:[0,1]\nv_pk_add_f16 v5, v4, v4", "v_pk_add", 0),
        (GFX942, SETUP + "v_fma_mix_f32 v4, v1, v1, v1\nv_add_f32 v5, v4, v4", "v_add_f32", 0),
        (GFX90A, SETUP + "v_pk_mul_f16 v4, v1, v1\nv_pk_add_f16 v5, v4, v4", "v_pk_add_f16", 0),
        # a whole register through SDWA
        (GFX942, SETUP + "v_mov_b32_sdwa v4, v1 dst_sel:DWORD src0_sel:BYTE_0\nv_mov_b32 v5, v4",
         "v_mov_b32 v5, v4", 0),
        # a register written in part, then written again
        (GFX942, SETUP + "v_mov_b32_sdwa v4, v1 dst_sel:BYTE_1 src0_sel:BYTE_0\nv_mov_b32 v4, 1",
         "v_mov_b32 v4, 1", 1),
        # M0
        (GFX906, "s_mov_b32 m0, 0\ns_sendmsg sendmsg(MSG_INTERRUPT)", "s_sendmsg", 1),
        # gfx942: scalars, special functions
        (GFX942, SETUP + "v_cmp_lt_f32 vcc, v1, v2\nv_cndmask_b32 v4, v1, v2, vcc", "v_cndmask", 2),
        (GFX906, SETUP + "v_cmp_lt_f32 vcc, v1, v2\nv_cndmask_b32 v4, v1, v2, vcc", "v_cndmask", 0),
        (GFX942, SETUP + "v_exp_f32 v4, v1\nv_add_f32 v5, v4, v4", "v_add_f32", 1),
        (GFX942, SETUP + "v_exp_f32 v4, v1\nv_exp_f32 v5, v4", "v_exp_f32 v5", 0),
        (GFX942, SETUP + "v_mov_b32 v4, v1\nv_readlane_b32 s4, v4, 3", "v_readlane", 1),
        # dot products: into the same sum nothing, into a factor or another instruction three
        (GFX90A, SETUP + "v_dot2c_f32_f16 v1, v2, v3\nv_dot2c_f32_f16 v1, v2, v3", "v_dot2c", 0),
        (GFX90A, SETUP + "v_dot2c_f32_f16 v1, v2, v3\nv_dot2c_f32_f16 v3, v1, v2", "v_dot2c_f32_f16 v3", 3),
        (GFX90A, SETUP + "v_dot2c_f32_f16 v1, v2, v3\nv_add_f32 v4, v1, v2", "v_add_f32", 3),
        (GFX906, SETUP + "v_dot2_f32_f16 v1, v2, v3, v1\nv_add_f32 v4, v1, v2", "v_add_f32", 0),
    ],
)  # fmt: skip
def test_distances(machine, text, start, states):
    found = before(lines(machine, text), start)
    given = [int(line.split()[1]) + 1 for line in found if "s_nop" in line]
    own = [2] if "s_nop 1" in text else []
    assert sum(given) == states + sum(own)
    assert text.count("s_nop") or len(given) == (states > 0)


def matrix(machine, instruction: str, then: str, *, c: str = "0", between: int = 0) -> int:
    """No-ops between a matrix instruction on v[8:...] with result v[32:...] and another."""
    setup = "\n".join(f"v_mov_b32 v{i}, 0" for i in range(8, 80))
    filler = "\n".join(["s_nop 0"] * between)
    text = lines(machine, f"{setup}\ns_nop 7\n{instruction.replace('C', c)}\n{filler}\n{then}")
    found = before(text, then.split(",")[0])
    return sum(int(line.split()[1]) + 1 for line in found) - between


@pytest.mark.parametrize(
    ("machine", "instruction", "then", "states"),
    [
        (GFX90A, "v_mfma_f32_32x32x8f16 v[32:47], v[8:9], v[10:11], C", "v_add_f32 v2, v32, v32", 19),
        (GFX90A, "v_mfma_f32_16x16x16f16 v[32:35], v[8:9], v[10:11], C", "v_add_f32 v2, v32, v32", 11),
        (GFX90A, "v_mfma_f32_4x4x4f16 v[32:35], v[8:9], v[10:11], C", "v_add_f32 v2, v32, v32", 5),
        (GFX942, "v_mfma_f32_32x32x8_f16 v[32:47], v[8:9], v[10:11], C", "v_add_f32 v2, v32, v32", 11),
        (GFX942, "v_mfma_f32_16x16x16_f16 v[32:35], v[8:9], v[10:11], C", "v_add_f32 v2, v32, v32", 7),
        (GFX942, "v_mfma_f32_32x32x2_f32 v[32:47], v8, v9, C", "v_add_f32 v2, v32, v32", 18),
        (GFX942, "v_mfma_f32_16x16x4_f32 v[32:35], v8, v9, C", "ds_write_b32 v8, v32", 10),
        # f64: memory waits longer than a vector instruction
        (GFX90A, "v_mfma_f64_16x16x4f64 v[32:39], v[8:9], v[10:11], C", "v_add_f32 v2, v32, v32", 11),
        (GFX90A, "v_mfma_f64_16x16x4f64 v[32:39], v[8:9], v[10:11], C", "ds_write_b32 v8, v32", 18),
        # the result as the next sum, exactly: none; as a factor: all
        (GFX942, "v_mfma_f32_32x32x8_f16 v[32:47], v[8:9], v[10:11], C",
         "v_mfma_f32_32x32x8_f16 v[32:47], v[12:13], v[14:15], v[32:47]", 0),
        (GFX90A, "v_mfma_f32_16x16x16f16 v[32:35], v[8:9], v[10:11], C",
         "v_mfma_f32_16x16x16f16 v[40:43], v[32:33], v[14:15], 0", 11),
        (GFX942, "v_mfma_f32_16x16x16_f16 v[32:35], v[8:9], v[10:11], C",
         "v_mfma_f32_4x4x4_16b_f16 v[40:43], v[12:13], v[14:15], v[34:37]", 5),
    ],
)  # fmt: skip
def test_distances_from_matrix_instructions(machine, instruction, then, states):
    assert matrix(machine, instruction, then) == states


def test_the_sum_may_not_be_overwritten_while_it_is_read():
    instruction = "v_mfma_f32_32x32x8f16 v[32:47], v[8:9], v[10:11], C"
    assert matrix(GFX90A, instruction, "v_mov_b32 v60, 1", c="v[48:63]") == 15
    assert matrix(GFX90A, instruction, "v_mov_b32 v60, 1", c="v[48:63]", between=10) == 5


def test_of_two_ways_the_one_with_the_longer_distance_counts():
    """On one way the sum is exactly an earlier result, which needs none; on the other it overlaps one."""
    setup = "\n".join(f"v_mov_b32 v{i}, 0" for i in range(8, 64))
    text = f"""{setup}
        s_nop 7
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc1 other
        v_mfma_f32_16x16x16f16 v[34:37], v[8:9], v[10:11], 0
        s_nop 1
        s_branch last
        other:
        v_mfma_f32_16x16x16f16 v[32:35], v[8:9], v[10:11], 0
        last:
        v_mfma_f32_16x16x16f16 v[40:43], v[8:9], v[10:11], v[32:35]
    """
    found = before(lines(GFX90A, text), "v_mfma_f32_16x16x16f16 v[40")
    assert found == ["s_nop 4"]  # 8 for the overlap, less a no-op of two and the branch


def test_a_matrix_instruction_does_not_overwrite_what_a_store_still_reads():
    setup = "\n".join(f"v_mov_b32 v{i}, 0" for i in range(1, 24)) + "\ns_mov_b64 s[8:9], 0\ns_nop 7\n"
    store = "global_store_dwordx4 v1, v[8:11], s[8:9]\nv_mfma_f32_4x4x4f16 v[8:11], v[12:13], v[14:15], 0"
    assert before(lines(GFX90A, setup + store), "v_mfma") == ["s_nop 0"]


def test_a_matrix_instruction_in_a_template_has_its_distances_too():
    k = kernel(GFX942)
    acc, pair, out = k.vector("acc", count=4), k.vector("pair", count=2), k.vector("out")
    k.emit_template("v_mov_b32 %0.0, 0\nv_mov_b32 %0.1, 0", pair)
    k.emit_template(
        """v_mfma_f32_16x16x16_f16 %0, %1, %1, 0
                       v_add_f32 %2, %0.0, %0.3""",
        acc,
        pair,
        out,
    )
    text = [line.strip() for line in k.finish().body()]
    assert before(text, "v_mfma") == ["s_nop 1"]
    assert before(text, "v_add_f32") == ["s_nop 6"]


def test_accumulators_that_only_feed_themselves_need_no_nops():
    k = kernel(GFX90A)
    acc = [k.accumulation(f"acc{i}", count=4) for i in range(4)]
    pair, c = k.vector("pair", count=2), k.scalar("c")
    k.emit("s_mov_b32", c, 8)
    for at in range(2):
        k.emit("v_mov_b32", Part(pair, at), 0)
    for tile in acc:
        for at in range(4):
            k.emit("v_accvgpr_write_b32", Part(tile, at), 0)
    k.label("loop")
    for tile in acc:
        k.emit("v_mfma_f32_16x16x16_f16", tile, pair, pair, tile)
    k.emit("s_sub_u32", c, c, 1)
    k.emit("s_cmp_lg_u32", c, 0)
    k.emit("s_cbranch_scc1", "loop")
    k.emit("ds_write_b32", "thread", Part(acc[3], 0))
    finished = k.finish()
    inner = finished.inner_loop()
    assert inner is not None
    assert inner["nops"] == 0
    assert inner["issue_clocks"] == 4 * 8 * 4 + 3 * 4
    assert finished.gaps[max(finished.gaps)].states == 11 - 3  # three scalar instructions stand between


def test_a_distance_that_the_author_forgot_is_an_error_with_both_lines():
    text = LOADS + "v_readfirstlane_b32 s8, v1\ns_nop 3\nglobal_load_dword v4, v1, s[8:9]"
    with pytest.raises(
        AssemblyError, match=r"'global_load_dword v4.* comes 1 wait states too early after 'v_read"
    ):
        lines(GFX906, text, waits="manual")
    assert len(lines(GFX906, text.replace("s_nop 3", "s_nop 4"), waits="manual")) == 8


def test_the_shortest_way_counts():
    text = lines(
        GFX906,
        LOADS
        + """
        v_readfirstlane_b32 s8, v1
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc1 near
        s_nop 7
        near:
        global_load_dword v4, v1, s[8:9]
    """,
    )
    assert before(text, "global_load") == ["s_nop 2"]
