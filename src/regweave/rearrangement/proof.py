"""The proof: run the program on a warp whose every slot holds a different element, and look at every slot.

    >>> prove(program, relation)        # returns, or raises naming the first wrong slot

Elements that are converted on the way must survive the conversion exactly, and f16 holds fewer integers
than a tile has elements. So an element's number travels digit by digit, in one run for each digit of base
128, or less if the type is narrower. Lanes that the layouts do not use hold rubbish: whatever they contribute
must not show anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from regweave.errors import VerificationError
from regweave.layouts import ElementType, Layout
from regweave.programs import Program, run_program
from regweave.programs.numbers import encode, exact_range
from regweave.rearrangement.candidates import Candidate
from regweave.rearrangement.relation import Relation, in_words
from regweave.rearrangement.slots import registers_of, used_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGIT = 7
_RUBBISH = 0x7FA5A5A5


def prove_candidate(candidate: Candidate, relation: Relation) -> None:
    """Prove the program of a candidate, if it has one; VerificationError naming the first wrong slot."""
    if candidate.program is None:
        return
    fold, relation = candidate.fold, candidate.relation or relation
    holds = None if fold is None else in_words(fold.destination(relation.destination))
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
    source, destination = relation.source, holds or relation.destination
    raw = relation.packing is None  # bits only move, whatever they mean on either side
    base = min(1 << _DIGIT, *(_held(layout.element_type, raw) for layout in (source, destination)))
    weight = 1
    while weight == 1 or weight < source.elements:
        yield _registers(source, weight, base, raw), _registers(destination, weight, base, raw)
        weight *= base


def run_on_all_lanes(program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The program's results for `[runs, lanes, words]`, any number of lanes; missing lanes hold rubbish."""
    runs, lanes, size = words.shape
    threads = program.lanes * program.warps
    padded = np.full((runs, -(-lanes // threads) * threads, size), _RUBBISH, dtype=np.uint32)
    padded[:, :lanes] = words
    blocks = padded.reshape(-1, threads, size)
    found = run_program(program, blocks.reshape(-1, size), blocks=len(blocks))
    return found.reshape(runs, -1, found.shape[-1])[:, :lanes]


def _registers(layout: Layout, weight: int, base: int, raw: bool) -> NDArray[np.uint32]:
    """`[lanes, registers]`: each slot holds one digit of its element's number, in its type or raw."""
    digits = layout.table // weight % base
    return registers_of(digits if raw else encode(digits, layout.dtype), layout.element_type)


def _held(kind: ElementType, raw: bool) -> int:
    """How many whole numbers, from 0 on, an element of this type tells apart."""
    return 1 << min(kind.bits, _DIGIT) if raw else exact_range(kind.name)
