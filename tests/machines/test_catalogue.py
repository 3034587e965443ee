"""The catalogue as a whole: every name is found, and what the documentation says of it is so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from regweave.errors import InputError
from regweave.machines.catalogue import (
    find_instruction,
    find_layout,
    find_machine,
    fragment_names,
    machine_names,
)

TEXT = (Path(__file__).parents[2] / "docs/catalogue.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_name_is_found():
    names = fragment_names()
    assert len(set(names)) == len(names) > 2500
    for name in names:
        assert find_layout(name).name == name


@pytest.mark.parametrize("name", machine_names())
def test_machines_have_what_they_list(name):
    machine = find_machine(name)
    names = fragment_names(machine)
    assert names
    for text in names[:: len(names) // 8 + 1]:
        layout = find_layout(text, machine)
        assert layout.name == text
        assert layout == find_layout(text)
    for instruction in list(machine.instructions)[::50]:
        assert find_instruction(instruction, machine) is machine.instructions[instruction]


def test_looking_up_one_name_makes_no_other_layout():
    program = (
        "from regweave.layouts import Layout\n"
        "made = []\n"
        "check = Layout.__post_init__\n"
        "Layout.__post_init__ = lambda self: (made.append(self.name), check(self))[1]\n"
        "from regweave.machines.catalogue import find_layout\n"
        "find_layout('v_mfma_f32_32x32x8f16:D')\n"
        "print(sorted(made))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str([f"v_mfma_f32_32x32x8_f16:{operand}" for operand in "ABCD"])


def test_an_unknown_machine_lists_the_nearest():
    with pytest.raises(InputError, match=r"unknown machine 'gfx943'.*nearest: gfx942"):
        find_machine("gfx943")


@pytest.mark.parametrize(("name", "meant"), [("GFX942", "gfx942"), ("Sm_90A", "sm_90a"), ("NEON", "neon")])
def test_capitals_are_near_small_letters(name, meant):
    with pytest.raises(InputError) as caught:
        find_machine(name)
    assert caught.value.nearest[0] == meant


@pytest.mark.parametrize("find", [find_machine, find_layout, find_instruction])
def test_of_endless_names_the_beginning_is_quoted(find):
    with pytest.raises(InputError, match=r"unknown \w+ 'xxx.*x\.\.\. \(30002 characters\)") as caught:
        find("x" * 30000)
    assert len(str(caught.value)) < 1000


def quoted(pattern):
    return sorted(set(re.findall(rf"`({pattern})`", TEXT)))


def test_names_in_the_documentation(tmp_path, monkeypatch):
    (tmp_path / "board.toml").write_text(re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)[0])
    monkeypatch.chdir(tmp_path)
    layouts = quoted(r"(?:mma|v_|ldmatrix|avx|board\.toml)[\w.]*:[\w:@^.]+")
    assert len(layouts) > 15
    for name in layouts:
        find_layout(name)
    machines = quoted(r"(?:sm_|gfx)\w+|avx\d+|neon")
    assert len(machines) > 8
    for name in machines:
        find_machine(name)
    assert find_machine("board.toml").registers_per_lane == 64
    old, new = quoted(r"v_mfma_f32_32x32x4(?:bf16_1k|_2b_bf16):D")
    assert find_layout(old) is find_layout(new)


@pytest.mark.parametrize("name", ["mma.m16n8k8.tf32:", "mma.m16n8k8.tf32:CD", "mma.m16n8k8.tf32:E"])
def test_an_operand_is_one_letter(name):
    with pytest.raises(InputError, match=r"unknown layout .*nearest: mma\.m16n8k8\.tf32:A"):
        find_layout(name)


@pytest.mark.parametrize("name", [None, 5, b"mma", ["mma"], ("a", "b")])
def test_names_are_text(name):
    with pytest.raises(InputError, match="is no layout's name"):
        find_layout(name)
    with pytest.raises(InputError, match="is no machine"):
        find_machine(name)


@pytest.mark.parametrize("name", ["", " ", "..!", ":C"])
def test_nothing_is_near_a_name_like_none(name):
    for find in (find_machine, find_layout, find_instruction):
        with pytest.raises(InputError, match=r"unknown \w+ '") as caught:
            find(name)
        assert caught.value.nearest == ()
        assert caught.value.expected
