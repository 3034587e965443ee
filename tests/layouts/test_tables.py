"""Layouts on paper: text, CSV, documents, drawings."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from regweave import layout
from regweave.errors import InputError
from regweave.layouts import (
    Layout,
    from_csv,
    from_document,
    from_markdown,
    to_csv,
    to_cute,
    to_document,
    to_markdown,
    to_text,
    to_triton,
)
from regweave.machines.notations import read_notation

ODD = Layout("odd", (2, 3), "b16", np.array([[5, 1, 3], [0, 4, 2]]))


def test_text_and_csv(golden):
    golden("a_tf32.txt", to_text(layout("mma.m16n8k8.tf32:A")) + "\n")
    assert str(ODD).splitlines()[1] == "   0  (1,2)  (0,1)  (1,0)"
    assert to_csv(ODD).splitlines()[:4] == [
        "lane,register,part,row,column", "0,0,0,1,2", "0,0,1,0,1", "0,1,0,1,0",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [ODD, layout("mma.m16n8k16.f16:B"), layout("mma.m16n8k8.tf32:C")])
def test_documents_read_back(value):
    document = json.loads(json.dumps(to_document(value)))
    again = from_document(document)
    assert again == value
    assert (again.name, again.axes) == (value.name, value.axes)
    assert ("lane" in document) == (value.basis is not None)


@pytest.mark.parametrize(
    "value",
    [
        ODD,
        layout("mma.m16n8k16.f16:B"),
        layout("mma.m16n8k8.tf32:C"),
        Layout("wide", (2, 2), "f64", [[0, 1], [2, 3]]),
        Layout("nibbles", (2, 8), "s4", [[*range(8)], [*range(8, 16)]]),
        Layout("twice", (1, 2), "f32", [[0, 1], [0, 1], [1, 0]]),
        Layout("half full", (1, 3), "f16", [[0, 1, 2]]),
    ],
    ids=lambda value: value.name,
)
def test_tables_read_back(value):
    kind = "b64" if value.name == "wide" else f"b{value.element_type.bits}"
    for again in (from_csv(to_csv(value)), from_markdown(to_markdown(value))):
        assert again == value.retype(kind)
    assert read_notation(value.to_csv()) == read_notation(value.to_markdown()) == value.retype(kind)
    assert read_notation(json.dumps(value.to_document())) == value


def test_markdown(golden):
    golden("b_f16.md", layout("mma.m16n8k16.f16:B").to_markdown())


def test_methods_are_the_functions():
    value = layout("mma.m16n8k16.f16:A")
    assert (value.to_triton(), value.to_cute()) == (to_triton(value), to_cute(value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lane,register,row,column\n0,0,0,0\n", "names other columns.*table, line 1"),
        ("lane,register,part,row,column\n", "a table without slots"),
        ("lane,register,part,row,column\n0,0,0,0\n", "is no slot.*line 2"),
        ("lane,register,part,row,column\n0,0,0,0,-1\n", "is no slot"),
        ("lane,register,part,row,column\n0,0,0,0,0\n0,0,0,0,1\n", "again.*line 3"),
        (
            "lane,register,part,row,column\n0,0,0,0,0\n0,1,0,0,1\n1,0,0,0,0\n",
            "nothing is said of lane 1 register 1",
        ),
        ("lane,register,part,row,column\n0,1,0,0,0\n", "nothing is said of lane 0 register 0"),
        ("lane,register,part,row,column\n0,0,0,0,0\n0,0,32,0,1\n", "33 parts to a register"),
        (
            "lane,register,part,row,column\n0,0,0,0,0\n0,0,2,0,1\n",
            "nothing is said of lane 0 register 0 part 1",
        ),
        ("lane,register,part,row,column\n0,0,0,0,1\n", "no slot holds"),
        ("| lane | r0 |\n", "not a table of lanes"),
        ("| lane | x0 |\n|---|---|\n| 0 | (0,0) |\n", "a column 'x0'"),
        ("| lane | r0 |\n|---|---|\n| a | (0,0) |\n", "a row of lane 'a'"),
        ("| lane | r0 |\n|---|---|\n| 0 | (0;0) |\n", "is no element.*line 3, r0"),
        ("| lane | r0 | r1 |\n|---|---|---|\n| 0 | (0,0) |\n", "with 1 elements"),
    ],
)
def test_other_tables_are_refused(text, words):
    with pytest.raises(InputError, match=f"(?s){words}"):
        read_notation(text)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "'name' is missing"),
        ({"name": "x", "dtype": "b32", "shape": [1, 2], "elements": [[[0, 0]]]}, "no slot holds"),
        ({"name": "x", "dtype": "b32", "shape": [1], "elements": []}, "no pair of whole numbers"),
        (
            {"name": "x", "dtype": "b32", "shape": [1, 2], "lane": [[0]], "item": []},
            "no pair of whole numbers",
        ),
    ],
)
def test_other_documents_are_refused(document, words):
    with pytest.raises(InputError, match=words):
        from_document(document)


def test_a_notebook_shows_the_drawing():
    drawing = layout("mma.m16n8k16.f16:A")._repr_svg_()
    assert drawing.startswith("<svg ")
    assert drawing == layout("mma.m16n8k16.f16:A").to_svg()
    assert drawing.count("<rect ") == 256 + 8 + 1  # elements, lanes in the legend, background
    assert "(0, 9): lane 0 r2.1" in drawing
    assert "script" not in drawing
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    twice = Layout("<twice>", (1, 1), "b32", [[0], [0]])._repr_svg_()
    assert "(0, 0): lane 0 r0; lane 1 r0" in twice
    assert ">r0+<" in twice
    assert "&lt;twice&gt;" in twice
