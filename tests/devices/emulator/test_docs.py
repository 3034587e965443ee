"""The page on the emulator: its examples run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "emulator.md"


def test_the_examples(capsys):
    pytest.importorskip("ziglang")
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(first, "docs", "exec"), {})
    printed = capsys.readouterr().out
    assert "global_load_dword value, at, base" in printed
    assert "byte 240 of 'x', which has 240" in printed
    names: dict = {}
    exec(compile(second, "docs", "exec"), names)
    assert names["moved"].shape == (64, names["plan"].chosen.program.destination.words)
