"""What nodes take, on a machine where others work as well.

Who shares a processor is interrupted every few milliseconds, for as long. Of a short node's times some are
undisturbed, and the shortest ones are right. A long node is interrupted every time, and a piece of ours is
one node where onnxruntime has many short ones: it would seem slow.

    0.2 ms     0.2   0.2   3.4   0.2        the shortest: 0.2
    7 ms       11.1  14.0  10.2  13.1       alone, by the time that the processor gave: 7.0

So where the processor was elsewhere for more than BUSY of the time, long nodes run alone, on tensors of the
same shapes, and the processor's time decides. The same holds for races of whole models (racing.py).
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.measuring.profiling import Profile, Recording, Shapes
from regweave.engine.measuring.racing import BUSY
from regweave.errors import DeviceError

LONG = 0.15e-3
"""Seconds from which a node may be interrupted whenever it runs."""

RUNS, SECONDS = 5, 0.05
"""Of a node alone: so many, fewer once they have taken so long."""

SCATTER = 1.3
"""Runs that usually take more than so many times the shortest are disturbed, whatever by."""

Alone = Callable[[str], "float | None"]
"""Seconds that the processor gives a node that runs alone, by its name; None where it cannot."""


def taken_away(recordings: Iterable[Recording]) -> float:
    """The share of the time in which the processor worked for others."""
    clock = processor = 0.0
    for recording in recordings:
        clock += sum(recording.clock)
        processor += sum(recording.processor)
    return max(0.0, 1.0 - processor / clock)


def note_on(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """What a person should know of how reliable decisions from these are; nothing, on a quiet machine."""
    if not recordings:
        return ()
    away = taken_away(recordings)
    if away > BUSY:
        return (
            f"the processor worked for others {away:.0%} of the time: decisions are from the time that it "
            "gave",
        )
    usual = sum(statistics.median(recording.clock) for recording in recordings)
    shortest = sum(min(recording.clock) for recording in recordings)
    if usual > SCATTER * shortest:
        return (
            f"the machine was busy: runs took {usual / shortest:.1f} times as long as the shortest ones, and "
            "decisions may be others on a quiet one",
        )
    return ()


def settled(recordings: Mapping[str, Recording], alone: Mapping[str, Alone]) -> dict[str, Profile]:
    """The profile of each model: the mean of each node's two shortest times (microseconds are what a profile
    counts in), and for long nodes on a busy machine no more than what they take alone."""
    busy = taken_away(recordings.values()) > BUSY
    found: dict[str, Profile] = {}
    for model, recording in recordings.items():
        found[model] = profile = {
            name: statistics.fmean(sorted(times)[:2]) for name, times in recording.nodes.items()
        }
        for name, seconds in profile.items() if busy else ():
            own = alone[model](name) if seconds > LONG else None
            if own is not None:
                profile[name] = min(seconds, own)
    return found


Node = tuple[str, str, Shapes]
"""A node's name, the kind of its operator, and the shapes of what it reads."""

_NUMBER = re.compile(r"\d+")


@dataclass(eq=False)
class Soloist:
    """Runs nodes of a model alone; `open` makes a session of a model with one node.

    `known` are times of nodes of this model, and of others in which the same nodes stand.
    """

    model: onnx.ModelProto
    shapes: Mapping[str, Shapes]
    open: Callable[[onnx.ModelProto], NativeSession]
    known: dict[Node, float] = field(default_factory=dict)

    def __call__(self, name: str) -> float | None:
        """Seconds that the processor gives a node; None for those that read or make other types, or hold
        graphs."""
        node = next((node for node in self.model.graph.node if node.name == name), None)
        if node is None or name not in self.shapes:
            return None
        # our op types are numbered anew in each model
        key = name, _NUMBER.sub("", node.op_type), self.shapes[name]
        if key not in self.known:
            found = self._measured(node, self.shapes[name])
            if found is None:
                return None
            self.known[key] = found
        return self.known[key]

    def _measured(self, node: onnx.NodeProto, shapes: Shapes) -> float | None:
        names = [name for name in node.input if name]
        if len(names) != len(shapes) or any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
            return None
        constants = {tensor.name: tensor for tensor in self.model.graph.initializer}
        given = {n: s for n, s in zip(names, shapes, strict=True) if n not in constants}
        held = [constants[n] for n in dict.fromkeys(names) if n in constants]
        random = np.random.default_rng(0)
        feeds = {n: random.standard_normal(shape).astype(np.float32) for n, shape in given.items()}
        try:
            session = self.open(self._alone(node, given, held))
            return _processor_seconds(lambda: session.run(None, feeds))
        except DeviceError:
            return None

    def _alone(
        self, node: onnx.NodeProto, given: Mapping[str, Sequence[int]], constants: Sequence[TensorProto]
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            [node],
            "alone",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(shape)) for n, shape in given.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output if n],
            list(constants),
        )
        return helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )


def _processor_seconds(run: Callable[[], object]) -> float:
    """The least that a call takes of the processor."""
    run()
    times: list[float] = []
    while len(times) < RUNS and (len(times) < 2 or sum(times) < SECONDS):
        started = time.thread_time()
        run()
        times.append(time.thread_time() - started)
    return min(times)
