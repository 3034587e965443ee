"""What is remembered of searches, for how long, and for which machines."""

from dataclasses import replace

import numpy as np

from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.rearrangement import rearrange
from regweave.rearrangement.remembered import Remembered
from regweave.rearrangement.shared import forms
from regweave.rearrangement.shared.likeness import memory_of

SM_75, SM_80, SM_86, SM_89, SM_90A, GFX90A, GFX942 = (
    find_machine(name) for name in ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "gfx90a", "gfx942")
)


def test_the_oldest_is_forgotten_where_there_are_too_many():
    known, searched = Remembered[int](2), []

    def look(key):
        return known.found(key, lambda: searched.append(key) or len(searched))

    assert [look(key) for key in "abab"] == [1, 2, 1, 2]
    assert look("c") == 3
    assert look("b") == 2
    assert look("a") == 4
    assert searched == list("abca")


def test_large_results_find_less_room():
    known, searched = Remembered[str](9, len, 6), []

    def look(key):
        return known.found(key, lambda: searched.append(key) or key)

    for key in ("aa", "bb", "cc", "aa", "ddd", "cc", "aa", "sevenfold", "cc"):
        assert look(key) == key
    assert searched == ["aa", "bb", "cc", "ddd", "aa", "sevenfold", "cc"]


def test_machines_that_serve_lanes_alike():
    def alike(first, second, elements=128, written=False):
        return memory_of(first, elements, written=written) == memory_of(second, elements, written=written)

    assert alike(SM_75, SM_80)
    assert alike(SM_80, SM_86, written=True)
    assert alike(GFX90A, GFX942)
    assert not alike(SM_80, SM_90A)  # which has stmatrix
    assert not alike(SM_80, GFX942)
    assert not alike(SM_80, SM_86, 1 << 14)  # there may be room on one of them only
    assert not alike(SM_80, replace(SM_80, shared_scales=()), written=True)
    assert not alike(SM_80, replace(SM_80, shared_banks=16))


def test_a_passage_of_one_machine_serves_another(monkeypatch):
    known = Remembered(512, lambda found: 0, 1)
    monkeypatch.setattr(forms, "_PASSAGES", known)
    sides = "mma.m16n8k8.tf32:D^T", "mma.m16n8k8.tf32:A"
    first, other = (rearrange(*sides, machine, "whole-warp") for machine in (SM_80, SM_86))
    assert first.chosen.program == other.chosen.program
    assert len(known._results) == 1


def test_too_much_memory_is_said_of_the_machine_that_is_asked():
    numbers = np.random.default_rng(1).permutation(1 << 15).reshape(256, 128)
    source = Layout("s", (256, 128), "b32", np.arange(1 << 15).reshape(256, 128))
    for machine in (SM_86, SM_89):
        plan = rearrange(source, Layout("d", (256, 128), "b32", numbers), machine, "refuse")
        reason = next(found.reason for found in plan.candidates if found.form == "whole-warp")
        assert reason == f"it needs 131072 bytes of shared memory, {machine.name} has 101376"
