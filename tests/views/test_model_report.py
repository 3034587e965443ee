"""The views of a report: what is in it must be seen, whatever the model's author wrote into it."""

import pytest
from rich.console import Console

from regweave.engine.report import PieceReport, Report, Shape
from regweave.views import report_page, report_table
from regweave.views.model_report import (
    error_words,
    name_of_nodes,
    reason_words,
    reasons_of,
    sections_of,
    shape_words,
    traffic_words,
)

FUSED = {
    "nodes": ["MatMul_1", "Add_1", "Relu_1", "MatMul_2"],
    "shape": {"m": 480, "widths": [120, 240, 120]},
    "activations": ["relu", None],
    "decision": "fused",
    "reason": "fused: saves 38 % of the traffic",
    "predicted": {"bytes_unfused": 1_200_000, "bytes_fused": 740_000},
    "measured": {"baseline_ms": 0.5, "fused_ms": 0.4, "speedup": 1.25},
    "max_abs_error": 2.1e-7,
    "max_rel_error": 3.0e-6,
}
REFUSED = {
    "nodes": ["Conv <b>1</b>", "[red]Conv 2"],
    "shape": {"m": None, "widths": [25088, 4096, 1000]},
    "activations": ["relu", None],
    "decision": "refused",
    "reason": "the weights do not fit the cache",
    "predicted": {"bytes_unfused": None, "bytes_fused": None},
    "measured": {"baseline_ms": None, "fused_ms": None, "speedup": None},
    "max_abs_error": None,
    "max_rel_error": None,
}
WHOLE = {
    "baseline_ms": 18.4,
    "fused_ms": 16.1,
    "speedup": 1.143,
    "max_abs_error": 1e-6,
    "max_rel_error": 1e-5,
}
REPORT = {"model": "recogniser.onnx", "threads": 2, "cascades": [FUSED, REFUSED], "whole": WHOLE}


def drawn(table, width=200):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()


def test_the_table_shows_every_candidate_and_the_whole_model():
    text = drawn(report_table(REPORT, every=True))
    for words in (
        "recogniser.onnx: 1 of 2 candidates fused, 2 threads",
        "MatMul_1 .. MatMul_2 (4)",
        "480 x 120-240-120",
        "M x 25088-4096-1000",
        "fused: saves 38 % of the traffic",
        "1.20 -> 0.74",
        "1.25x",
        "2.1e-07",
        "the weights do not fit the cache",
        "18.40 -> 16.10 ms",
        "1.14x",
        "[red]Conv 2",
    ):
        assert words in text


def test_how_much_runs_natively_is_a_line_and_what_does_not_another():
    native = {"nodes": 30, "of_nodes": 41, "pieces": 9, "regions": 2, "operators": 3, "time": 0.864}
    native |= {"left": {"Resize": 2, "Softmax": 1}}
    lines = (
        "natively: 30 of 41 nodes, 9 pieces (2 of them regions) in 3 operators, 86% of the time",
        "in onnxruntime, as optimised: 2 Resize, 1 Softmax",
    )
    for words in lines:
        assert words in drawn(report_table({**REPORT, "native": native}))
        assert words in report_page({**REPORT, "native": native})
    one = drawn(
        report_table({**REPORT, "native": {**native, "pieces": 1, "regions": 0, "operators": 1, "left": {}}})
    )
    assert "30 of 41 nodes, 1 piece in 1 operator, 86%" in one
    assert "in onnxruntime" not in one
    for nothing in (None, {**native, "nodes": 0, "pieces": 0}):
        assert "natively" not in drawn(report_table({**REPORT, "native": nothing}))


def test_a_report_without_candidates_or_measurements_is_shown_too():
    whole = dict.fromkeys(WHOLE)
    report = {"model": "m.onnx", "threads": 1, "cascades": [], "whole": whole}
    assert "0 of 0 candidates fused, 1 thread" in drawn(report_table(report))
    assert "No chain of matrix products" in report_page(report)


def test_medians_that_contradict_the_ratio_are_explained():
    drifted = {**WHOLE, "baseline_ms": 50.5, "fused_ms": 52.7, "speedup": 1.07}
    assert "50.50 -> 52.70 ms; disturbed" in drawn(report_table({**REPORT, "whole": drifted}))
    assert "disturbed" not in drawn(report_table({**REPORT, "whole": {**drifted, "fused_ms": 47.2}}))


def test_the_page_is_whole_and_escapes_names():
    page = report_page(REPORT)
    assert page.lstrip().startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "Conv &lt;b&gt;1&lt;/b&gt;" in page
    assert "<b>1</b>" not in page
    assert "1.25x" in page
    assert "http" not in page


def test_other_pieces_and_notes_are_told():
    single = {**FUSED, "kind": "single", "nodes": ["Conv_<9>"]}
    left = {**REFUSED, "kind": "elementwise", "nodes": ["Mul_1"]}
    notes = ["f16 nodes were left [to] onnxruntime"]
    report = {**REPORT, "others": [single, single, left], "notes": notes}
    text, page = drawn(report_table(report)), report_page(report)
    assert "single products" in text
    assert "2 of 2 run natively" in text
    assert "0 of 1 run natively" in text
    assert notes[0] in text
    assert notes[0] in page
    assert "Conv_&lt;9&gt;" in page


def test_seams_of_a_gpu_stand_below_the_reason():
    seams = [{"strategy": "fold", "reason": "only k is permuted"}]
    assert reason_words({**FUSED, "seams": seams}).endswith("seam 1: fold, only k is permuted")


@pytest.mark.parametrize(
    ("nodes", "words"), [(["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c"], "a .. c (3)")]
)
def test_names_of_nodes(nodes, words):
    assert name_of_nodes(nodes) == words


def test_missing_figures_are_left_empty():
    assert traffic_words({}) == ""
    assert error_words({"max_abs_error": None}) == ""
    assert error_words({"max_abs_error": 0.0, "max_rel_error": 0.0}) == "0.0e+00, 0.0e+00"
    assert shape_words({"widths": [1, 2]}) == "M x 1-2"
    assert shape_words({"m": 4, "widths": []}) == "not known"


def test_what_was_fused_stands_first_then_what_was_measured():
    slower = {**REFUSED, "nodes": ["slow"], "measured": {**FUSED["measured"], "speedup": 0.9}}
    costly = {**REFUSED, "nodes": ["costly"], "predicted": FUSED["predicted"]}
    cascades = [REFUSED, costly, slower, FUSED]
    assert sections_of(cascades) == [[FUSED], [slower], [costly], [REFUSED]]
    text = drawn(report_table({**REPORT, "cascades": cascades}, every=True))
    places = [text.index(words) for words in ("MatMul_1", "slow", "costly", "Conv <b>")]
    assert places == sorted(places)
    short = drawn(report_table({**REPORT, "cascades": cascades}))
    assert "costly" in short
    assert "Conv <b>" not in short
    assert "1 more" in short
    assert "1 of 4 candidates fused" in short


def test_reasons_of_one_kind_are_counted():
    reasons = (
        "Transpose 'a' moves rows and columns",
        "Conv 'c.1' mixes neighbouring pixels (kernel 3x3)",
        "its result 'x' has 2 readers: Conv 'c.2', Add 'a'",
        "Conv 'c.2' mixes neighbouring pixels (kernel 5x5)",
        "its result 'y' has 3 readers: [red]Mul 'm', Add 'a', Add 'b'",
        "Conv 'c.3' mixes neighbouring pixels (kernel 3x3)",
    )
    refused = [{**REFUSED, "reason": reason} for reason in reasons]
    assert reasons_of(refused) == [(3, reasons[1]), (2, reasons[2]), (1, reasons[0])]
    lines = [line.strip() for line in drawn(report_table({**REPORT, "cascades": refused})).splitlines()]
    assert f"3 x  {reasons[1]}" in lines
    assert f"2 x  {reasons[2]}" in lines


def test_a_report_draws_itself_in_a_prompt_and_in_a_notebook():
    piece = PieceReport(
        kind="chain",
        nodes=("A", "B"),
        shape=Shape(7, (3, 4, 5)),
        activations=(("relu",), ()),
        decision="refused",
        reason="0.2 kB saved: predicted 0.9x",
        predicted={"bytes_unfused": 500, "bytes_fused": 300},
    )
    report = Report("m.onnx", 1, (piece,), (), None, None, notes=("a remark",))
    text = str(report)
    assert "7 x 3-4-5" in text
    assert "refused: 0.2 kB saved" in text
    assert "a remark" in text
    assert all(len(line) <= 110 and line == line.rstrip() for line in text.split("\n"))
    assert "0.2 kB saved" in report._repr_html_()
