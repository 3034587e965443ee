"""`regweave layout` as a person and as a script see it."""

import json
from xml.etree import ElementTree

import pytest

from regweave.cli import main
from regweave.machines.catalogue import find_layout

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k16.f16:A"
CUTE = "((4,8),(2,2)):((32,1),(16,8))"


def told(capfd, *arguments):
    assert main(["layout", *arguments]) == 0
    return capfd.readouterr().out


def test_the_table(capfd):
    lines = told(capfd, C).splitlines()
    assert lines[0] == f"{C}: 16 x 8 (m x n) f32, 32 lanes x 4 registers"
    assert lines[2] == "lane  r0     r1     r2      r3"
    assert lines[4] == "   1  (0,2)  (0,3)  (8,2)   (8,3)"


def test_who_holds_an_element(capfd):
    assert told(capfd, C, "--where", "9", "2") == "lane 5 register 2\n"
    assert told(capfd, A, "--where", "1", "11") == "lane 5 register 2 part 1\n"
    document = json.loads(told(capfd, C, "--where", "9", "2", "--json"))
    assert document == {"layout": C, "element": [9, 2], "slots": [{"lane": 5, "register": 2, "part": 0}]}
    twice = told(capfd, "v_wmma_f32_16x16x16_f16:A", "--where", "3", "4")
    assert twice == "lane 3 register 2\nlane 19 register 2\n"


def test_what_a_slot_holds(capfd):
    assert told(capfd, C, "--slot", "5", "2") == "(9, 2)\n"
    assert told(capfd, A, "--slot", "5", "2") == "(1, 10) in part 0\n(1, 11) in part 1\n"
    document = json.loads(told(capfd, A, "--slot", "5", "2", "--json"))
    assert document["elements"] == [[1, 10], [1, 11]]
    wide = "mma.m8n8k4.f64:C"
    assert told(capfd, wide, "--slot", "0", "2") == told(capfd, wide, "--slot", "0", "3")


def test_notations(capfd):
    layout = find_layout(C)
    assert told(capfd, C, "--csv") == layout.to_csv()
    assert told(capfd, C, "--markdown") == layout.to_markdown()
    assert told(capfd, C, "--cute") == CUTE + "\n"
    assert told(capfd, CUTE, "--tile", "16x8", "--triton") == layout.to_triton() + "\n"
    document = json.loads(told(capfd, C, "--json"))
    sizes = {"lanes": 32, "items": 4, "registers": 4, "bijective": True}
    assert document == {**json.loads(json.dumps(layout.to_document())), **sizes}


@pytest.mark.parametrize("name", [C, "mma.m16n8k16.f16:A", "v_wmma_f32_16x16x16_f16:B", "mma.m8n8k4.f64:C"])
def test_the_tile_with_its_slots(name, capfd):
    layout = find_layout(name)
    heading, *rows = [line.split(",") for line in told(capfd, name, "--matrix", "--csv").splitlines()]
    assert heading == ["\\".join(layout.axes), *map(str, range(layout.shape[1]))]
    assert [row[0] for row in rows] == [str(row) for row in range(layout.shape[0])]
    packed = layout.element_type.per_register > 1
    for row, column in ((0, 0), (3, 5), (layout.shape[0] - 1, layout.shape[1] - 1)):
        row, column = min(row, layout.shape[0] - 1), min(column, layout.shape[1] - 1)
        own = [f"{s.lane}:r{s.register}" + f".{s.part}" * packed for s in layout.slots(row, column)]
        assert sorted(rows[row][column + 1].split()) == sorted(own)


def test_tables_of_every_form(capfd):
    text = told(capfd, C, "--matrix").splitlines()
    assert text[0].startswith(f"{C}: 16 x 8")
    assert text[2].split() == ["m\\n", *"01234567"]
    assert told(capfd, C, "--matrix", "--markdown").splitlines()[:3] == [
        "| m\\n | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |",
        "| --: | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| 0 | 0:r0 | 0:r1 | 1:r0 | 1:r1 | 2:r0 | 2:r1 | 3:r0 | 3:r1 |",
    ]
    adoc = told(capfd, C, "--asciidoc").splitlines()
    assert adoc[:5] == ["[%header]", "|===", "|lane |r0 |r1 |r2 |r3", "", "|0 |(0,0) |(0,1) |(8,0) |(8,1)"]
    assert adoc[-1] == "|==="
    for other in ("--json", "--triton"):
        assert main(["layout", C, "--matrix", other]) == 2
        assert "ask for different answers" in capfd.readouterr().err


def test_cells_with_commas_are_quoted():
    from regweave.views.layout_grid import as_csv, slot_cells

    assert as_csv(slot_cells(find_layout(C))).splitlines()[1] == '0,"(0,0)","(0,1)","(8,0)","(8,1)"'


@pytest.mark.parametrize("name", [C, "mma.m16n8k16.f16:A", "v_wmma_f32_16x16x16_f16:A"])
@pytest.mark.parametrize(("flag", "ending"), [("--json", "json"), ("--csv", "csv"), ("--markdown", "md")])
def test_what_is_printed_can_be_read(name, flag, ending, capfd, tmp_path):
    (tmp_path / f"own.{ending}").write_text(told(capfd, name, flag))
    again = json.loads(told(capfd, str(tmp_path / f"own.{ending}"), "--json"))
    printed = json.loads(told(capfd, name, "--json"))
    for key in ("shape", "lane", "item", "lanes", "items", "registers", "bijective"):
        assert again[key] == printed[key]


@pytest.mark.parametrize("ending", ["csv", "md", "json", "ttgir", "cute"])
def test_files(ending, capfd, tmp_path):
    layout = find_layout(C)
    written = {
        "csv": layout.to_csv,
        "md": layout.to_markdown,
        "json": lambda: json.dumps(layout.to_document()),
        "ttgir": layout.to_triton,
        "cute": layout.to_cute,
    }[ending]
    path = tmp_path / f"mine.{ending}"
    path.write_text(written() + "\n")
    assert told(capfd, f"{path}@f32^T", "--tile", "8x16", "--csv") == layout.transpose().to_csv()


def test_a_file_of_a_user_s_own_machine(capfd, tmp_path):
    path = tmp_path / "board.toml"
    path.write_text(
        '[layouts.board]\ntile = [4, 4]\ntype = "f32"\nlane = [[0, 1], [0, 2]]\nitem = [[1, 0], [2, 0]]\n'
    )
    assert told(capfd, f"{path}:board", "--where", "3", "1") == "lane 1 register 3\n"


def test_drawings(capfd, tmp_path):
    path = tmp_path / "c.svg"
    assert main(["layout", C, "--svg", str(path)]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert str(path) in err.replace("\n", "")
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert "lane" in told(capfd, C, "--svg", str(path), "--where", "0", "0")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["mma.m16n8k8.tf32:E"], 2, "nearest:"),
        ([C, "--where", "16", "0"], 2, "no element (16, 0)"),
        ([C, "--slot", "0", "4"], 2, "no slot (lane 0, register 4"),
        ([C, "--csv", "--cute"], 2, "ask for different answers"),
        ([C, "--csv", "--json"], 2, "ask for different answers"),
        ([C, "--tile", "17x8"], 2, "does not fill"),
        ([C, "--machine", "sm_75"], 3, "sm_75 has no"),
        ([CUTE], 2, "how large its tile is"),
        (["missing.csv"], 2, "missing.csv"),
        ([C, "--svg", "/no/such/folder/x.svg"], 2, "/no/such/folder"),
        (["#ttg.blocked<{order = [1, 0]}>"], 2, "line 1, column 1"),
    ],
)
def test_failures(arguments, code, words, capfd):
    assert main(["layout", *arguments]) == code
    out, err = capfd.readouterr()
    assert words in err.replace("\n", " ")
    assert (out == "") == ("--json" not in arguments)


def test_files_that_are_no_text(capfd, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(b"\xff\xfe")
    assert main(["layout", str(path)]) == 2
    assert "not a text" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", ("'folder' is a folder, not a layout", ".csv, .md", "name a file in it")),
        ("./folder", ("'./folder' is a folder, not a layout",)),
        ("folder.json", ("a folder, not a file", "name a file in it")),
        ("table", ("'table' is a file, not a layout", ".csv, .md", "give its name one of these endings")),
        ("tabel.csv", ("No such file", "nearest:  table.csv")),
        ("own.toml", ("no layout of own.toml is named", "write it like own.toml:board")),
        ("onw.toml:board", ("cannot read onw.toml: No such file", "nearest:  own.toml")),
        ("folder.toml:board", ("cannot read folder.toml: a folder, not a file", "nearest:  own.toml")),
        ("mma.m16n8k8", ("nearest:  mma.m16n8k8.",)),
        ("v", ("unknown layout 'v'", "nearest:  v_")),
    ],
)
def test_names_that_stand_on_the_disk_or_nearly(name, words, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("folder", "folder.json", "folder.toml"):
        (tmp_path / folder).mkdir()
    for file in ("table", "table.csv"):
        (tmp_path / file).write_text(find_layout(C).to_csv())
    (tmp_path / "own.toml").write_text(
        '[layouts.board]\ntile = [1, 2]\ntype = "f32"\nlane = []\nitem = [[0, 1]]\n'
    )
    assert main(["layout", name]) == 2
    complaint = capfd.readouterr().err
    assert [word for word in words if word not in complaint] == []


def test_a_name_wins_over_a_file_that_is_called_so(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / C).touch()
    assert told(capfd, C).startswith(f"{C}: 16 x 8")
