"""What a register map draws: for each variable the stretches of operations at which it holds its registers.

>>> spans = kernel_spans(kernel)
>>> spans[0].name, spans[0].first, spans[0].count, spans[0].stretches
('at', 0, 1, ((0, 3),))
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.maps import live_sets
from regweave.assembly.variables import members
from regweave.values import frozen
from regweave.views.canvas import lane_colour

#: The classes that have columns, in their order, and the letters of their registers.
CLASSES = {"vector": "v", "accumulation": "a", "scalar": "s"}
_SHADE = 0.4
_STEPS = "▁▂▃▄▅▆▇█"


@frozen
class Span:
    """A variable: `count` registers of a class from number `first` on (as text in `registers`), its colour,
    the same for all of its name, and the stretches (first and last operation)."""

    name: str
    register_class: str
    registers: str
    first: int
    count: int
    colour: str
    stretches: tuple[tuple[int, int], ...]


def kernel_spans(kernel: FinishedKernel) -> tuple[Span, ...]:
    """Every variable that has registers with columns, by class and first register."""
    found: dict[int, list[tuple[int, int]]] = {}
    for i, (before, after) in enumerate(live_sets(kernel.program, kernel.flow)):
        for v in members(before | after):
            stretches = found.setdefault(v, [])
            if stretches and stretches[-1][1] == i - 1:
                stretches[-1] = (stretches[-1][0], i)
            else:
                stretches.append((i, i))
    colours: dict[str, str] = {}
    for variable in kernel.registers:
        colours.setdefault(variable.name, lane_colour(len(colours), _SHADE))
    spans = []
    for variable, run in kernel.registers.items():
        register_class = variable.register_class
        if register_class.name in CLASSES and variable.id in found:
            spans.append(
                Span(
                    variable.name,
                    register_class.name,
                    kernel.machine.run(run),
                    register_class.registers.index(run[0]),
                    len(run),
                    colours[variable.name],
                    tuple(found[variable.id]),
                )
            )
    order = list(CLASSES)
    return tuple(sorted(spans, key=lambda s: (order.index(s.register_class), s.first, s.stretches)))


def sparkline(values: Sequence[int], width: int = 64) -> str:
    """The profile of `values` in one line of at most `width` characters: the largest of each piece."""
    if not values:
        return ""
    size = -(-len(values) // width)
    most = max(*values, 1)
    pieces = [max(values[at : at + size]) for at in range(0, len(values), size)]
    return "".join(_STEPS[(len(_STEPS) - 1) * piece // most] if piece else " " for piece in pieces)
