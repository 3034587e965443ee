"""Register copies that aligned tuples force: some registers only come, or are only taken, side by side.

An accumulator is a tuple of registers, an operand another, and a load or store of 16 bytes moves four:

    accumulator  c0 c1 c2 c3      store of 16 bytes  c0 c1 c2 c3    nothing to copy
                                  store of 8 bytes   c0 c2          two copies: they are not neighbours

A value that a step has computed is written where it is needed. One that stands in a tuple already must be
copied, unless all that is wanted beside it stands there beside it too, in the same order and as well aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from regweave.programs import Program, Value
from regweave.rearrangement.request import Request

_STORES = {"shared_store", "matrix_store"}
_SAME = {"bits", "number"}  # the same register under another type
_ALONE = {"bit_swap"}  # results that are written each where it is needed


class _Place(NamedTuple):
    """Where a value stands: which tuple, at which register of it, and the size of the tuple."""

    tuple: int
    register: int
    size: int


def tuple_moves(program: Program, request: Request) -> int:
    """Copies in a program that carries a request out."""
    source, destination = request.source_registers, request.tuple_registers
    places: dict[Value, _Place] = {}
    moves = 0
    for number, (step, _) in enumerate(program.walk()):
        if step.opcode == "word":
            which, register = divmod(step.numbers[0], source)
            places[step.results[0]] = _Place(-1 - which, register, source)
        elif len(step.results) > 1 and step.opcode not in _ALONE:
            for register, value in enumerate(step.results):
                places[value] = _Place(number, register, len(step.results))
        elif step.opcode in _SAME and step.operands[0] in places:
            places.update(dict.fromkeys(step.results, places[step.operands[0]]))
        elif step.opcode in _STORES:
            moves += _moves([places.get(value) for value in step.operands[1:]])
    results = [places.get(value) for value in program.results]
    return moves + sum(_moves(wanted) for wanted in _chunks(results, destination))


def row_moves(registers: Sequence[int | None], size: int) -> int:
    """Copies where one access moves these registers, which stand in tuples of `size`; None is no register."""
    return _moves([None if number is None else _Place(*divmod(number, size), size) for number in registers])


def _moves(wanted: Sequence[_Place | None]) -> int:
    """Copies that make these one tuple; None is written where it is needed, and one alone stands anywhere."""
    if len(wanted) == 1:
        return 0
    sizes = [place.size for place in wanted if place is not None]
    together = min([len(wanted), *sizes])
    return sum(_misplaced(part) for part in _chunks(wanted, together))


def _misplaced(wanted: Sequence[_Place | None]) -> int:
    """All that stand somewhere, unless they stand as they are wanted."""
    standing = [(place.tuple, place.register - at) for at, place in enumerate(wanted) if place is not None]
    fits = len({*standing}) <= 1 and all(start % len(wanted) == 0 for _, start in standing)
    return 0 if fits else len(standing)


def _chunks(values: Iterable[_Place | None], size: int) -> Iterator[list[_Place | None]]:
    held = list(values)
    return (held[first : first + size] for first in range(0, len(held), size))
