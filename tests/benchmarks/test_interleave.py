"""Turns: everyone gets one in every round, the order rotates, medians come out."""

import time

from regweave.benchmarks.interleave import interleaved_times


def test_every_runner_has_a_turn_in_every_round_and_the_order_rotates():
    calls = []
    runners = {name: (lambda name=name: (calls.append(name), time.sleep(0.011))) for name in "abc"}
    times = interleaved_times(runners, rounds=3)
    turns = calls[6:]  # after the two calls each that find out how long a turn is
    assert turns == list("aabbccbbccaaccaabb")
    assert set(times) == {"a", "b", "c"}
    assert all(10 < ms < 60 for ms in times.values())


def test_short_calls_are_repeated_within_a_turn():
    calls = []
    interleaved_times({"a": lambda: calls.append(1)}, rounds=1)
    assert len(calls) == 2 + 1 + 10


def test_progress_is_told():
    said = []
    interleaved_times({"a": lambda: None}, rounds=2, say=said.append)
    assert said == ["round 1 of 2", "round 2 of 2"]
