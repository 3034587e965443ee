"""The drawings of a rearrangement: golden text, documents that are JSON, SVG."""

import json

import pytest

from regweave import layout, rearrange
from regweave.rearrangement import Conditions
from regweave.views.rearrangement_document import plan_document
from regweave.views.rearrangement_svg import layout_svg
from regweave.views.rearrangement_text import explanation_text, matrix_text, plan_text

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"

DRAWINGS = {
    "tf32_direct": lambda: rearrange(C, A, strategy="direct"),
    "tf32_auto": lambda: rearrange(C, A),
    "tf32_lean_16x32": lambda: rearrange(C, A, strategy="lean", tile="16x32"),
    "f16_identity": lambda: rearrange("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:A"),
    "f16_refused": lambda: rearrange("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B"),
    "tf32_promised": lambda: rearrange(C, A, conditions=Conditions(order_promised=True)),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings(name, golden):
    plan = DRAWINGS[name]()
    golden(f"rearrangement_{name}.txt", plan.draw())
    assert str(plan) == plan_text(plan)


def test_the_drawing_marks_conflicts():
    plan = rearrange(C, A, strategy="direct")
    text = matrix_text(plan.preliminary)
    assert text.splitlines()[1] == "lane 1  (0,1,0)*  (0,3,1)*  (2,1,2)*  (2,3,3)*"
    assert "*" not in matrix_text(plan.matrix)


def test_words_that_stay_are_listed():
    from regweave.layouts import Layout

    square = [[0, 1], [2, 3]]
    turned = [[0, 2], [1, 3]]
    plan = rearrange(Layout("s", (2, 2), "b32", square), Layout("d", (2, 2), "b32", turned), strategy="lean")
    text = matrix_text(plan.matrix)
    assert "lane 0 keeps word 0 as its word 0" in text
    assert explanation_text(plan) == plan.explain()


@pytest.mark.parametrize("name", DRAWINGS)
def test_documents(name):
    plan = DRAWINGS[name]()
    document = json.loads(json.dumps(plan.to_document()))
    assert document == plan_document(plan)
    assert document["strategy"] == plan.strategy
    assert document["verified"] == plan.chosen.applies == (document["code"] is not None)


def test_the_document_of_the_worked_example():
    document = rearrange(C, A, strategy="direct").to_document()
    assert document["group"]["lanes"] == document["group"]["registers"] == [0, 1, 2, 3]
    assert document["matrix"][0] == [[0, 0, 0], [0, 2, 1], [2, 0, 2], [2, 2, 3]]
    assert (document["rounds"], document["exchanges"], document["selects"]) == (4, 4, 8)
    assert document["fold"] is None
    assert document["expressions"][0]["s"] == "(lane >> 1) & 1"
    assert rearrange(C, A).to_document()["fold"] == [0, 2, 4, 6, 1, 3, 5, 7]


def test_the_svg(golden):
    golden("layout_tf32_b.svg", layout_svg(layout("mma.m16n8k8.tf32:B")) + "\n")
