"""The page on assembly: its GPU kernel in Python and its text are one kernel."""

import re
from pathlib import Path

import pytest

from regweave.assembly.amd.text import parse_kernel
from regweave.machines.amd.assembly import GFX906

PAGE = Path(__file__).parents[3] / "docs" / "assembly.md"


def test_the_kernel_in_python_and_as_text(capsys):
    pytest.importorskip("ziglang")
    text = PAGE.read_text("utf-8")
    (code,) = re.findall(r"```python\n(from regweave\.assembly\.amd.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert "vectors=5" in capsys.readouterr().out
    (written,) = re.findall(r"```\n(kernel scale.*?)```", text, re.DOTALL)
    assert parse_kernel(written, GFX906).finish().text == names["kernel"].text
