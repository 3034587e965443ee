"""The page on assembly: its GPU kernel in Python and its text are one kernel."""

import re
from pathlib import Path

import pytest

from regweave.assembly.amd import parse_kernel
from regweave.errors import AssemblyError, KernelError
from regweave.machines.amd.assembly import GFX906, GFX942

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


def test_the_first_kernel(tmp_path, monkeypatch):
    text = PAGE.read_text("utf-8")
    (written,) = re.findall(r"```\n(kernel saxpy.*?)```", text, re.DOTALL)
    (code,) = re.findall(r"```python\n(from pathlib.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("saxpy.rws").write_text(written)
    names: dict = {}
    exec(code, names)
    assert names["y"][999] == 2 * 999 + 1
    without = written.replace("v_cmp_gt_u32 vcc, a_n.1, i ", "v_cmp_gt_u32 vcc, 0x400, i ")
    Path("saxpy.rws").write_text(without)
    with pytest.raises(KernelError, match=r"global_load_dword xs.*outside of all buffers"):
        exec(code, {})
    with pytest.raises(AssemblyError, match=r"'thread_x'.*gfx942 has it in bits 0 to 9 of `thread`"):
        parse_kernel(written, GFX942)
    assert parse_kernel(written.replace("thread_x", "thread"), GFX942).finish().used["vector"] == 3
