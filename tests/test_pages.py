"""The pages in docs/ that show commands and Python: the Python runs, and the commands print what is shown."""

import re
import shlex
from pathlib import Path

import pytest

from regweave.cli import main

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["convolution.md", "images.md", "layouts.md", "rearrangement.md"]


def blocks(kind):
    for page in PAGES:
        for number, block in enumerate(
            re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
        ):
            yield pytest.param(block, id=f"{page}-{number}")


@pytest.mark.parametrize("block", [*blocks("python")])
def test_python_runs(block):
    exec(compile(block, "docs", "exec"), {})


@pytest.mark.parametrize("block", [*blocks("console")])
def test_commands_print_what_is_shown(block, capfd):
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, shown = command.partition("\n")
        words = shlex.split(line)
        assert words[0] == "regweave"
        assert main(words[1:]) == 0, line
        printed = capfd.readouterr().out
        for part in shown.split("...\n"):
            assert part in printed


def test_every_key_of_the_document_is_explained():
    from regweave import rearrange

    page = (DOCS / "rearrangement.md").read_text("utf-8")
    document = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A").to_document()
    keys = [*document][: [*document].index("code") + 1]
    table = page.split("## The document")[1]
    assert [key for key in keys if f"`{key}`" not in table] == []
