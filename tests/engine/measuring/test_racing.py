"""Who won a race: an interruption decides nothing, and where two measures disagree nobody has."""

import pytest

from regweave.engine.measuring.racing import CLEAR, Race, race


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1.0, 1.0, 1.0], [0.9, 0.9, 0.9], True),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], True),
        ([1.0, 1.0, 1.0], [1.03, 1.02, 1.03], False),
        ([1.0, 9.0, 1.0], [1.03, 1.03, 1.03], False),
        ([1.0, 2.0, 2.0], [1.1, 1.5, 1.5], None),
        ([1.0, 1.0, 1.0], [0.9, 1.1, 1.1], None),
    ],
)
def test_a_winner_has_the_shortest_time_and_the_better_median(before, after, verdict):
    assert Race({"before": before, "after": after}).is_faster("before", "after") is verdict


def test_times_and_ratio_are_of_one_round():
    result = Race({"before": [1.0, 4.0, 3.0, 9.0], "after": [1.0, 2.0, 2.0, 1.0]})
    assert result.typical("before", "after") == (3.0, 2.0)
    assert result.ratio("before", "after") == 1.5


def test_a_win_may_have_to_be_large():
    result = Race({"before": [1.0, 1.0], "after": [0.995, 0.995]})
    assert result.is_faster("before", "after", 1.0) is True
    assert result.is_faster("before", "after", 1.01) is False


def test_a_race_is_clear_when_all_rounds_agree():
    assert Race({"a": [1.0, 1.1], "b": [0.9, 1.0]}).is_clear("a", "b")
    assert Race({"a": [1.0, 1.1], "b": [1.1, 1.2]}).is_clear("a", "b")
    assert not Race({"a": [1.0, 1.0], "b": [0.9, 1.2]}).is_clear("a", "b")
    assert not Race({"a": [1.0, 1.0], "b": [0.9, 0.995]}).is_clear("a", "b", 1.01)


def test_a_race_ends_once_it_is_enough():
    asked = []

    def enough(result):
        asked.append(len(result.times["a"]))
        return asked[-1] == CLEAR + 1

    result = race({"a": lambda: None, "b": lambda: None}, enough=enough)
    assert asked == [CLEAR, CLEAR + 1]
    assert len(result.times["a"]) == CLEAR + 1


def test_races_can_be_joined():
    first, second = Race({"a": [1.0], "b": [2.0]}), Race({"a": [3.0], "b": [1.0]})
    assert first.joined(second).times == {"a": [1.0, 3.0], "b": [2.0, 1.0]}


def test_all_have_the_same_number_of_turns():
    calls = []
    result = race({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=6)
    assert len(result.times["a"]) == len(result.times["b"]) == 6
    assert set(calls) == {"a", "b"}
