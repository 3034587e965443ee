"""Native operators that run one after the other as one: their steps in a row, with one plan for the memory.

    a = Stem(x)    b = Depthwise(a)    c = Mean(b)    y = Gate(b, c)        four calls, three tensors of
                                                                            onnxruntime's between them
    y = Joined(x)      memory [flags and scratch of whoever runs][a][b][c]  one call, a and c may share bytes

Whatever layout two operators have agreed on stays. What only shows a tensor in another shape (a view) takes
no step where both can be one place. Further outputs are what others read of the tensors between. Sizes are
met and prepared as those of any operator (`devices/onnxruntime/sized.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from regweave.devices.onnxruntime import (
    LINE,
    OUTPUT_PLACE,
    WORK_PLACE,
    NativeOperator,
    Place,
    Prepared,
    SizedOperator,
    Step,
    prepared_for,
)
from regweave.graphs.pieces.lifetimes import packed

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """An operator, and the names of what it reads and makes."""

    operator: NativeOperator | SizedOperator
    inputs: tuple[str, ...]
    output: str

    @property
    def is_view(self) -> bool:
        """Whether the output has the elements of the input."""
        return isinstance(self.operator, SizedOperator) and self.operator.view

    def prepared(self, shapes: Sequence[Shape], finite: bool) -> Prepared:
        """What runs it. Errors: InputError where shapes are not as planned."""
        if isinstance(self.operator, NativeOperator):
            return prepared_for(self.operator, shapes)
        found = self.operator.prepare(*shapes)
        if finite or not any(step.flags for step in found.steps):
            return found
        return self.operator.prepare(*shapes, finite=False)


def joined_operator(
    name: str, parts: Sequence[Part], inputs: Sequence[str], outputs: Sequence[str]
) -> SizedOperator:
    """One operator of `parts`, in running order, that reads `inputs` and leaves `outputs`."""

    def prepare(*given: Shape, finite: bool = True) -> Prepared:
        shapes = dict(zip(inputs, given, strict=True))
        found = []
        for part in parts:
            found.append(part.prepared([shapes[name] for name in part.inputs], finite))
            shapes[part.output] = found[-1].out_shape
        scratch = -(-max(prepared.memory for prepared in found) // LINE) * LINE
        places, memory = _places(parts, inputs, outputs, shapes, scratch)
        steps = [
            _moved(step, part, places)
            for part, prepared in zip(parts, found, strict=True)
            if not (part.is_view and places[part.output] == places[part.inputs[0]])
            for step in prepared.steps
        ]
        first, *further = (shapes[name] for name in outputs)
        return Prepared(first, tuple(steps), memory, tuple(further))

    room = max(_arguments_size(part.operator) for part in parts)
    return SizedOperator(name, (None,) * len(inputs), room, prepare, tuple(parts), len(outputs))


def _arguments_size(operator: NativeOperator | SizedOperator) -> int:
    if isinstance(operator, NativeOperator):
        return ctypes.sizeof(operator.arguments)
    return operator.arguments_size


def _places(
    parts: Sequence[Part],
    inputs: Sequence[str],
    outputs: Sequence[str],
    shapes: dict[str, Shape],
    scratch: int,
) -> tuple[dict[str, Place], int]:
    """Where every tensor lies, and the bytes of the memory for a call.

    Views of one tensor lie where it does: where it comes from outside, or where one of them leaves. Further
    outputs among them are copied.
    """
    shown: dict[str, str] = {}
    for part in parts:
        if part.is_view:
            shown[part.output] = shown.get(part.inputs[0], part.inputs[0])

    def root(name: str) -> str:
        return shown.get(name, name)

    fixed = {name: Place(index) for index, name in enumerate(inputs)}
    own = {name: Place(OUTPUT_PLACE + index) for index, name in enumerate(outputs)}
    for name in sorted(own, key=lambda name: name in shown):
        fixed.setdefault(root(name), own[name])
    lives: dict[str, tuple[int, int]] = {}
    for index, part in enumerate(parts):
        for name in map(root, (part.output, *part.inputs)):
            lives[name] = (lives.get(name, (index, index))[0], index)
    for name in fixed:
        lives.pop(name, None)
    offsets, size = packed(lives, {name: 4 * prod(shapes[name]) for name in lives}, LINE)
    places = fixed | {name: Place(WORK_PLACE, scratch + offset) for name, offset in offsets.items()}
    named = {name: places[root(name)] for part in parts for name in (part.output, *part.inputs)}
    return named | own, scratch + size


def _moved(step: Step, part: Part, places: dict[str, Place]) -> Step:
    """A step of a part, with its addresses where the tensors are."""

    def moved(place: Place) -> Place:
        if place.source == WORK_PLACE:
            return place
        to = places[part.output if place.source == OUTPUT_PLACE else part.inputs[place.source]]
        return Place(to.source, to.offset + place.offset)

    return replace(step, places={field: moved(place) for field, place in step.places.items()})
