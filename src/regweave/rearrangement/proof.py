"""The proof: run the program on a warp whose every slot holds a different element, and look at every slot.

    >>> prove(program, relation)        # returns, or raises naming the first wrong slot

Elements that are converted on the way must survive the conversion exactly, and f16 holds fewer integers
than a tile has elements. So an element's number travels digit by digit, in one run for each digit of base
128. Lanes that the layouts do not use hold rubbish: whatever they contribute, no slot may show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import VerificationError
from regweave.layouts import Layout
from regweave.programs import Program, run_program
from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BASE = 128
_RUBBISH = 0x7FA5A5A5


def prove(program: Program, relation: Relation, holds: Layout | None = None) -> None:
    """Check that every slot of the destination receives its element.

    `holds` says what the destination's slots must hold where that is not the destination layout itself (a
    fold). Raises VerificationError naming the first slot that is wrong.
    """
    source, destination = relation.source, holds or relation.destination
    raw = relation.packing is None  # bits only move, whatever they mean on either side
    digit, rest = 0, 1
    while digit == 0 or rest < source.elements:
        words = np.full((program.lanes, program.source.words), _RUBBISH, dtype=np.uint32)
        words[: source.lanes] = _registers(source, rest, raw)
        found = run_program(program, words)[: destination.lanes]
        wanted = _registers(destination, rest, raw)
        wrong = np.argwhere(found != wanted)
        if wrong.size:
            lane, register = (int(number) for number in wrong[0])
            row, column = destination.element(lane, register)
            raise VerificationError(
                f"lane {lane} register {register} does not receive element ({row}, {column})",
                where=f"{program.name}, {source.name} -> {destination.name}",
            )
        digit, rest = digit + 1, rest * _BASE


def _registers(layout: Layout, weight: int, raw: bool) -> NDArray[np.uint32]:
    """`[lanes, registers]`: each slot holds one digit of its element's number, in its type or raw."""
    kind = layout.element_type
    digits = layout.table // weight % _BASE
    bits = digits.astype(np.uint32) if raw else _bits(digits, layout.dtype)
    registers = np.zeros((layout.lanes, layout.registers), dtype=np.uint32)
    for item in range(layout.items):
        register, part = divmod(item, kind.per_register)
        registers[:, register] |= bits[:, item] << np.uint32(part * kind.bits)
    return registers


def _bits(digits: NDArray[Any], dtype: str) -> NDArray[np.uint32]:
    single = digits.astype(np.float32)
    if dtype == "f16":
        return single.astype(np.float16).view(np.uint16).astype(np.uint32)
    return single.view(np.uint32) >> np.uint32(16) if dtype == "bf16" else single.view(np.uint32)
