"""Matrix instructions and machines refuse what does not hold together; entries are made when asked for."""

from dataclasses import replace

import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.amd import GFX942
from regweave.machines.coordinates import fragment
from regweave.machines.gpu import MatrixInstruction, operand_tile
from regweave.machines.ondemand import Entry, OnDemand

INSTRUCTION = GFX942.instruction("v_mfma_f32_4x4x4_16b_f16")


def table(instruction, level="native", lanes=64, name=None):
    entry = Entry({"gfx942": level}, lanes, lambda: instruction, "ABCD")
    return OnDemand({name or instruction.name: entry}, {"short": instruction.name})


def test_blocks_are_stacked():
    assert [INSTRUCTION.tile(operand) for operand in "ABCD"] == [(64, 4), (4, 64), (64, 4), (64, 4)]
    assert operand_tile("B", (16, 8, 4)) == (4, 8)
    with pytest.raises(InputError, match=r"operand A .* has a tile \(64, 4\).*expected \(32, 4\)"):
        replace(INSTRUCTION, blocks=8)


def test_operands_that_lie_in_no_register():
    fragments = {operand: INSTRUCTION.fragments[operand] for operand in "ACD"}
    assert set(replace(INSTRUCTION, fragments=fragments).fragments) == set("ACD")
    with pytest.raises(InputError, match="has operands"):
        replace(INSTRUCTION, fragments={operand: INSTRUCTION.fragments[operand] for operand in "AB"})


def test_native_or_not():
    emulated = replace(INSTRUCTION, support={"gfx942": "emulated"}, note="use another one")
    machine = replace(GFX942, instructions=table(emulated, "emulated"))
    assert not machine.native("short")
    with pytest.raises(UnsupportedError, match=r"emulated by the compiler on gfx942.*use another one"):
        machine.require_native("short")
    layout_only = replace(machine, instructions=table(emulated, "layout"))
    with pytest.raises(UnsupportedError, match="known as a layout only"):
        layout_only.require_native(emulated.name)
    assert GFX942.require_native("v_mfma_f32_4x4x4f16") is INSTRUCTION
    with pytest.raises(UnsupportedError, match=r"gfx942 has no instruction 'v_mfma'"):
        GFX942.native("v_mfma")


def test_machines_check_their_tables():
    with pytest.raises(InputError, match=r"lists 'v_\w+', which it cannot have"):
        replace(GFX942, name="other")
    with pytest.raises(InputError, match=r"spread over 64 lanes.*a multiple of 48"):
        replace(GFX942, lanes=48, instructions=table(INSTRUCTION), layouts=OnDemand({}))
    with pytest.raises(InputError, match="shuffle costs -1"):
        replace(GFX942, opcode_costs={"shuffle": -1})
    with pytest.raises(InputError, match="no registers"):
        replace(GFX942, classes=())


def test_entries_must_make_what_they_say():
    with pytest.raises(InputError, match=r"is spread over 64 lanes; expected 32"):
        table(INSTRUCTION, lanes=32)[INSTRUCTION.name]
    with pytest.raises(InputError, match="the entry 'other' makes"):
        table(INSTRUCTION, name="other")["other"]
    made = []
    entry = Entry({}, 64, lambda: made.append(1) or INSTRUCTION)
    lazy = OnDemand({INSTRUCTION.name: entry}, {"short": INSTRUCTION.name, "dangling": "gone"})
    assert (list(lazy), len(lazy), "short" in lazy, lazy.resolve("dangling")) == (
        [INSTRUCTION.name],
        1,
        False,
        None,
    )
    assert made == []
    assert lazy[INSTRUCTION.name] is lazy[lazy.resolve("short")]
    assert made == [1]


def test_coordinates():
    layout = fragment("x", "D", (8, 4, 1), "f32", "n0-1 -", "m0 m2 m1")
    assert layout == Layout.linear(
        "x", (8, 4), "f32", lane=[(0, 1), (0, 2), (0, 0)], item=[(1, 0), (4, 0), (2, 0)]
    )
    assert layout.axes == ("m", "n")
    with pytest.raises(InputError, match=r"lane bit k0 .*layout x"):
        fragment("x", "D", (8, 4, 1), "f32", "k0", "")
    for text in ("m", "m0-", "m-1", "0", "m0-x", "m123", "M0"):
        with pytest.raises(InputError, match=f"'{text}' is no coordinate"):
            fragment("x", "D", (8, 4, 1), "f32", text, "")


def test_support_has_three_words():
    with pytest.raises(InputError, match=r"is 'fast' on gfx942; expected native, emulated, layout"):
        replace(INSTRUCTION, support={"gfx942": "fast"})
    assert isinstance(INSTRUCTION, MatrixInstruction)
