"""The page on assembly: its example runs and computes what it says."""

import re
from pathlib import Path

import pytest

from regweave.devices.cpu import chosen_machine

PAGE = Path(__file__).parents[2] / "docs" / "assembly.md"


@pytest.mark.skipif(chosen_machine() is None, reason="needs AVX2")
def test_the_example_runs(capsys):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    names: dict = {}
    exec(code[1], names)
    expected = (names["x"].reshape(4, -1) ** 2).sum(0)
    assert (names["out"] == expected).all()
    assert "acc   vector" in capsys.readouterr().out
