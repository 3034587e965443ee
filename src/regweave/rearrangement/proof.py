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
from regweave.rearrangement.slots import first_where, registers_of, used_bits

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
    wanted ^= run_on_all_lanes(program, words)
    wanted &= cares
    wrong = first_where(wanted != 0)
    if wrong is not None:
        _, lane, register = wrong
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
    for patterns in _patterns(*sides, raw=relation.packing is None):
        first, second = (
            registers_of(bits, layout.element_type) for bits, layout in zip(patterns, sides, strict=True)
        )
        yield first, second


def run_on_all_lanes(program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The program's results for `[runs, lanes, words]`, any number of lanes; missing lanes hold rubbish."""
    runs, lanes, size = words.shape
    threads = program.lanes * program.warps
    padded = words
    if lanes % threads:
        padded = np.full((runs, -(-lanes // threads) * threads, size), _RUBBISH, dtype=np.uint32)
        padded[:, :lanes] = words
    blocks = padded.reshape(-1, threads, size)
    found = run_program(program, blocks.reshape(-1, size), blocks=len(blocks))
    return found.reshape(runs, -1, found.shape[-1])[:, :lanes]


def _patterns(source: Layout, destination: Layout, *, raw: bool) -> Iterator[tuple[NDArray[Any], ...]]:
    """What the slots of both sides hold, digit by digit: bits where all only moves, else numbers."""
    tables = [np.ascontiguousarray(layout.table, "<u4") for layout in (source, destination)]
    if raw:  # whatever the bits mean on either side
        bits = min(_MOST_BITS, source.element_type.bits, destination.element_type.bits)
        # the least part of a word that digits lie in
        size = max(bits, _FEW_BITS)
        mask = (1 << bits) - 1
        # of bits alone any that is set is one, wherever it stands
        alone = source.element_type.bits == destination.element_type.bits == 1
        digits = range(0, max((source.elements - 1).bit_length(), 1), bits)
        for first in range(0, digits.stop, size):
            parts = [
                np.ascontiguousarray(table.view(f"<u{size // 8}")[:, first // size :: 32 // size])
                for table in tables
            ]
            for shift in digits[first // bits : (first + size) // bits]:
                digit = parts[0].dtype.type(mask << shift - first)
                if alone:
                    yield tuple(part & digit for part in parts)
                else:
                    yield tuple((part & digit) >> part.dtype.type(shift - first) for part in parts)
        return
    numbers = _numbers(source.dtype, destination)
    patterns = [encode(numbers, layout.dtype) for layout in (source, destination)]
    weight = 1
    while weight == 1 or weight < source.elements:
        digits = [table // np.uint32(weight) % np.uint32(len(numbers)) for table in tables]
        yield tuple(pattern[digit] for pattern, digit in zip(patterns, digits, strict=True))
        weight *= len(numbers)


def _numbers(taken: str, destination: Layout) -> NDArray[Any]:
    """The numbers that the destination's type and the one it is narrowed from both hold exactly."""
    kind = destination.element_type
    if kind.bits > _FEW_BITS:
        return np.arange(min(exact_range(dtype) for dtype in (taken, destination.dtype)))
    numbers = decode(np.arange(1 << kind.bits, dtype=np.uint32), destination.dtype)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    return numbers[decode(encode(numbers, taken), taken) == numbers]
