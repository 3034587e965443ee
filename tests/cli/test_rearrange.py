"""`regweave rearrange` as a person and as a script see it."""

import json
import re

import pytest

from regweave.cli import main
from regweave.layouts import to_document
from regweave.machines.catalogue import find_layout
from regweave.rearrangement import STRATEGIES

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"


def test_the_worked_example_is_drawn(capfd):
    assert main(["rearrange", C, A, "--machine", "sm_80", "--strategy", "direct"]) == 0
    out = capfd.readouterr().out
    for words in (
        "Fragments", "Group: lanes 0 1 2 3 x registers 0 1 2 3", "(0,0,0)*", "(2,1,2)  (2,3,3)",
        "f_0  =  0 2 1 3", "s_0  =  0 0 1 1", "exchange (direct) was asked for", "__shfl_sync",
    ):  # fmt: skip
        assert words in out


@pytest.mark.parametrize("verb", ["rearrange", "fuse"])
def test_help_names_every_strategy(verb, capfd):
    assert main([verb, "--help"]) == 0
    words = set(re.findall(r"[\w-]+", capfd.readouterr().out))
    assert {"auto", *STRATEGIES} <= words


def test_help_fills_the_width(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["rearrange", "--help"]) == 0
    lines = [line.strip("│ ").strip() for line in capfd.readouterr().out.splitlines()]
    at = lines.index("(mma.m16n8k8.tf32:C), another layout of the catalogue, a")
    assert lines[at + 1].startswith("pasted Triton attribute")


def test_json_is_one_document(capfd):
    assert main(["rearrange", C, A, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["strategy"], document["fold"]) == ("fold", [0, 2, 4, 6, 1, 3, 5, 7])


def test_a_layout_may_come_from_a_file(capfd, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(to_document(find_layout(C))))
    assert main(["rearrange", str(path), A, "--strategy", "lean", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["exchanges"] == 4


@pytest.mark.parametrize(
    ("arguments", "folds"),
    [
        (["--order-promised"], False),
        (["--other-operand-fixed"], False),
        (["--block", "4"], False),
        (["--work-between", "--tile", "16x16"], True),
    ],
)
def test_conditions(arguments, folds, capfd):
    assert main(["rearrange", C, A, *arguments, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["strategy"] == "fold") == folds
    assert not folds or document["instructions"] == 0


@pytest.mark.parametrize(
    ("destination", "without", "flag", "found"),
    [
        (A, ["--other-operand-fixed"], "--producer-free", ("fold", "left")),
        ("mma.m16n8k8.tf32:B", [], "--swap-allowed", ("swap", "producer")),
    ],
)
def test_what_the_product_before_may_do(destination, without, flag, found, capfd):
    for flags in ([], [flag]):
        assert main(["rearrange", C, destination, *without, *flags, "--json"]) == 0
        document = json.loads(capfd.readouterr().out)
        assert ((document["strategy"], document["form"]) == found) == bool(flags)


def test_the_next_operand(capfd):
    loaded = ["rearrange", C, A, "--next-operand", "shared:n", "--result-free", "--json"]
    assert main(loaded) == 0
    load = json.loads(capfd.readouterr().out)["next_load"]
    assert (load["place"], load["along"]) == ("shared", "n")
    assert main(["rearrange", C, A, "--next-operand", "global"]) == 0
    assert "neighbours along k: 2 loads of 8 bytes, " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([C, A, "--next-operand", "glob"], 2, "nearest:  global"),
        ([C, A, "--result-free"], 2, "--next-operand beside it"),
        ([C, "mma.m16n8k8.tf32:Q"], 2, "nearest:"),
        ([C, A, "--machine", "sm_8"], 2, "unknown machine 'sm_8'"),
        ([C, A, "--machine", "sm_75"], 3, "one of sm_80"),
        ([C, A, "--strategy", "identity"], 3, "does not apply"),
        ([C, A, "--strategy", "swop"], 2, "unknown strategy"),
        ([C], 2, "destination"),
        (["no-such.json", A], 2, "no-such.json"),
    ],
)
def test_failures(arguments, code, words, capfd):
    assert main(["rearrange", *arguments]) == code
    assert words.lower() in capfd.readouterr().err.lower()


@pytest.mark.parametrize("text", ["{", "[]", "{}", "\xff"])
def test_files_that_hold_no_layout(text, capfd, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    assert main(["rearrange", str(path), A]) == 2
    assert "error:" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * 100_000, "not a JSON document"),
        ('{"name": "a", "name": "b"}', "an object has one key twice"),
        ("\ufeff{}", "'name' is missing"),  # the mark in front is no text
    ],
)
def test_files_that_hold_no_document(capfd, tmp_path, text, complaint):
    file = tmp_path / "odd.json"
    file.write_text(text, encoding="utf-8")
    assert main(["rearrange", str(file), A]) == 2
    assert complaint in capfd.readouterr().err


def test_the_document_has_the_keys_that_programs_rely_on(capfd):
    assert main(["rearrange", C, A, "--strategy", "direct", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    keys = [
        *("source", "destination", "machine", "group", "strategy", "rounds", "exchanges", "selects"),
        *("byte_permutes", "lower_bound", "one_hop_minimum", "fold", "matrix", "expressions"),
        *("bank_conflicts", "verified", "code"),
    ]
    assert list(document)[: len(keys)] == keys
    assert document["group"] == {"lanes": [0, 1, 2, 3], "registers": [0, 1, 2, 3]}
    assert [*document["expressions"][0]] == ["f", "g", "h", "s"]
    assert (document["lower_bound"], document["bank_conflicts"], document["verified"]) == (4, 0, True)


@pytest.mark.parametrize(
    ("target", "words"), [("cuda", "__shfl_sync"), ("hip", "ds_bpermute"), ("opencl", "sub_group")]
)
def test_code_for_a_target(target, words, capfd):
    assert main(["rearrange", C, A, "--strategy", "direct", "--emit", target]) == 0
    code = capfd.readouterr().out
    assert code.startswith("// mma.m16n8k8.tf32:C")
    assert words in code
    assert main(["rearrange", C, A, "--strategy", "direct", "--emit", target, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["code"], document["language"]) == (code, target)


def test_files_for_other_builds(capfd, tmp_path):
    assert main(["rearrange", C, A, "--out", str(tmp_path / "seam")]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("wrote") == len([*(tmp_path / "seam").iterdir()]) == 7
    assert main(["rearrange", C, A, "--out", str(tmp_path / "seam"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["strategy"] == "fold"


def test_pasted_layouts_and_files(capfd, tmp_path):
    mma = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>"
    operand = f"#ttg.dot_op<{{opIdx = 0, parent = {mma}, kWidth = 1}}>"
    path = tmp_path / "operand.ttgir"
    path.write_text(f"#mma = {mma}\n#operand = {operand.replace(mma, '#mma')}\n")
    for destination in (f"{operand}@tf32", f"{path}@tf32"):
        assert main(["rearrange", f"{mma}@f32", destination, "--tile", "16x8", "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["fold"] == [0, 2, 4, 6, 1, 3, 5, 7]
    (tmp_path / "empty.ttgir").write_text("mma\n")
    assert main(["rearrange", C, str(tmp_path / "empty.ttgir")]) == 2
    assert "no layout" in capfd.readouterr().err


def test_the_machine_follows_from_the_names(capfd):
    assert main(["rearrange", "v_mfma_f64_16x16x4_f64:D^T", "v_mfma_f64_16x16x4_f64:A", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["machine"], document["language"], document["strategy"]) == ("gfx90a", "hip", "identity")


def test_a_plan_is_drawn_and_a_table_is_called_as_its_file(tmp_path, capfd):
    table, drawing = tmp_path / "board.csv", tmp_path / "plan.svg"
    table.write_text(find_layout(C).to_csv(), "utf-8")
    assert main(["rearrange", str(table), A, "--svg", str(drawing)]) == 0
    out, err = capfd.readouterr()
    assert (out, "drawn to" in err) == ("", True)
    text = drawing.read_text("utf-8")
    assert text.startswith("<svg ")
    assert "<title>board -&gt; mma.m16n8k8.tf32:A" in text
    table.write_text("name,mine\n" + find_layout(C).to_csv(), "utf-8")
    assert main(["layout", str(table)]) == 0
    assert capfd.readouterr().out.startswith("mine: 16 x 8")


def test_instructions_that_are_not_native_are_remarked_upon(capfd):
    s4 = "mma.m16n8k64.s4"
    assert main(["rearrange", f"{s4}:C@s4", f"{s4}:A", "--machine", "sm_90a"]) == 0
    assert f"{s4} is no instruction that sm_90a executes itself: from sm_90a on" in capfd.readouterr().out
    assert main(["rearrange", f"{s4}:C@s4", f"{s4}:A", "--machine", "sm_80"]) == 0
    assert "executes itself" not in capfd.readouterr().out
