"""What the emulator says of kernels that do what they must not, and of those that do not."""

from dataclasses import replace

import numpy as np
import pytest

from regweave.assembly.amd import Kernel
from regweave.assembly.amd.text import parse_kernel
from regweave.devices.emulator import Run, read_kernel, run
from regweave.devices.emulator.program import read_steps
from regweave.errors import InputError, KernelError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942

MACHINES = (GFX906, GFX90A, GFX942)
HEAD = """
argument x pointer
scalar base x2
vector at, value
`s_load_dwordx2 %0, %kernarg, argument(x)` base
v_lshlrev_b32 at, 2, THREAD
"""


def kernel(body, machine=GFX906, head=HEAD, **settings):
    thread = "thread_x" if machine is GFX906 else "thread"
    lines = "\n".join(f"{name} {value}" for name, value in settings.items())
    return parse_kernel(f"kernel trial\n{lines}\n{(head + body).replace('THREAD', thread)}", machine).finish()


def stripped(body, machine=GFX906, **settings):
    """A kernel without its waits, as steps."""
    finished = kernel(body, machine, **settings)
    program = read_kernel(finished)
    lines = [line for line in finished.body() if "s_waitcnt" not in line]
    return replace(program, steps=read_steps(lines, machine))


def launch(body, size=256, machine=GFX906, grid=1, unwritten=(), **settings):
    x = np.arange(size, dtype=np.uint32)
    found = run(kernel(body, machine, **settings), grid=grid, arguments={"x": x}, unwritten=unwritten)
    assert isinstance(found, Run)
    return x


@pytest.mark.parametrize("machine", MACHINES)
def test_every_lane_of_every_workgroup_runs(machine):
    body = """
    v_mov_b32 value, %group_x
    s_lshl_b32 %group_x, %group_x, 9
    v_add_u32 at, %group_x, at
    global_store_dword at, value, base
    """.replace("%", "")
    x = launch(body, 1024, machine, grid=8, workgroup=128)
    assert np.array_equal(x, np.repeat(np.arange(8), 128))


def test_lanes_beyond_the_workgroup_are_off():
    x = launch("v_mov_b32 value, 7\nglobal_store_dword at, value, base", 128, workgroup=70)
    assert (x[:70] == 7).all()
    assert np.array_equal(x[70:], np.arange(70, 128))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("s_mov_b64 exec, 1\nglobal_load_dword value, at, base offset:2", "no multiple of 4"),
        ("v_add_u32 at, 4, at\nglobal_load_dword value, at, base", "byte 256 of 'x', which has 256"),
        ("v_sub_u32 at, at, 4\nglobal_load_dword value, at, base", "outside of all buffers"),
        ("global_load_dword value, at, base offset:-4\nglobal_store_dword at, value, base", "byte -4 of 'x'"),
        ("loop:\ns_branch loop", "more than 5000 steps"),
    ],
)
def test_memory_and_loops(body, words):
    with pytest.raises(KernelError) as fault:
        run(kernel(body), grid=1, arguments={"x": np.zeros(64, np.uint32)}, budget=5000)
    assert words in str(fault.value)
    assert "trial, line" in str(fault.value)


def test_memory_that_was_never_written():
    body = "global_load_dword value, at, base\nglobal_store_dword at, value, base"
    with pytest.raises(KernelError, match="reads byte 0 of 'x', which was never written"):
        launch(body, unwritten=["x"])


def test_how_much_was_left_unwritten_is_counted():
    found = run(
        kernel("v_mov_b32 value, 1\nglobal_store_dword at, value, base"),
        grid=1,
        arguments={"x": np.zeros(80, np.uint32)},
        unwritten=["x"],
    )
    assert found.unwritten == {"x": 64}


def test_a_register_written_in_some_lanes_only():
    body = """
    s_mov_b64 exec, 0xffffffff
    v_mov_b32 v9, 1
    s_mov_b64 exec, -1
    v_add_u32 value, v9, v9
    """
    text = kernel(body.replace("v_add_u32 value, v9, v9", ""))
    lines = [*text.body()[:-1], "v_add_u32 v8, v9, v9", "s_endpgm"]
    steps = replace(read_kernel(text), steps=read_steps(lines, GFX906))
    with pytest.raises(KernelError, match=r"never written there; first in .*lane 32 \(32 lanes"):
        run(steps, grid=1, arguments={"x": np.zeros(64, np.uint32)})


@pytest.mark.parametrize("machine", MACHINES)
def test_a_missing_wait(machine):
    steps = stripped("global_load_dword value, at, base\nglobal_store_dword at, value, base", machine)
    with pytest.raises(KernelError, match=r"before 's_load_dwordx2 .* has brought it"):
        run(steps, grid=1, arguments={"x": np.zeros(64, np.uint32)})


LDS = """
v_mov_b32 value, THREAD
ds_write_b32 at, value
BARRIER
v_xor_b32 at, 256, at
ds_read_b32 value, at
v_xor_b32 at, 256, at
global_store_dword at, value, base
"""


def test_lds_goes_to_the_other_wave():
    x = launch(LDS.replace("BARRIER", "s_barrier"), workgroup=128, lds=512)
    assert np.array_equal(x[:128], np.arange(128) ^ 64)


def test_a_race():
    with pytest.raises(KernelError) as fault:
        launch(LDS.replace("BARRIER", ""), workgroup=128, lds=512)
    assert "ds_read_b32" in str(fault.value)
    assert "another wave wrote in 'ds_write_b32" in str(fault.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ds_read_b32 value, at offset:256", "which was never written"),
        ("ds_read_b32 value, at offset:512", "at 512 of LDS, of which there are 512 bytes"),
        ("ds_write_b32 at, at offset:2", "no multiple of 4"),
        ("v_mov_b32 value, 0\nds_write_b32 value, at", "different values to one place of LDS"),
    ],
)
def test_lds(line, words):
    with pytest.raises(KernelError, match=words):
        launch(line, lds=512)


def test_waves_at_different_barriers():
    body = """
    v_readfirstlane_b32 s10, THREAD
    s_cmp_eq_u32 s10, 0
    s_cbranch_scc1 other
    s_barrier
    s_endpgm
    other:
    s_barrier
    """
    with pytest.raises(KernelError, match="stand at different barriers: wave 1 and wave 0"):
        launch(body, workgroup=128)


def test_waves_that_part_meet_again():
    body = """
    v_readfirstlane_b32 s10, THREAD
    s_mov_b32 s11, 0
    loop:
    s_add_u32 s11, s11, 1
    s_cmp_ge_u32 s11, s10
    s_cbranch_scc0 loop
    v_mov_b32 value, s11
    global_store_dword at, value, base
    """
    x = launch(body, workgroup=256)
    assert np.array_equal(x, np.repeat([1, 64, 128, 192], 64))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "argument 'x' .* is missing"),
        ({"x": np.zeros(4), "y": 1}, "has no argument 'y'"),
        ({"x": 5}, "expected an array"),
        ({"x": np.zeros((4, 4)).T[::2]}, "not a contiguous"),
        ({"x": np.zeros(4, ">f4")}, "byte order"),
        (None, "arrays and numbers by name"),
    ],
)
def test_arguments(arguments, words):
    with pytest.raises(InputError, match=words):
        run(kernel(""), grid=1, arguments=arguments)


@pytest.mark.parametrize("grid", [0, (1, 2, 3, 4), (1, -1), 2.5, None, "2", (), (2.5,)])
def test_grids(grid):
    with pytest.raises(InputError, match=r"a grid of .*expected 1 to 3 numbers of workgroups"):
        run(kernel(""), grid=grid, arguments={"x": np.zeros(4)})


def test_a_grid_is_not_laid_out_beforehand():
    with pytest.raises(KernelError, match="more than 100 steps"):
        run(kernel("loop:\ns_branch loop"), grid=(1 << 30, 1 << 30), arguments={"x": np.zeros(4)}, budget=100)


def test_a_kernel_that_is_not_finished():
    with pytest.raises(InputError, match="a Kernel cannot be run; expected what finish"):
        run(Kernel(GFX906, name="k"), grid=1, arguments={})


def test_a_kernel_from_the_builder_is_read_step_by_step():
    k = Kernel(GFX906, name="two")
    one = k.vector("one")
    k.emit("v_mov_b32", one, 1.0)
    steps = read_kernel(k.finish()).steps
    assert [step.name for step in steps] == ["v_mov_b32", "s_endpgm"]
    assert steps[0].remark == "0: v_mov_b32 one, 1.0"


@pytest.mark.parametrize(("machine", "nops"), [(GFX906, 1), (GFX942, 2)])
def test_data_that_is_overwritten_while_a_store_reads_it(machine, nops):
    body = "vector data x4\n" + "".join(f"v_mov_b32 data.{i}, {i}\n" for i in range(4))
    body += "v_lshlrev_b32 at, 2, at\nglobal_store_dwordx4 at, data, base\nv_mov_b32 data.2, 7\n"
    finished = kernel(body + "v_add_u32 at, at, data.2\n", machine)
    x = np.zeros(256, np.uint32)
    run(finished, grid=1, arguments={"x": x})
    assert list(x[:4]) == [0, 1, 2, 3]
    lines = [line for line in finished.body() if "s_nop" not in line]
    for missing in range(nops + 1):
        at = next(i for i, line in enumerate(lines) if "global_store" in line)
        kept = [f"s_nop {nops - missing - 1}"] if missing < nops else []
        program = replace(
            read_kernel(finished), steps=read_steps([*lines[: at + 1], *kept, *lines[at + 1 :]], machine)
        )
        if missing == 0:
            run(program, grid=1, arguments={"x": x})
        else:
            with pytest.raises(KernelError, match="still reads its data when 'v_mov_b32"):
                run(program, grid=1, arguments={"x": x})
