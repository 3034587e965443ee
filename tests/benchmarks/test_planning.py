"""Planning times: which pairs there are, the document, the table."""

import json

import pytest

from regweave.benchmarks import planning, planning_rows, time_planning
from regweave.cli import main
from regweave.machines.catalogue import find_machine
from regweave.rearrangement.request import read_request
from regweave.views import plain, planning_table


def test_every_machine_with_matrix_instructions_has_a_row():
    rows = planning_rows()
    assert {"sm_80", "sm_90a", "gfx942", "gfx1200", planning.SAMPLE} <= set(rows)
    assert rows[-2:] == (planning.SAMPLE, planning.LARGEST)
    assert "x86" not in {find_machine(name).family for name in rows[:-2]}


def test_the_largest_pairs_are_of_the_catalogue():
    assert planning._pairs_of(planning.LARGEST) == list(planning.LARGEST_PAIRS)
    for pair in planning.LARGEST_PAIRS:
        request = read_request(pair.source, pair.destination, pair.machine, None)
        assert request.source.elements >= 1 << 16


def test_the_sample_is_the_same_every_time():
    first = planning._pairs_of(planning.SAMPLE)
    assert first == planning._pairs_of(planning.SAMPLE)
    assert len(set(first)) == len(first) == 500


def test_what_cannot_be_planned_is_left_out(monkeypatch):
    pairs = [
        planning.Pair("sm_80", "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"),
        planning.Pair("sm_80", "mma.m16n8k32.s8:C@s4", "mma.m16n8k32.s8:A"),
        planning.Pair("sm_80", "mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B"),
    ]
    monkeypatch.setattr(planning, "_pairs_of", lambda name: pairs)
    (row,) = time_planning(["sm_80"])["rows"]
    assert row["pairs"] == 2
    assert 0 < row["median_ms"] < row["largest_ms"]
    assert row["p95_ms"] <= row["largest_ms"]
    assert row["largest"] in map(str, pairs)


@pytest.mark.parametrize(
    ("name", "taken", "missed"),
    [
        ("sm_80", [0.001, 0.002, 0.1], []),
        ("sm_80", [0.001, 0.002, 0.101], ["1 of 3 take more than 100 ms"]),
        ("sm_80", [0.001, 0.011, 0.1], ["half take more than 10 ms"]),
        (planning.LARGEST, [0.05, 0.06, 0.1], []),
        (planning.LARGEST, [0.05, 0.2, 0.2], ["2 of 3 take more than 100 ms"]),
    ],
)
def test_what_takes_too_long_is_said(monkeypatch, name, taken, missed):
    pairs = [planning.Pair("sm_80", str(number), "A") for number in range(3)]
    monkeypatch.setattr(planning, "_pairs_of", lambda name: pairs)
    monkeypatch.setattr(planning, "_time", lambda pair: dict(zip(pairs, taken, strict=True)).get(pair, 0))
    document = time_planning([name])
    assert document["rows"][0]["missed"] == missed
    assert document["reached"] == (not missed)
    for words in missed:
        assert words in plain(planning_table(document), width=160)


def test_document_and_table(capfd):
    code = main(["bench", "planning", "--case", "gfx906", "--json"])
    document = json.loads(capfd.readouterr().out)
    assert code == (0 if document["reached"] else 1)
    assert [row["name"] for row in document["rows"]] == ["gfx906"]
    assert document["rows"][0]["largest"].endswith("on gfx906")
    assert "gfx906" in plain(planning_table(document), width=160)


@pytest.mark.parametrize("words", [["--case", "sm_7"], ["--peer", "numpy"]])
def test_odd_arguments(capfd, words):
    assert main(["bench", "planning", *words]) == 2
    assert words[0] in capfd.readouterr().err
