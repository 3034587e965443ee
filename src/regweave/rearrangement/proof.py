"""The proof: run the program on a warp whose every slot holds a different element, and look at every slot.

    >>> prove(program, relation)        # returns, or raises naming the first wrong slot

Elements that are converted on the way must survive the conversion exactly, and a type has fewer numbers than
a tile has elements. So an element's number travels digit by digit, in one run for each digit; there are as
many digits as numbers that both types hold, or bit patterns where elements only move. Lanes that the layouts
do not use hold rubbish: whatever they contribute must not show anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import VerificationError
from regweave.layouts import Layout
from regweave.programs import Program, run_program
from regweave.programs.numbers import decode, encode, exact_range
from regweave.rearrangement.candidates import Candidate
from regweave.rearrangement.relation import Relation, in_words
from regweave.rearrangement.slots import registers_of, used_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

# bits of a digit that only moves, and of types whose every number is a digit
_MOST_BITS, _FEW_BITS = 16, 8
_RUBBISH = 0x7FA5A5A5


def prove_candidate(candidate: Candidate, relation: Relation) -> None:
    """Prove the program of a candidate, if it has one; VerificationError naming the first wrong slot."""
    if candidate.program is None:
        return
    fold, relation = candidate.fold, candidate.relation or relation
    holds = None
    if fold is not None and not fold.trivial:
        holds = in_words(fold.destination(relation.destination))
    prove(candidate.program, relation.in_words, holds)


def prove(program: Program, relation: Relation, holds: Layout | None = None) -> None:
    """Check that every slot of the destination receives its element.

    `holds` says what the destination's slots must hold where that is not the destination layout itself (a
    fold). Raises VerificationError naming the first slot that is wrong.
    """
    destination = holds or relation.destination
    cares = used_bits(destination.items, destination.element_type)
    words, wanted = (np.stack(tables) for tables in zip(*probes(relation, holds), strict=True))
    wrong = np.argwhere((run_on_all_lanes(program, words) ^ wanted) & cares)
    if wrong.size:
        _, lane, register = (int(number) for number in wrong[0])
        row, column = destination.element(lane, register)
        raise VerificationError(
            f"lane {lane} register {register} does not receive element ({row}, {column})",
            where=f"{program.name}, {relation.source.name} -> {destination.name}",
        )


def probes(
    relation: Relation, holds: Layout | None = None
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.uint32]]]:
    """Source words, `[lanes, registers]`, and the destination words that must come of them, digit by digit.

    Together they tell all elements apart. Bits of destination words that hold no element are 0.
    """
    sides = relation.source, holds or relation.destination
    digits = _digits(*sides, raw=relation.packing is None)
    weight = 1
    while weight == 1 or weight < relation.source.elements:
        yield _registers(sides[0], weight, digits[0]), _registers(sides[1], weight, digits[1])
        weight *= len(digits[0])


def run_on_all_lanes(program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The program's results for `[runs, lanes, words]`, any number of lanes; missing lanes hold rubbish."""
    runs, lanes, size = words.shape
    threads = program.lanes * program.warps
    padded = np.full((runs, -(-lanes // threads) * threads, size), _RUBBISH, dtype=np.uint32)
    padded[:, :lanes] = words
    blocks = padded.reshape(-1, threads, size)
    found = run_program(program, blocks.reshape(-1, size), blocks=len(blocks))
    return found.reshape(runs, -1, found.shape[-1])[:, :lanes]


def _digits(source: Layout, destination: Layout, *, raw: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bit patterns of each digit on both sides: of all that only moves, or of numbers that both hold."""
    if raw:  # bits only move, whatever they mean on either side
        bits = min(layout.element_type.bits for layout in (source, destination))
        patterns = np.arange(1 << min(bits, _MOST_BITS), dtype=np.uint32)
        return patterns, patterns
    if destination.element_type.bits > _FEW_BITS:
        numbers = np.arange(min(exact_range(layout.dtype) for layout in (source, destination)))
    else:
        numbers = decode(np.arange(1 << destination.element_type.bits, dtype=np.uint32), destination.dtype)
        numbers = np.unique(numbers[np.isfinite(numbers)])
        numbers = numbers[decode(encode(numbers, source.dtype), source.dtype) == numbers]
    return encode(numbers, source.dtype), encode(numbers, destination.dtype)


def _registers(layout: Layout, weight: int, digits: NDArray[Any]) -> NDArray[np.uint32]:
    """`[lanes, registers]`: each slot holds the pattern of one digit of its element's number."""
    return registers_of(digits[layout.table // weight % len(digits)], layout.element_type)
