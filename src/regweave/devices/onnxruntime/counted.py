"""An operator that counts its positions at each call, as a step for given shapes: what its native glue does.

    x [2, 96, 40, 40], channels at 1  ->  batch 2, count 1600, y [2, 96, 40, 40], arguments {rows=1600, ...}

So it can be a part of an operator that is prepared by size, between other steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from regweave.devices.onnxruntime.blocks import OUTPUT_PLACE, WORK_PLACE
from regweave.devices.onnxruntime.operator import NativeOperator, Pitch, shape_words
from regweave.devices.onnxruntime.sized import Field, Place, Prepared, Shape, Step
from regweave.errors import InputError
from regweave.operators import followed


def prepared_for(operator: NativeOperator, shapes: Sequence[Shape]) -> Prepared:
    """What runs `operator` on inputs of these shapes. Errors: InputError where they are not as planned."""
    batch, count = _positions(operator, shapes[0])
    out = followed(operator.output, shapes[0], batch * count * operator.channels_out)
    if out is None:
        raise InputError(shape_words(operator))
    for shape, extra in zip(shapes[1:], operator.extras, strict=True):
        if prod(shape) != batch * (count * extra.per_position + extra.per_image):
            raise InputError(shape_words(operator))
    if not batch * count:
        return Prepared(out, (), 0)
    parts = max(1, min(operator.parts, batch * count // operator.unit))
    arguments = type(operator.arguments).from_buffer_copy(operator.arguments)
    given = {
        "x_pitch": _bytes(operator.x_pitch, count), "y_pitch": _bytes(operator.y_pitch, count),
        "count": count, "batch": batch, "parts": parts,
    }  # fmt: skip
    for role, value in given.items():
        setattr(arguments, operator.places[role], value)
    places: dict[Field, Place] = {operator.place("x"): Place(0), operator.place("y"): Place(OUTPUT_PLACE)}
    places |= {extra.place: Place(1 + index) for index, extra in enumerate(operator.extras)}
    if operator.scratch:
        places[operator.place("scratch")] = Place(WORK_PLACE)
    step = Step(operator.kernel, arguments, places, parts, keep=(operator,))
    return Prepared(out, (step,), parts * operator.scratch)


def _positions(operator: NativeOperator, shape: Shape) -> tuple[int, int]:
    """Images, and positions in each."""
    axis, channels = operator.axis, operator.channels_in
    if axis is None:
        if prod(shape) % channels:
            raise InputError(shape_words(operator))
        return 1, prod(shape) // channels
    if axis >= len(shape) or shape[axis] != channels:
        raise InputError(shape_words(operator))
    return prod(shape[:axis]), prod(shape[axis + 1 :])


def _bytes(pitch: Pitch, count: int) -> int:
    return pitch.per_position * count + pitch.fixed
