"""The drawings of a rearrangement: golden text, documents that are JSON, SVG."""

import itertools
import json
import re
from colorsys import rgb_to_hls
from xml.etree import ElementTree

import pytest

from regweave import UnsupportedError, layout, rearrange
from regweave.layouts import Slot
from regweave.rearrangement import Conditions
from regweave.views.canvas import Canvas, lane_colour
from regweave.views.layout_svg import draw_layout, layout_svg, slot_name
from regweave.views.rearrangement_document import plan_document
from regweave.views.rearrangement_svg import plan_svg
from regweave.views.rearrangement_text import explanation_text, matrix_text, plan_text

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"

DRAWINGS = {
    "tf32_direct": lambda: rearrange(C, A, strategy="direct"),
    "tf32_auto": lambda: rearrange(C, A),
    "tf32_lean_16x32": lambda: rearrange(C, A, strategy="lean", tile="16x32"),
    "tf32_promised": lambda: rearrange(C, A, conditions=Conditions(order_promised=True)),
    "f16_identity": lambda: rearrange("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:A"),
    "f16_to_b": lambda: rearrange("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B"),
    "f16_refused": lambda: rearrange("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B", strategy="refuse"),
    "s8_exchange": lambda: rearrange("mma.m16n8k32.s8:C", "mma.m16n8k32.s8:A", strategy="exchange"),
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


def test_large_tiles_are_drawn_small_and_larger_ones_not_at_all():
    large = layout_svg(layout("mma.m16n8k16.f16:A", tile="64x64"))
    assert large.count("<title>(") == 4096
    assert ">L5<" in large  # in the legend
    assert ">r1.1<" not in large
    with pytest.raises(UnsupportedError, match=r"a drawing of 131072 elements.*CSV"):
        layout_svg(layout("mma.m16n8k8.tf32:C", tile="256x512"))
    assert layout("mma.m16n8k8.tf32:C", tile="256x512")._repr_svg_() is None


def test_a_layout_can_be_drawn_beside_another():
    canvas = Canvas("two")
    value = layout("mma.m16n8k8.tf32:B")
    draw_layout(canvas, value, 10, 20)
    right = canvas.right
    draw_layout(canvas, value, right + 10, 20)
    assert canvas.right == 2 * right
    assert ElementTree.fromstring(canvas.svg()).tag.endswith("svg")
    assert slot_name(value, Slot(0, 1, 0)) == "r1"


@pytest.mark.parametrize("name", DRAWINGS)
def test_plans_are_drawn(name):
    plan = DRAWINGS[name]()
    drawing = plan_svg(plan)
    assert drawing == plan.to_svg() == plan._repr_svg_()
    words = " ".join(ElementTree.fromstring(drawing).itertext())
    assert f"{plan.chosen.name}: {plan.chosen.reason}" in words
    assert ("round 0" in words) == (plan.chosen.matrix is not None)
    if plan.chosen.matrix is not None:
        entry = plan.chosen.matrix.rows[1][0]
        told = f"lane 1 takes word {entry.word} of lane {entry.peer} and keeps it as word {entry.keep}"
        assert told in words
    if plan.fold is not None:
        assert "0, 2, 4, 6, 1, 3, 5, 7" in words


def test_the_drawing_of_a_plan(golden):
    golden("plan_tf32_direct.svg", rearrange(C, A, strategy="direct").to_svg() + "\n")


def test_the_entries_of_many_lanes_and_words_stay_in_their_cells():
    plan = rearrange(
        "v_mfma_f32_32x32x8_f16:D", "v_mfma_f32_32x32x8_f16:A", machine="gfx942", strategy="direct"
    )
    boxes = re.findall(
        r'<rect x="[^"]*" y="[^"]*" width="([0-9.]+)".*?/><text [^>]*>([^<]* → [^<]*)', plan.to_svg()
    )
    assert max(len(words) for _, words in boxes) == len("L10 w10 → w10")
    assert all(float(wide) > 0.62 * 11 * len(words) for wide, words in boxes)  # letters of 11 pixels


def test_neighbouring_lanes_are_told_apart():
    hues = [360 * rgb_to_hls(*bytes.fromhex(lane_colour(lane)[1:]))[0] for lane in range(32)]
    assert min(abs(a - b) % 360 for a, b in itertools.pairwise(hues)) > 60
    assert lane_colour(0, 0) != lane_colour(0, 1)
