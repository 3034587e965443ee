"""`regweave asm`: documents, objects, drawings, complaints."""

import json

import pytest

from regweave.cli import main
from regweave.devices.hip import read_counts

KERNEL = """
kernel dot
workgroup 64
lds 1024
argument out pointer
scalar base x2
vector at, sum, pair x2
s_load_dwordx2 base, kernarg, argument(out)
v_lshlrev_b32 at, 3, THREAD
ds_read_b64 pair, at
v_mov_b32 sum, 0
v_dot2_f32_f16 sum, pair.0, pair.1, sum
global_store_dword at, sum, base
"""
PYTHON = """
from regweave.assembly.amd import Kernel

def kernel(machine):
    k = Kernel(machine, name="empty")
    k.emit("v_nop")
    return k
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "dot.rws"
    path.write_text(KERNEL.replace("THREAD", "thread_x"))
    return path


def test_the_document(file, capfd):
    pytest.importorskip("ziglang")
    assert main(["asm", str(file), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["registers"] == {"vgpr": 4, "sgpr": 2, "agpr": 0}
    assert document["map"]["pair"] == ["v1", 2]
    assert document["pressure"]["peak"] == 4
    assert document["occupancy"] == 10
    assert (document["waits_inserted"], document["nops_inserted"], document["inner_loop"]) == (1, 0, None)
    assert document["instructions"] == 8
    assert document["object"]["lds_bytes"] == document["lds_bytes"] == 1024
    assert document["object_bytes"] > 1000
    assert ".amdhsa_next_free_vgpr 4" in document["text"]


def test_the_report(file, capfd):
    assert main(["asm", str(file)]) == 0
    out = capfd.readouterr().out
    assert "4 vgpr, 2 sgpr (at least 4 vgpr, 2 sgpr)" in out
    assert "v_dot2_f32_f16 v3, v1, v2, v3" in out


def test_object_and_map(file, tmp_path, capfd):
    pytest.importorskip("ziglang")
    made, drawn = tmp_path / "dot.co", tmp_path / "dot.svg"
    assert main(["asm", str(file), "-o", str(made), "--map", str(drawn)]) == 0
    assert read_counts(made.read_bytes(), "dot").vectors == 4
    svg = drawn.read_text()
    assert svg.startswith("<svg ")
    assert "pair: v[1:2], operations 2 to 4" in svg
    assert "ds_read_b64 pair, at" in svg
    assert svg.count("<rect") > 10


@pytest.mark.parametrize(("ending", "start"), [(".html", "<!doctype html>"), (".txt", "dot on AMD Vega 20")])
def test_maps_of_other_kinds(ending, start, file, tmp_path, capfd):
    drawn = tmp_path / f"dot{ending}"
    assert main(["asm", str(file), "--map", str(drawn)]) == 0
    assert drawn.read_text().startswith(start)
    assert main(["asm", str(file), "--map", str(tmp_path / "dot.pdf")]) == 2
    assert "register map in 'dot.pdf'" in capfd.readouterr().err


def test_object_and_map_are_two_files(file, tmp_path, capfd):
    one = str(tmp_path / "dot.html")
    assert main(["asm", str(file), "-o", one, "--map", one]) == 2
    assert "'dot.html' is to be both the code object and its map" in capfd.readouterr().err
    assert not (tmp_path / "dot.html").exists()


def test_the_trace(file, capfd):
    assert main(["asm", str(file), "--trace"]) == 0
    out = capfd.readouterr().out
    assert "kernarg          a reserved keyword: its predefined registers: scalar x2 -> s[0:1]" in out
    assert "pair.1           a name: looked up in the table of registers 'pair': vector x2 -> v[1:2]" in out


def test_another_machine_and_a_python_file(tmp_path, capfd):
    path = tmp_path / "empty.py"
    path.write_text(PYTHON)
    assert main(["asm", str(path), "--machine", "gfx942", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["machine"] == "gfx942"
    path.write_text("x = 1\n")
    assert main(["asm", str(path)]) == 2
    assert "a function kernel(machine)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def kernel(m):\n    raise ValueError('boom')", "raised ValueError: boom\n  where:    {}:2\n"),
        ("def kernel(:", "the file raised SyntaxError"),
        ("import nothing_here", "raised ModuleNotFoundError: No module named 'nothing_here'\n"),
        ("class Own(BaseException): ...\nraise Own('x')", "the file raised Own: x\n  where:    {}:2\n"),
        ("raise SystemExit(0)", "the file raised SystemExit: 0\n  where:    {}:1"),
        ("def kernel(m, other): ...", "the file raised TypeError"),
        ("def kernel(m):\n    return 1", "no kernel\n  where:    {}\n"),
        ("", "no kernel\n  where:    {}\n"),
        (PYTHON.replace("v_nop", "v_nopp"), "has no instruction 'v_nopp'\n  where:    {}:6\n"),
    ],
)  # fmt: skip
def test_python_files_that_fail(text, words, tmp_path, capfd):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert main(["asm", str(path)]) != 0
    out, err = capfd.readouterr()
    assert out == ""
    assert words.format(path) in err


def test_a_python_file_prints_and_imports_its_neighbour(tmp_path, capfd):
    pytest.importorskip("ziglang")
    (tmp_path / "neighbour_of_empty.py").write_text("NAME = 'v_nop'")
    path = tmp_path / "empty.py"
    path.write_text(
        "from neighbour_of_empty import NAME\nprint('made')\n" + PYTHON.replace('"v_nop"', "NAME")
    )
    assert main(["asm", str(path), "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["kernel"] == "empty"
    assert "made" in err


def test_complaints(file, tmp_path, capfd):
    assert main(["asm", str(file), "--machine", "gfx90a"]) == 2
    assert "thread_x" in capfd.readouterr().err
    assert main(["asm", str(file), "--machine", "sm_80"]) == 2
    assert main(["asm", str(tmp_path / "none.rws")]) == 2
