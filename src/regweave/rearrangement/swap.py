"""The strategy *swap*: compute a product transposed, so that its accumulators already are the operand.

D = A B is also D^T = B^T A^T: exchanging the operands of a matrix instruction transposes what its
accumulators hold, at no cost. There are two products at a seam, so there are two ways:

- `producer`: the product before is computed transposed. Its accumulators hold the transposed tile, and the
  next product takes them as it would. What the producer itself takes from further back must then be its other
  operand.
- `consumer`: the next product is computed transposed and takes the result as its other operand. Its own
  result comes out transposed, and so what follows must take it so.

On AMD the first makes `v_mfma_f32_32x32x8_f16:D` the A operand; on NVIDIA (c0, c1) of every accumulator is a
pair of B, so that the second needs no word to move, and the first turns C -> B into that. Where the words are
there but k comes in another order, a fold is combined with it (tf32, f64).

    >>> swap_candidates("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B", request, conditions)[0].reason
    'the product before is computed transposed, ...'
"""

from __future__ import annotations

import math
from dataclasses import replace

from regweave.errors import RegweaveError
from regweave.layouts import Layout
from regweave.machines.notations import is_notation
from regweave.rearrangement.candidates import Candidate, order_text, renaming
from regweave.rearrangement.conditions import Conditions
from regweave.rearrangement.folding import with_load
from regweave.rearrangement.folds import find_fold, find_identity
from regweave.rearrangement.next_operand import other_factor
from regweave.rearrangement.operand_loads import OtherOperand
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import Request, read_request

FORMS = ("producer", "consumer")
_OTHER = {"A": "B", "B": "A"}
_TRANSPOSED = "^T"
_REASONS = (
    "the product before is computed transposed; what it takes from further back is its other operand",
    "the next product is computed transposed and takes this as its {operand}; what follows is transposed",
)


def swap_candidates(
    source: str | Layout,
    destination: str | Layout,
    request: Request,
    conditions: Conditions,
    *,
    asked: bool = False,
) -> tuple[Candidate, Candidate]:
    """The forms producer and consumer, where they are allowed or asked for.

    Named operands only, for others have no instruction to transpose.
    """
    if not (asked or conditions.swap_allowed):
        return _lost("that a product may be computed transposed was not said (swap_allowed)")
    if not all(isinstance(side, str) and not is_notation(side) for side in (source, destination)):
        return _lost("only operands of named instructions can be computed transposed")
    other = other_factor(str(destination))
    return (
        _swapped(
            FORMS[0],
            _REASONS[0],
            (_turned(str(source)), str(destination)),
            str(destination),
            request,
            conditions,
        ),
        Candidate("swap", FORMS[1], f"{destination} is no operand A or B")
        if other is None
        else _swapped(
            FORMS[1],
            _REASONS[1].format(operand=_OTHER[_operand(str(destination))]),
            (str(source), _turned(other)),
            str(destination),
            request,
            conditions,
        ),
    )


def _lost(reason: str) -> tuple[Candidate, Candidate]:
    return Candidate("swap", FORMS[0], reason), Candidate("swap", FORMS[1], reason)


def _swapped(
    form: str,
    reason: str,
    names: tuple[str, str],
    destination: str,
    request: Request,
    conditions: Conditions,
) -> Candidate:
    """The candidate that reads the accumulators as these names say, folded if that helps.

    `destination` names the operand as it would be without the swap.
    """
    try:
        least = read_request(*names, request.machine, None).source.shape
        shape = math.lcm(least[0], request.source.shape[0]), math.lcm(least[1], request.source.shape[1])
        turned = replace(
            read_request(*names, request.machine, shape), source_registers=request.source_registers
        )
        relation = relate(turned.source, turned.destination)
    except RegweaveError as error:
        return Candidate("swap", form, error.what)
    fold = find_identity(relation)
    if fold is None:
        fold = find_fold(relation)
        if fold is None:
            return Candidate("swap", form, f"the words do not lie as {names[1]} needs them either")
        forbidden = conditions.forbids(fold)
        if forbidden is not None:
            return Candidate("swap", form, f"it would take a fold too, which is illegal: {forbidden}")
        reason = f"{reason}; its other operand takes its k in the order {order_text(fold.k_order)}"
    made = replace(renaming("swap", form, reason, turned, relation, fold), relation=relation)
    coming = conditions.next_operand
    if coming is None:
        return made
    if coming.layout is not None and form == FORMS[1]:
        return Candidate(
            "swap", form, "the layout given for the other operand is of the product as it stands"
        )
    loads = [OtherOperand(coming, name, turned) for name in (names[1], destination)]
    return with_load(made, *loads)


def _turned(name: str) -> str:
    """The same operand of the transposed tile."""
    return name.removesuffix(_TRANSPOSED) if name.endswith(_TRANSPOSED) else name + _TRANSPOSED


def _operand(name: str) -> str:
    """The letter of the operand."""
    return name.removesuffix(_TRANSPOSED).rpartition(":")[2].partition("@")[0]
