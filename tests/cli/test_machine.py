"""`regweave machine`, and what the shell is told of names."""

import json
import re

import pytest

from regweave.cli import main
from regweave.machines.catalogue import find_machine, machine_names
from regweave.views.catalogue import machine_document, machines_document


def test_the_list(capfd):
    assert main(["machine"]) == 0
    out = capfd.readouterr().out
    assert all(name in out for name in machine_names())
    assert main(["machine", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document == machines_document()
    (entry,) = [machine for machine in document["machines"] if machine["name"] == "gfx942"]
    assert (entry["family"], entry["lanes"], entry["layout_only"]) == ("amd", 64, 0)
    assert {machine["name"]: machine["layout_only"] > 0 for machine in document["machines"]}["sm_70"]


@pytest.mark.parametrize("name", machine_names())
def test_one_machine(name, capfd):
    assert main(["machine", name]) == 0
    out = capfd.readouterr().out
    assert find_machine(name).title in out
    document = machine_document(find_machine(name))
    assert len(json.dumps(document)) > 500
    assert all(entry["name"] in out for entry in document["instructions"][:3])
    assert {"name", "costs", "shared", "registers", "exchanges", "instructions", "layouts"} <= {*document}


def test_emulated_instructions_say_what_to_use(capfd):
    assert main(["machine", "sm_90a", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capfd.readouterr().out)["instructions"]}
    assert entries["mma.m16n8k32.e4m3"]["support"] == "emulated"
    assert "wgmma" in entries["mma.m16n8k32.e4m3"]["note"]
    assert "note" not in entries["mma.m16n8k16.f16"]


def test_a_machine_of_the_user_s_own(capfd, tmp_path):
    path = tmp_path / "board.toml"
    path.write_text('[machine]\nname = "board"\nlike = "sm_80"\nlanes = 4\ncosts = { shuffle = 3 }\n')
    assert main(["machine", str(path), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["name"], document["lanes"], document["costs"]["shuffle"]) == ("board", 4, 3)


def test_unknown_machines(capfd):
    assert main(["machine", "sm_81"]) == 2
    err = capfd.readouterr().err
    assert "unknown machine 'sm_81'" in err
    assert "nearest:  sm_8" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["layout", "mma.m16n8k8.tf"], {f"mma.m16n8k8.tf32:{operand}" for operand in "ABCD"}),
        (["machine", "gfx94"], {"gfx942"}),
        (["rearrange", "a", "v_mfma_f64_16x16x4_f64:"], {f"v_mfma_f64_16x16x4_f64:{o}" for o in "ABCD"}),
        (["rearrange", "a", "b", "--machine", "sm_90"], {"sm_90a"}),
        (["rearrange", "a", "b", "--emit", "o"], {"opencl"}),
        (["rearrange", "a", "b", "--strategy", "fo"], {"fold"}),
    ],
)
def test_completion(words, expected, capfd):
    main(["__complete", *words])
    lines = capfd.readouterr().out.splitlines()
    assert {line.split("\t")[0] for line in lines[lines.index("\x1fbegin") + 1 :]} == expected


def test_instructions_that_differ_in_sizes_share_a_line(capfd):
    assert main(["machine", "sm_90a"]) == 0
    out = capfd.readouterr().out
    assert len(out.splitlines()) < 100
    assert re.search(r"wgmma\.m64n8k8\.tf32 \.\.\. wgmma\.m64n256k8\.tf32 ", out)
    assert main(["machine", "sm_90a", "m64n64k8.tf32"]) == 0
    assert "wgmma.m64n64k8.tf32 " in capfd.readouterr().out
    assert main(["machine", "sm_90a", "m64n64k8.tf32", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [entry["name"] for entry in document["instructions"]] == ["wgmma.m64n64k8.tf32"]
    assert main(["machine", "sm_90a", "wgma"]) != 0
    assert "nothing whose name holds 'wgma'" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["v_mfma_f32_32x32x4_2b_f16", "v_mfma_f32_32x32x4f16"])
def test_all_about_one_instruction(name, capfd):
    assert main(["machine", "gfx90a", name, "--json"]) == 0
    own = json.loads(capfd.readouterr().out)["instruction"]
    assert own["name"] == "v_mfma_f32_32x32x4_2b_f16"
    assert (own["sizes"], own["blocks"], own["lanes"]) == ({"m": 32, "n": 32, "k": 4}, 2, 64)
    assert own["operations"] == 2 * 2 * 32 * 32 * 4
    assert own["clocks"] == 64  # 16 passes of four: 1024 operations a clock from the four units of a CU
    assert own["operands"]["D"] == {
        "layout": "v_mfma_f32_32x32x4_2b_f16:D",
        "rows": 64,
        "columns": 32,
        "axes": ["m", "n"],
        "type": "f32",
        "elements_per_lane": 32,
        "registers": 32,
        "slots_per_element": 1,
    }
    assert main(["machine", "gfx90a", name]) == 0
    out = capfd.readouterr().out
    for words in (
        "2 blocks of 32 x 32 x 4",
        "64 of its unit",
        "__builtin_amdgcn_mfma_f32_32x32x4f16",
        "gfx942 (native)",
    ):
        assert words in out


def test_operands_that_are_repeated_say_so(capfd):
    assert main(["machine", "gfx1100", "v_wmma_f32_16x16x16_f16"]) == 0
    assert "f16, 16 a lane in 8 registers, each held 2 times" in capfd.readouterr().out


def test_what_is_no_machine_but_stands_on_the_disk(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own.txt").touch()
    for name, kind in (("own", "a folder"), ("own.txt", "a file")):
        assert main(["machine", name]) == 2
        complaint = capfd.readouterr().err
        assert f"'{name}' is {kind}, not a machine" in complaint
        assert "a file of your own that ends in .toml" in complaint
