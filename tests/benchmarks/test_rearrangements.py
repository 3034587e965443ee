"""Instructions of rearrangements: what is compared, what is missed, and that Triton does what was kept."""

import json
import sys

import pytest

from regweave import benchmarks
from regweave.benchmarks import ROWS, compare_rearrangements, rearrangements
from regweave.benchmarks.rearrangement_rows import Row
from regweave.benchmarks.triton_record import RECORDS, Counts, TritonRecord
from regweave.cli import main
from regweave.devices import cuda, hip
from regweave.errors import DeviceError, InputError
from regweave.views import plain, rearrangements_table

BY_NAME = {row.name: row for row in ROWS}
TF32 = BY_NAME["tf32 C -> A"]


@pytest.fixture
def compilers():
    """Skips without the compilers for both vendors' GPUs."""
    for device in (cuda, hip):
        reason = device.unsupported_reason()
        if reason is not None:
            pytest.skip(reason)


@pytest.fixture
def no_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "regweave.benchmarks.triton_peer", raising=False)


def test_rows_have_names_of_their_own_and_all_records_are_used():
    assert len(BY_NAME) == len(ROWS)
    assert [*BY_NAME] == [*RECORDS]
    assert [row.name for row in ROWS if row.record is None] == ["s4 C -> A"]
    assert BY_NAME["f16 C -> A, 8 contiguous k"].record == TritonRecord(Counts(6, 32, 0, 35), 11)
    assert [record.total for record in RECORDS.values() if record is not None][-4:] == [13, 60, 29, 38]


@pytest.mark.parametrize(
    ("counts", "other"),
    [
        ((0, -1, 2, 8), None),
        ((1.0, 0, 0, 1), None),
        ((True, 0, 0, 1), None),
        ((0, 0, 0, 8), 8),
        ((0, 0, 0, 8), -1),
        ((0, 0, 0, 8), 1.5),
    ],
)
def test_records_hold_together(counts, other):
    with pytest.raises(InputError, match="Triton's record"):
        TritonRecord(Counts(*counts), other)


def test_the_document(compilers, no_triton):
    names = "s8 32x32x16 D^T -> A", "f16 C -> A, 8 contiguous k"
    document = compare_rearrangements([TF32, *map(BY_NAME.__getitem__, names)])
    first, second, third = document["rows"]
    assert first["exchange"] | {"strategy": "", "total": 0} == {
        "strategy": "", "exchanges": 16, "selects": 32, "byte_permutes": 0, "total": 0,
    }  # fmt: skip
    assert 10 <= first["auto"]["total"] <= 64
    assert (third["auto"]["strategy"], third["auto"]["total"]) == ("shared (whole-warp)", 11)
    assert (second["machine"], second["exchange"]["exchanges"], second["exchange"]["selects"]) == (
        "gfx942",
        2,
        6,
    )
    assert second["auto"]["total"] <= 13
    assert document["reached"] is True
    assert document["triton"] is None
    assert "regweave[bench]" in document["missing"]["triton"]
    table = plain(rearrangements_table(document), width=200)
    assert "reached" in table
    assert "on record" in table
    assert "counted here" not in table


def test_what_is_missed_is_said():
    row = Row("r", "sm_80", "", "", "", 4, TritonRecord(Counts(4, 6, 8, 25), 20), transposes=True)
    assert rearrangements._missed(row, Counts(5, 10, 5, 30), Counts(4, 4, 4, 21)) == [
        "5 exchanges, not 4",
        "15 selects and byte permutes, not 14",
        "21 instructions, not 20",
        "15 selects and byte permutes beside the transposes",
    ]
    assert rearrangements._missed(row, Counts(4, 0, 0, 8), Counts(8, 0, 0, 20)) == []
    assert (
        rearrangements._missed(
            Row("r", "sm_80", "", "", "", None, None), Counts(9, 9, 9, 99), Counts(9, 9, 9, 99)
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "shuffled", "total"),
    [
        ("s8 C -> A", (4, 6), 25),
        ("f16 C -> A, 4 contiguous k", (8, 16), 33),
        ("f32 16x16x4 D^T -> A", (3, 16), None),
    ],
)
def test_triton_does_what_was_kept(name, shuffled, total, compilers):
    pytest.importorskip("triton", reason="needs the extra bench: pip install 'regweave[bench]'")
    (row,) = compare_rearrangements([BY_NAME[name]])["rows"]
    found = row["measured"]["shuffled"]
    assert (found["exchanges"], found["selects"]) == shuffled
    assert total is None or total - 1 <= found["total"] <= total  # the thread's number is not counted here


def test_without_compilers(monkeypatch):
    monkeypatch.setattr(cuda, "unsupported_reason", lambda: "no nvrtc")
    monkeypatch.setattr(hip, "unsupported_reason", lambda: "no clang")
    with pytest.raises(DeviceError, match="no nvrtc; no clang"):
        compare_rearrangements()


@pytest.mark.parametrize("reached", [True, False])
def test_the_verb(reached, monkeypatch, capfd, compilers, no_triton):
    suffix = "@f16" if reached else "@f16^T"
    row = Row("f16", "sm_80", f"mma.m16n8k16.f16:C{suffix}", "mma.m16n8k16.f16:A", "16x32", None,
              TritonRecord(Counts(0, 0, 0, 0)))  # fmt: skip
    monkeypatch.setattr(benchmarks, "ROWS", (row,))
    assert main(["bench", "rearrange", "--json"]) == (0 if reached else 1)
    document = json.loads(capfd.readouterr().out)
    assert document["reached"] is reached
    assert main(["bench", "rearrange", "--case", "f16"]) == (0 if reached else 1)
    streams = capfd.readouterr()
    assert ("reached" if reached else "instructions, not 0") in streams.out
    assert "without triton" in streams.err
    assert main(["bench", "rearrange", "--peer", "triton"]) == 2
    assert main(["bench", "rearrange", "--case", "f17"]) == 2
