"""What the README promises: its commands run, its output is what they print, its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from regweave.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CONSOLE = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_python_example_runs(capsys):
    example = next(block for block in PYTHON if "regweave.cascade" in block)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    x, y = names["x"].astype("float64"), names["y"]
    for weight, bias in zip(names["weights"], names["biases"], strict=True):
        x = (x @ weight + bias).clip(0)
    assert abs(x - y).max() < 1e-4
    assert "64" in capsys.readouterr().out


def test_the_example_of_seams_runs(capsys):
    names = {}
    example = next(block for block in PYTHON if "chain_layouts" in block)
    exec(compile(example, "README.md", "exec"), names)
    assert "swap" in capsys.readouterr().out
    assert names["plan"].strategy == "exchange"
    assert "__shfl_sync" in names["code"]


def test_the_example_of_images_runs(capsys):
    example = next(block for block in PYTHON if "regweave.Conv2d" in block)
    exec(compile(example, "README.md", "exec"), {})
    assert "(1, 16, 240, 320) (480, 640, 1)" in capsys.readouterr().out


@pytest.mark.models
def test_the_model_example_runs(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    example = next(block for block in PYTHON if "regweave.fuse" in block)
    exec(compile(example, "README.md", "exec"), names)
    (output,) = names["outputs"].values()
    assert output.shape[:2] == (1, 40)
    assert "baseline_ms" in capsys.readouterr().out
    assert (tmp_path / "fused" / "report.html").exists()


@pytest.mark.parametrize(
    ("command", "output"), [pair for pair in CONSOLE if pair[0].split()[1] in ("rearrange", "layout")]
)
def test_the_drawing_is_what_the_command_prints(command, output, capfd):
    words = shlex.split(command)
    assert words[0] == "regweave"
    assert main(words[1:]) == 0
    printed = capfd.readouterr().out
    for part in output.split("...\n"):
        assert part.strip("\n") in printed


@pytest.mark.parametrize(("command", "output"), CONSOLE)
def test_every_command_is_understood(command, output, capfd):
    words = shlex.split(command)
    flags = [word for word in words[2:] if word.startswith("--")]
    assert main([words[1], "--help"]) == 0
    known = capfd.readouterr().out
    assert [flag for flag in flags if flag not in known] == []


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"`?make ([a-z]+)", README + (ROOT / "CONTRIBUTING.md").read_text("utf-8")):
        assert f"\n{target}:" in makefile, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_has_a_place_on_the_site():
    places = re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert sorted(places) == sorted({"index.md", "CONTRIBUTING.md", "CHANGELOG.md", *pages})


def test_folders_that_are_named_exist():
    folders = re.findall(r"`([a-z]+)/`", README + (ROOT / "docs/architecture.md").read_text("utf-8"))
    assert [folder for folder in set(folders) if not (ROOT / "src/regweave" / folder).is_dir()] == []
