"""Rearrangements of vector registers, assembled and run on this processor."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.devices import cpu
from regweave.emitters import check_target, emit_trial
from regweave.emitters.x86 import x86_listing
from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.machines.x86.machine import AVX512_VBMI
from regweave.rearrangement import rearrange

HOSTS = {machine.name: machine for machine in (AVX2, AVX512, AVX512_VBMI)}


def run(plan):
    """The words of the destination's registers when every piece of the source's is another, run natively."""
    program = plan.chosen.program
    if not supports(HOSTS[plan.machine.name]):
        pytest.skip(f"this processor has no {plan.machine.name}")
    kind = {4: np.uint32, 2: np.uint16, 1: np.uint8}[4 // plan.source.element_type.per_register]
    items = np.arange(plan.source.table.size, dtype=np.int64).reshape(plan.source.table.shape)
    held = items.astype(kind)
    # the registers one after the other: lanes within, the parts of a lane side by side
    parts = plan.source.element_type.per_register
    shape = plan.source.lanes, -1, parts
    source = np.ascontiguousarray(held.reshape(shape).swapaxes(0, 1))
    target = np.zeros((plan.destination.registers, plan.destination.lanes, parts), kind)
    function = cpu.load(x86_listing(program))
    pointer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    pointer(function.address)(source.ctypes.data, target.ctypes.data)
    found = target.swapaxes(0, 1).reshape(plan.destination.lanes, -1)[:, : plan.destination.items]
    elements = np.empty(plan.source.elements, dtype=kind)
    elements[plan.source.table] = held
    assert np.array_equal(found, elements[plan.destination.table])
    return plan


@pytest.mark.parametrize(
    ("machine", "size", "picks"),
    [("avx2", 8, 24), ("avx512", 16, 64), ("avx512_vbmi", 16, 64)],
)
def test_transposes(machine, size, picks):
    plan = rearrange(f"{machine}.rows:{size}", f"{machine}.columns:{size}", machine)
    assert (plan.form, plan.cost.exchanges, plan.cost.instructions) == ("picks", picks, picks)
    assert "vpermt2ps" not in plan.emit("x86")  # stages of fixed picks need no index
    run(plan)


@pytest.mark.parametrize("machine", ["avx2", "avx512"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_narrow_tiles(machine, count):
    lanes = find_machine(machine).lanes
    run(rearrange(f"{machine}.rows:{count}", f"{machine}.columns:{count}", machine, tile=(lanes, lanes)))


def test_four_by_four_within_every_quarter():
    """Four registers, each quarter of which is a row of a 4 x 4 tile of its own."""
    quarter, place = np.divmod(np.arange(16), 4)
    register = np.arange(4)[None, :]
    rows = Layout("rows", (4, 16), "f32", register * 16 + (quarter * 4 + place)[:, None])
    columns = Layout("columns", (4, 16), "f32", place[:, None] * 16 + quarter[:, None] * 4 + register)
    assert run(rearrange(rows, columns, "avx512")).cost.exchanges == 8


@pytest.mark.parametrize(("machine", "kind"), [("avx512", "f16"), ("avx512_vbmi", "s8")])
def test_pieces_of_lanes(machine, kind):
    random = np.random.default_rng(5)
    parts = {"f16": 2, "s8": 4}[kind]
    tables = [random.permutation(16 * 3 * parts).reshape(16, -1) for _ in range(2)]
    source, destination = (Layout(f"L{i}", (3, 16 * parts), kind, table) for i, table in enumerate(tables))
    plan = run(rearrange(source, destination, machine))
    assert plan.form == "picks"
    assert {"f16": "vpermt2w", "s8": "vpermt2b"}[kind] in plan.emit("x86")


def test_more_registers_than_can_be_live_at_once():
    plan = run(rearrange("avx512.rows.f16:16", "avx512.columns.f16:16", "avx512"))
    assert plan.source.registers == 32
    # every register is loaded twice, so that 16 results at a time are enough
    assert plan.emit("x86").count(", zmmword ptr [rdi") == 64


@settings(deadline=None, max_examples=40)
@given(
    machine=st.sampled_from(["avx2", "avx512"]), registers=st.integers(1, 6), seed=st.integers(0, 2**32 - 1)
)
def test_any_relation(machine, registers, seed):
    random = np.random.default_rng(seed)
    lanes = find_machine(machine).lanes
    source = Layout("s", (registers, lanes), "f32", random.permutation(lanes * registers).reshape(lanes, -1))
    held = np.concatenate([np.arange(source.elements), random.integers(0, source.elements, lanes)])
    table = random.permutation(held).reshape(lanes, -1)  # one register more, holding copies
    run(rearrange(source, Layout("d", source.shape, "f32", table), machine))


def test_what_avx2_cannot_do_is_said():
    source, destination = (f"avx2.{side}.f16:2" for side in ("rows", "columns"))
    plan = rearrange(source, destination, "avx2")
    assert plan.strategy == "refuse"
    assert "picks no pieces of 16 bits" in plan.explain()


def test_other_machines_programs_are_refused():
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="direct")
    with pytest.raises(UnsupportedError, match=r"no 32 lanes.*plan for avx2"):
        plan.emit("x86")
    with pytest.raises(UnsupportedError, match=r"CUDA.*no word for pick"):
        rearrange("avx512.rows:16", "avx512.columns:16", "avx512").emit("cuda")


def test_targets_by_name():
    assert check_target("x86") == "x86"
    with pytest.raises(InputError, match=r"'x68'.*nearest: x86"):
        check_target("x68")
    program = rearrange("avx2.rows:8", "avx2.columns:8", "avx2").chosen.program
    with pytest.raises(UnsupportedError, match="needs no kernel"):
        emit_trial(program, "x86")
