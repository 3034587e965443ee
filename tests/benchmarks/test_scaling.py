"""Large images beside small ones: the document, the limit, the table, with tiny images and given times."""

import json

import numpy as np
import pytest

from regweave import InputError, VerificationError, benchmarks
from regweave.benchmarks import SCALED, bounds, same_size_case, scaling, time_scaling
from regweave.cli import main
from regweave.devices import cpu
from regweave.views import plain, scaling_table

TINY = (same_size_case(1, 1, 3, 256, 256), same_size_case(3, 2, 5, 128, 256))


def given(monkeypatch, same, apart, large, copies):
    """Every turn is done once, then takes these milliseconds."""
    times = {"same": same, "apart": apart, "large": large, "copy same": copies[0], "copy large": copies[1]}

    def interleaved(runners, **settings):
        for run in runners.values():
            run()
        return {name: times[name] for name in runners}

    monkeypatch.setattr(scaling, "interleaved_times", interleaved)


def test_the_cases_are_of_64_megapixels_and_fit_memory():
    assert {case.convolution.image_shape[2:] for case in SCALED} == {(8192, 8192)}
    assert {scaling._part(case).out_shape[2:] for case in SCALED} == {(1024, 1024)}
    assert max(2 * scaling._bytes(case) for case in SCALED) < 3.3e9
    assert "3x3 2->1 8192x8192" in [case.name for case in SCALED]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_document(threads):
    document = time_scaling(TINY, threads=threads, rounds=1)
    assert [row["name"] for row in document["rows"]] == [case.name for case in TINY]
    for row in document["rows"]:
        ours, copy = row["ours_ns"], row["copy_ns"]
        assert min(*ours.values(), *copy.values()) > 0
        assert row["ratio"] == ours["large"] / ours["same"]
        assert row["ratio_apart"] == ours["large"] / ours["apart"]
        assert row["copy_ratio"] == copy["large"] / copy["same"]
        assert bool(row["missed"]) == (row["ratio"] > document["limit"] == 1.15)
    assert document["reached"] == (not any(row["missed"] for row in document["rows"]))


@pytest.mark.parametrize(
    ("large", "copies", "words"),
    [
        (1.1, (0.5, 0.5), "reached"),
        (1.1, (0.5, 0.6), "reached; a copy exceeds 1.15"),
        (1.2, (0.5, 0.5), "missed"),
        (1.2, (0.5, 0.6), "missed; a copy exceeds 1.15"),
    ],
)
def test_the_limit_and_what_a_copy_makes_of_it(monkeypatch, large, copies, words):
    given(monkeypatch, 1.0, 1.05, large, copies)
    document = time_scaling(TINY[:1])
    (row,) = document["rows"]
    assert row["ours_ns"]["large"] == pytest.approx(large * 1e6 / 256**2)
    assert document["reached"] == (words.startswith("reached")) == (row["missed"] == [])
    assert row["copy_exceeds"] == ("copy" in words)
    (line,) = [line for line in plain(scaling_table(document), width=200).splitlines() if row["name"] in line]
    assert words in line
    assert ("a copy" in line) == row["copy_exceeds"]


def test_turns_are_of_as_many_pixels(monkeypatch):
    seen = []

    class Layer(scaling.Conv2d):
        def __call__(self, x, **out):
            seen.append(x.ctypes.data)
            return super().__call__(x, **out)

    monkeypatch.setattr(scaling, "Conv2d", Layer)
    turns = scaling._convolutions(TINY[1], 1)
    calls = {}
    for name, run in turns.items():
        seen.clear()
        run()
        calls[name] = (len(seen), len(set(seen)))
    assert calls == {"same": (64, 1), "apart": (64, 64), "large": (1, 1)}


@pytest.mark.parametrize("place", [0, (0, 1, 70, 200)])
def test_a_wrong_result_is_a_failed_check(monkeypatch, place):
    class Wrong(scaling.Conv2d):
        def __call__(self, x, **out):
            y = super().__call__(x, **out)
            if place == 0 or x.shape[-1] == 256:
                y[place] += 1
            return y

    monkeypatch.setattr(scaling, "Conv2d", Wrong)
    with pytest.raises(VerificationError, match="wrong"):
        time_scaling(TINY[1:], rounds=1)


def test_memory_that_is_not_there(monkeypatch):
    monkeypatch.setattr(scaling, "free_memory", lambda: 1 << 30)
    with pytest.raises(InputError, match=r"3\.2 GB") as caught:
        time_scaling([case for case in SCALED if case.name.startswith("3x3 3->3")])
    assert "1.1 GB" in str(caught.value)


@pytest.mark.parametrize("times", [1, 3])
def test_copies_copy(times):
    blocks = [(np.arange(512, dtype=np.uint16).view(np.uint8), bounds.written_block(1024)) for _ in range(2)]
    for run in bounds.copy_runners(cpu.chosen_machine(), blocks, times):
        for _, target in blocks:
            target.fill(0)
        run()
        assert all(np.array_equal(source, target) for source, target in blocks)


@pytest.mark.parametrize(("large", "code"), [(1.0, 0), (1.2, 1)])
def test_the_command(monkeypatch, capfd, large, code):
    given(monkeypatch, 1.0, 1.0, large, (1.0, 1.0))
    monkeypatch.setattr(benchmarks, "SCALED", TINY)
    words = ["bench", "conv", "--scaling", "--case", TINY[0].name]
    assert main([*words, "--json"]) == code
    document = json.loads(capfd.readouterr().out)
    assert [row["name"] for row in document["rows"]] == [TINY[0].name]
    assert main(words) == code
    assert TINY[0].name in capfd.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["gemm"],
        ["conv", "--order", "nhwc"],
        ["conv", "--opencl"],
        ["conv", "--model", "PP-OCRv6_det_small"],
    ],
)
def test_where_there_is_no_such_thing(words, capfd):
    assert main(["bench", *words, "--scaling"]) == 2
    assert "--scaling" in capfd.readouterr().err


@pytest.mark.parametrize("words", [["--peer", "torch"], ["--case", "3x3 1->1 1024x1024"], ["--rounds", "0"]])
def test_odd_arguments(words, capfd):
    assert main(["bench", "conv", "--scaling", *words]) == 2
    assert words[0] in capfd.readouterr().err
