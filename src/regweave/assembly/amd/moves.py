"""Moves between variables that can share their registers: then the move goes.

    v_mov_b32 next, value       value is not read any more: next gets its register,
    v_add_f32 value2, next, x   and nothing has to be moved

The variables keep their names, lives and lines; what both sides of a move got the same registers for is not
printed. Their lives must not overlap: a tuple that is moved part by part is alive from its first part on, and
so overlaps with its source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.shapes import Shape
from regweave.assembly.variables import Variable

_NAMES = ("v_mov_b32", "v_mov_b64", "s_mov_b32", "s_mov_b64", "v_accvgpr_mov_b32")
_PLAIN = re.compile(r"\w+ %=\d+(\.\d+(:\d+)?)?, %\d+(\.\d+(:\d+)?)?\Z")


def is_move(shape: Shape) -> bool:
    """Whether an instruction only copies registers of one variable to another, as they are."""
    if shape.instruction.name not in _NAMES or shape.scatters:
        return False
    line = shape.form.pattern.lines
    own = [place for place in shape.places if place.variable >= 0]
    return isinstance(line, str) and _PLAIN.match(line) is not None and len(shape.places) == len(own) == 2


def wished_pairs(program: KernelProgram) -> Sequence[tuple[Variable, Variable]]:
    """The destination and source of every move of a whole variable: they would like the same registers."""
    found = []
    for shape, own in zip(program.shapes, program.operands, strict=True):
        if is_move(shape):
            (target, source) = (own[place.variable] for place in shape.places)
            whole = all(place.stop - place.first == own[place.variable].count for place in shape.places)
            if whole and target.register_class is source.register_class:
                found.append((target, source))
    return found
