"""Decisions from recorded times, as on a quiet machine and as beside busy loops: nothing is timed here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from onnx import helper

from regweave.devices.onnxruntime import unsupported_reason
from regweave.engine.building.optimiser import Workshop
from regweave.engine.deciding.evidence import Evidence
from regweave.engine.deciding.judgement import CLOSE_SPEEDUP, Judgement
from regweave.engine.deciding.predictions import Proposal
from regweave.engine.deciding.sieving import drop_slow
from regweave.engine.measuring.profiling import Recording
from regweave.engine.measuring.racing import Race
from regweave.engine.measuring.undisturbed import Soloist, note_on, settled, taken_away
from regweave.engine.report import Timing


def milliseconds(*times):
    return tuple(1e-3 * t for t in times)


def nobody(name):
    raise AssertionError(f"{name} was run alone")


# A chain of a text detector: four nodes of onnxruntime's, one of ours. Beside two busy loops the short nodes
# have undisturbed times among theirs, the long one has none.
QUIET = {
    "before": Recording(
        {"conv0": milliseconds(3.3, 3.31, 3.3), "gelu": milliseconds(0.9, 0.91, 0.9)},
        milliseconds(4.2, 4.25, 4.2),
        milliseconds(4.2, 4.24, 4.2),
        {},
    ),
    "after": Recording(
        {"chain": milliseconds(3.5, 3.52, 3.5)}, milliseconds(3.5, 3.52, 3.5), milliseconds(3.5, 3.5, 3.5), {}
    ),
}
BUSY = {
    "before": Recording(
        {"conv0": milliseconds(6.3, 3.4, 3.31, 7.0), "gelu": milliseconds(0.9, 4.1, 0.9, 1.0)},
        milliseconds(7.2, 7.5, 4.2, 8.0),
        milliseconds(4.2, 4.3, 4.2, 4.3),
        {},
    ),
    "after": Recording(
        {"chain": milliseconds(7.1, 9.2, 6.8, 6.9), "mean": milliseconds(0.1, 0.1, 3.0, 0.1)},
        milliseconds(7.2, 9.3, 9.8, 7.0),
        milliseconds(3.6, 3.6, 3.7, 3.6),
        {},
    ),
}
ALONE = {"conv0": 3.3e-3, "gelu": 0.95e-3, "chain": 3.5e-3}


def ratio(profile):
    return (profile["before"]["conv0"] + profile["before"]["gelu"]) / profile["after"]["chain"]


def test_a_quiet_machine_s_profile_is_that_of_the_shortest_times():
    found = settled(QUIET, {"before": nobody, "after": nobody})
    assert ratio(found) == pytest.approx(1.2)


def test_beside_busy_loops_a_piece_gains_as_much_as_on_a_quiet_machine():
    asked = []

    def alone(name):
        asked.append(name)
        return ALONE[name]

    found = settled(BUSY, {"before": alone, "after": alone})
    assert ratio(found) == pytest.approx(1.2, rel=0.01)
    assert asked == ["conv0", "gelu", "chain"], "short nodes need not run alone"
    assert found["before"]["gelu"] == pytest.approx(0.9e-3), "alone may not take longer than in place"


def test_what_cannot_run_alone_keeps_its_shortest_times():
    found = settled(BUSY, {"before": lambda name: None, "after": lambda name: None})
    assert found["after"]["chain"] == pytest.approx(6.85e-3)


def test_notes_tell_how_busy_the_machine_was():
    assert note_on(list(QUIET.values())) == ()
    assert note_on([]) == ()
    [note] = note_on(list(BUSY.values()))
    assert f"{taken_away(BUSY.values()):.0%}" in note
    assert taken_away(BUSY.values()) == pytest.approx(1 - 31.5 / 60.2)
    scattered = Recording({}, milliseconds(2.0, 4.0, 4.0), milliseconds(2.0, 4.0, 4.0), {})
    [note] = note_on([scattered])
    assert "2.0 times as long" in note


def test_a_race_beside_busy_loops_is_decided_by_the_time_that_the_processor_gave():
    clock = {"before": [7.0, 5.0, 9.0], "after": [8.0, 6.0, 4.0]}
    processor = {"before": [4.0, 4.1, 4.0], "after": [3.5, 3.5, 3.6]}
    race = Race(clock, processor)
    assert race.taken_away == pytest.approx(1 - 22.7 / 39)
    assert race.is_clear("before", "after", 1.05)
    assert race.ratio("before", "after") == pytest.approx(4.0 / 3.5)
    assert race.joined(race).times["after"] == processor["after"] * 2
    calm = Race(processor, {name: [0.99 * t for t in times] for name, times in processor.items()})
    assert calm.times is calm.clock
    assert Race(clock).taken_away == 0


@dataclass(frozen=True, eq=False)
class Part:
    """As much of a piece as dropping needs."""

    name: str
    forced: bool = False


class Recorded(Evidence):
    """Evidence whose measurements were taken before."""

    def __init__(self, rounds):
        self.rounds, self.asked, self.patient, self.started = iter(rounds), [], False, 0.0
        self.say = lambda words: None

    @property
    def in_time(self):
        return False

    def timings(self, wanted):
        self.asked.append([p.piece.name for p in wanted])
        return {name: Timing(s, 1.0, s) for name, s in next(self.rounds).items()}


def dropped(rounds, forced=()):
    names = list(rounds[0])
    proposals = [Proposal(Part(name, name in forced), 1.0, 0.5, 1.0, "predicted") for name in names]
    fates = {p.piece.name: Judgement(p, True, "") for p in proposals}
    evidence = Recorded(rounds)
    kept = drop_slow(evidence, proposals, fates)
    assert {p.piece.name for p in kept} == {name for name, fate in fates.items() if fate.fused}
    return [p.piece.name for p in kept], evidence.asked, fates


def test_what_is_clearly_slow_goes_at_once():
    kept, asked, fates = dropped([{"a": 1.2, "b": 0.8, "c": 1.1}])
    assert kept == ["a", "c"]
    assert asked == [["a", "b", "c"]]
    assert "no gain in place" in fates["b"].reason


def test_what_is_close_is_looked_at_twice_even_late():
    close = (CLOSE_SPEEDUP + 1) / 2
    kept, asked, _ = dropped([{"a": 1.2, "b": close, "c": close}, {"a": 1.2, "b": 1.04, "c": close}])
    assert kept == ["a", "b"]
    assert asked == [["a", "b", "c"]] * 2


def test_what_was_asked_for_by_name_stays():
    assert dropped([{"a": 0.5, "b": 0.5}], forced=("a",))[0] == ["a"]


@pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))
def test_nodes_run_alone_with_their_constants():
    weights = helper.make_tensor("w", 1, [3, 3], np.eye(3, dtype=np.float32).ravel())
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("Add", ["m", "m"], ["y"], "twice"),
        helper.make_node("Cast", ["y"], ["z"], "cast", to=7),
    ]
    ends = [helper.make_tensor_value_info(name, kind, [2, 3]) for name, kind in (("x", 1), ("z", 7))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    shapes = {"product": ((2, 3), (3, 3)), "twice": ((2, 3), (2, 3))}
    with Workshop() as shop:
        opened = []

        def start(proto):
            opened.append([node.name for node in proto.graph.node])
            return shop.open(proto)

        known = {}
        soloist = Soloist(model, shapes, start, known)
        assert soloist("product") > 0
        assert soloist("twice") > 0
        assert soloist("cast") is None
        assert soloist("nowhere") is None
        again = Soloist(model, shapes, start, known)
        assert again("product") == soloist("product")
        assert opened == [["product"], ["twice"]]
