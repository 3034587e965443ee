"""Layouts on paper: text, CSV, documents, drawings."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from regweave import layout
from regweave.errors import InputError
from regweave.layouts import Layout, from_document, to_csv, to_document, to_text

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
    assert drawing.count("<rect ") == 256
    assert "(0, 9): lane 0 register 2 part 1" in drawing
    assert "script" not in drawing
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    twice = Layout("<twice>", (1, 1), "b32", [[0], [0]])._repr_svg_()
    assert "0.0+" in twice
    assert "&lt;twice&gt;" in twice
