"""docs/architecture.md and its drawing: what they name is there, the floors are those of the linter."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "regweave"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
DRAWING = (ROOT / "docs" / "architecture.svg").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE))))
def test_what_the_page_names_is_there(name):
    assert (PACKAGE / name).exists() or (ROOT / name).exists()


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
)
def test_files_that_pages_name_are_there(page):
    """From the library's folder, from the whole, or from the folder that the page is about."""
    places = (PACKAGE, ROOT, PACKAGE / page.stem)
    named = set(re.findall(r"`((?:[\w.]+/)+\w+\.(?:py|md|c))`", page.read_text("utf-8")))
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_drawing_shows_the_floors_that_the_linter_keeps():
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    floors = [layer.replace("regweave.", "").split(" | ") for layer in contract["layers"]]
    drawn: dict[str, list[str]] = {}
    for height, name in re.findall(r'y="(\d+)"><tspan class="name">(\w+)<', DRAWING):
        drawn.setdefault(height, []).append(name)
    assert [*drawn.values()] == floors


def test_every_folder_is_drawn():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(re.findall(r'class="name">(\w+)<', DRAWING))


@pytest.mark.parametrize(("kind", "heading"), [("conv", "## One Conv"), ("seam", "## One seam")])
def test_the_stops_of_a_journey_are_drawn_at_the_folders_that_its_list_names(kind, heading):
    journey = PAGE.split(heading)[1].split("\n## ")[0]
    steps = dict(re.findall(r"^(\d)\. (.*?)(?=^\d\. |^\n|\Z)", journey, re.DOTALL | re.MULTILINE))
    stops = re.findall(rf'<circle class="{kind}" cx="\d+" cy="(\d+)" r="10"/><text[^>]*>(\d)<', DRAWING)
    assert sorted(number for _, number in stops) == [*steps]
    for height, number in stops:
        floor = re.findall(rf'y="{int(height) + 5}"><tspan class="name">(\w+)<', DRAWING)
        assert any(f"`{name}/" in steps[number] for name in floor), (number, floor)


def _maps():
    for path in PACKAGE.glob("**/__init__.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names = set(re.findall(r"`([a-z]\w*[a-z0-9])`", ast.get_docstring(tree) or ""))
        if names:
            yield pytest.param(path.parent, names, id=str(path.parent.relative_to(PACKAGE)))


@pytest.mark.parametrize(("folder", "names"), [*_maps()])
def test_what_a_folders_words_name_is_in_it(folder, names):
    """Modules, folders, or names that it hands out; `pick` and `tbl` are instructions."""
    public = re.findall(r'"(\w+)"', (folder / "__init__.py").read_text("utf-8"))
    inside = {path.stem for path in folder.iterdir()}
    assert names - {*public} - inside - {"pick", "tbl"} == set()
