"""Random kernels: their registers are proved by `finish`, their waits and distances by a second reading."""

from __future__ import annotations

import random

import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.assembly.amd.proof import prove_registers
from regweave.errors import RegisterError, VerificationError
from regweave.machines.amd.assembly import TARGETS, GcnMachine


def random_kernel(machine: GcnMachine, seed: int, *, occupancy: int | None = None) -> Kernel:
    """Loads, arithmetic on parts of tuples, masked regions, reused temporaries, a loop."""
    choose = random.Random(seed)
    k = Kernel(machine, name="k", lds_bytes=1024, occupancy=occupancy)
    thread = "thread" if machine.unified else "thread_x"
    at = k.vector("at")
    k.emit("v_lshlrev_b32", at, 4, thread)
    base, count, saved = k.scalar("base", count=2), k.scalar("count"), k.scalar("saved", count=2)
    k.emit("s_load_dwordx2", base, "kernarg", k.argument("x"))
    k.emit("s_movk_i32", count, 4)
    ones = k.vectors("one", choose.randint(2, 6))
    tuples = [k.vector(f"tuple{i}", count=choose.choice((2, 3, 4, 8))) for i in range(choose.randint(1, 4))]
    for v in ones:
        k.emit("v_mov_b32", v, choose.randint(0, 60))
    for v in tuples:
        for number in range(v.count):
            k.emit("v_mov_b32", Part(v, number), choose.choice(ones))
    temporary = k.vector("temporary")  # for many unrelated values
    if choose.random() < 0.7:
        k.label("loop")

    def some() -> object:
        v = choose.choice([*ones, *tuples])
        return v if v.count == 1 else Part(v, choose.randrange(v.count))

    masked = False
    for _ in range(choose.randint(10, 60)):
        what = choose.randrange(9)
        if what < 3:
            k.emit("v_fma_f32", some(), some(), some(), some())
        elif what == 3:
            k.emit("v_mul_f32", temporary, some(), some())
            k.emit("v_add_f32", some(), temporary, some())
        elif what == 4:
            v = choose.choice(tuples)
            name = {2: "ds_read_b64", 3: "ds_read_b96", 4: "ds_read_b128"}.get(v.count)
            if name is not None:
                k.emit(name, v, at)
        elif what == 5:
            k.emit("global_load_dword", some(), at, base)
        elif what == 6:
            k.emit("global_store_dword", at, some(), base)
        elif what == 7:
            k.emit("v_cmp_lt_f32", "vcc", some(), some())
            k.emit("v_cndmask_b32", some(), some(), some(), "vcc")
        elif not masked:
            k.emit("v_cmp_gt_u32", "vcc", 16, at)
            k.emit("s_and_saveexec_b64", saved, "vcc")
            masked = True
        if masked and choose.random() < 0.3:
            k.emit("s_mov_b64", "exec", saved)
            masked = False
    if masked:
        k.emit("s_mov_b64", "exec", saved)
    if "loop" in k._labels:
        k.emit("s_sub_u32", count, count, 1)
        k.emit("s_cmp_lg_u32", count, 0)
        k.emit("s_cbranch_scc1", "loop")
    results = [*ones, *(Part(v, number) for v in tuples for number in range(v.count))]
    for result in results:
        k.emit("global_store_dword", at, result, base)
    return k


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_random_kernels(machine: GcnMachine):
    for seed in range(24):
        finished = random_kernel(machine, seed).finish()
        again = Kernel(machine, name="k", lds_bytes=1024, waits="manual")
        for line in finished.body():
            if line.strip().endswith(":"):
                again.label(line.strip()[:-1])
            else:
                again.emit_line(line.strip())
        assert [line.strip() for line in again.finish().body() if ":" not in line] == [
            line.strip().replace(".Lk_loop", ".Lk_.Lk_loop") for line in finished.body() if ":" not in line
        ]
        waste = sum(v.count - 1 for v in finished.registers if v.register_class.name == "vector") and 4
        assert finished.used["vector"] <= finished.bound["vector"] + waste
        assert finished.used["scalar"] <= finished.bound["scalar"] + 4


def test_a_tight_occupancy_is_kept_or_refused():
    outcomes = []
    for seed in range(24):
        kernel = random_kernel(TARGETS["gfx906"], seed, occupancy=10)
        if random_kernel(TARGETS["gfx906"], seed).finish().bound["vector"] > 24:
            with pytest.raises(RegisterError, match="of 24 vector registers"):
                kernel.finish()
            outcomes.append("refused")
        else:
            assert kernel.finish().occupancy == 10
            outcomes.append("kept")
    assert set(outcomes) == {"kept", "refused"}


def test_the_proof_finds_registers_that_were_swapped():
    kernel = random_kernel(TARGETS["gfx906"], 1)
    finished = kernel.finish()
    runs = dict(finished.registers)
    one, at = (next(v for v in runs if v.name == name) for name in ("one0", "at"))
    assert prove_registers(finished.program, finished.flow, runs, kernel.given) > 50
    runs[one] = runs[at]
    with pytest.raises(VerificationError, match="should hold register 0 of"):
        prove_registers(finished.program, finished.flow, runs, kernel.given)
