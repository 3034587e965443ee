"""Kernels of two products compared: the document, the table, the command."""

import json

import pytest

from regweave.benchmarks import SEAM_CASES, compare_seams
from regweave.cli import main
from regweave.devices import cuda, hip
from regweave.errors import DeviceError
from regweave.views import plain, seams_table

compiler = pytest.mark.skipif(cuda.unsupported_reason() is not None, reason="needs the extra cuda")


def test_names_tell_cases_apart():
    assert len({case.name for case in SEAM_CASES}) == len(SEAM_CASES)


@compiler
def test_the_command(capfd):
    name = "mma.m16n8k8.tf32 -> A sm_80"
    assert main(["bench", "seams", "--case", name, "--json"]) == 0
    (row,) = json.loads(capfd.readouterr().out)["rows"]
    assert row["name"] == name
    assert row["instructions"]["fold"] < row["instructions"]["swap"] < row["instructions"]["exchange"]
    assert row["strategies"]["swap"] == "swap (consumer)"
    assert main(["bench", "seams", "--case", name]) == 0
    assert "reached" in capfd.readouterr().out
    assert main(["bench", "seams", "--case", "other"]) == 2
    assert main(["bench", "seams", "--peer", "numpy"]) == 2


def test_the_table_says_what_was_missed():
    row = {"name": "k", "instructions": {"fold": 9, "exchange": 8}, "exchanges": 4, "missed": ["fold"]}
    text = plain(seams_table({"rows": [row, row | {"exchanges": 0, "missed": []}]}), width=200)
    assert "fold takes more than exchange" in text
    assert "nothing is exchanged" in text


@pytest.mark.parametrize(("compiler", "machine"), [(cuda, "sm_80"), (hip, "gfx942")])
def test_without_a_compiler(monkeypatch, compiler, machine):
    monkeypatch.setattr(compiler, "unsupported_reason", lambda: "no compiler here")
    with pytest.raises(DeviceError, match="no compiler here"):
        compare_seams([case for case in SEAM_CASES if case.machine == machine])
