"""Tables in terminals of any width: no column loses its words."""

import io

import pytest
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from regweave.machines.catalogue import find_machine
from regweave.views.catalogue import machine_document, machine_table, machines_document, machines_table
from regweave.views.model_report import report_table
from regweave.views.narrow import fitting
from regweave.views.plain import captured

CASCADE = {
    "nodes": ["MatMul.first", "Add.middle", "MatMul.last"],
    "decision": "fused",
    "reason": "1.47 MB of intermediates stay in the core's cache",
    "shape": {"m": 96, "widths": [96, 192, 96]},
    "predicted": {"bytes_unfused": 2_730_000, "bytes_fused": 1_250_000},
    "measured": {"speedup": 1.16},
    "max_abs_error": 2.3e-6,
    "max_rel_error": 3.5e-4,
}
WHOLE = {"baseline_ms": 2.0, "fused_ms": 1.6, "speedup": 1.25, "max_abs_error": 1e-6, "max_rel_error": 1e-5}
REPORT = {"model": "m.onnx", "threads": 1, "cascades": [CASCADE], "whole": WHOLE, "notes": ["a remark"]}


def shown(answer, width):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    return captured(console, fitting(console, answer))


@pytest.mark.parametrize("width", [40, 60, 80, 110, 160])
def test_a_report_keeps_its_words(width):
    text = shown(report_table(REPORT), width)
    for words in (
        "MatMul.first",
        "96-192-96",
        "2.73 -> 1.25",
        "1.16x",
        "2.3e-06",
        "rel",
        "1.25x",
        "a remark",
    ):
        assert words in text
    assert max(map(len, text.split("\n"))) <= width


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("name", ["gfx942", "sm_80", "avx512"])
def test_a_machine_keeps_its_columns(name, width):
    document = machine_document(find_machine(name))
    words = shown(machine_table(document), width).split()
    listed = [entry for entry in document["instructions"] if entry["support"] == "native"]
    assert words.count("native") >= bool(listed)
    assert {"operands"} <= {*words} or not listed
    assert listed == [] or listed[0]["name"] in words


@pytest.mark.parametrize("width", [40, 160])
def test_all_machines_are_named(width):
    document = machines_document()
    assert {machine["name"] for machine in document["machines"]} <= {
        *shown(machines_table(document), width).split()
    }


def test_what_is_no_table_stays():
    group = Group("first", Text("last"))
    assert shown(group, 40).split() == ["first", "last"]
    table = Table("name", "value")
    table.add_row("long", "words that may be broken anywhere")
    console = Console(file=io.StringIO(), width=40)
    assert fitting(console, table) is table
