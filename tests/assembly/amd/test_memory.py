"""Former values of atomic operations, and loads that go straight to LDS."""

from __future__ import annotations

import pytest

from regweave.assembly.amd import Kernel
from regweave.assembly.amd.text import parse_kernel
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942

SETUP = "s_mov_b64 s[8:9], 0\ns_mov_b64 s[10:11], 0\nv_mov_b32 v1, 0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 0\n"


def lines(machine, text: str, **options) -> list[str]:
    k = Kernel(machine, name="k", lds_bytes=1024, **options)
    for line in filter(None, map(str.strip, (SETUP + text).splitlines())):
        k.emit_line(line)
    return [line.strip() for line in k.finish().body()]


@pytest.mark.parametrize(("machine", "word"), [(GFX906, "glc"), (GFX90A, "glc"), (GFX942, "sc0")])
def test_an_atomic_operation_gives_its_former_value(machine, word):
    text = lines(machine, f"global_atomic_add v5, v1, v2, s[8:9] {word}\nv_mov_b32 v6, v5")
    assert text[-3] == "s_waitcnt vmcnt(0)"
    swap = f"v_mov_b32 v4, 0\nv_mov_b32 v5, 0\nglobal_atomic_cmpswap v6, v1, v[4:5], s[8:9] {word}"
    assert lines(machine, f"{swap}\nv_mov_b32 v7, v6")[-3] == "s_waitcnt vmcnt(0)"
    with pytest.raises(AssemblyError, match=f"does not take.*add {word}"):
        lines(machine, "global_atomic_add v5, v1, v2, s[8:9]")
    with pytest.raises(AssemblyError, match="does not take"):
        lines(machine, f"global_atomic_add v1, v2, s[8:9] {word}")


def test_without_its_word_the_data_is_not_written():
    text = (
        "kernel k\nvector at, x\nscalar d x4\ns_load_dwordx4 d, kernarg, 0\nv_mov_b32 x, 1\nv_mov_b32 at, 0\n"
    )
    kept = parse_kernel(text + "buffer_atomic_add x, at, d, 0 offen\nds_write_b32 at, x", GFX906).finish()
    assert not any("vmcnt" in line for line in kept.body())
    former = parse_kernel(
        text + "buffer_atomic_add x, at, d, 0 offen glc\nds_write_b32 at, x", GFX906
    ).finish()
    assert any("vmcnt(0)" in line for line in former.body())


LOADS = [
    (GFX906, "buffer_load_dword v1, s[8:11], 0 offen lds"),
    (GFX90A, "global_load_dword v1, s[8:9] lds"),
    (GFX942, "global_load_lds_dword v1, s[8:9]"),
]


@pytest.mark.parametrize(("machine", "load"), LOADS)
def test_lds_filled_from_memory_is_waited_for(machine, load):
    text = lines(machine, f"s_mov_b32 m0, 0\n{load}\nds_read_b32 v4, v1")
    at = text.index(load)
    assert text[at - 1] == "s_nop 0"  # M0 was written one instruction before
    assert text[at + 1] == "s_waitcnt vmcnt(0)"
    text = lines(machine, f"s_mov_b32 m0, 0\nv_nop\n{load}\ns_barrier\nds_read_b32 v4, v1")
    at = text.index(load)
    assert text[at - 1] == "v_nop"
    assert text[at + 1 : at + 4] == ["s_waitcnt vmcnt(0)", "s_barrier", "ds_read_b32 v4, v1"]


@pytest.mark.parametrize(("machine", "load"), LOADS)
def test_where_lds_is_filled_stands_in_m0(machine, load):
    with pytest.raises(AssemblyError, match="may read 'm0' before it is written"):
        lines(machine, load)


@pytest.mark.parametrize(("machine", "load"), LOADS)
def test_a_wait_for_lds_that_is_missing(machine, load):
    text = f"s_mov_b32 m0, 0\nv_nop\n{load}\ns_barrier"
    with pytest.raises(AssemblyError, match="'s_barrier' comes before LDS from memory has arrived from"):
        lines(machine, text, waits="manual")
    lines(machine, text.replace("s_barrier", "s_waitcnt vmcnt(0)\ns_barrier"), waits="manual")
