"""Colouring again and again: whoever found no register comes earlier the next time.

A long-lived variable in the middle of the file leaves no room for a tuple although enough registers are free.
Some order of taking variables avoids that, and the ones that got stuck say which: each goes before those that
got stuck less often. Small files that an exhaustive search can fill are filled by some dozens of such rounds,
now and then from another order to begin with.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from regweave.assembly.colouring import Registers, Stuck, colour
from regweave.assembly.interference import Interference
from regweave.assembly.program import Program

#: Rounds at most, and how many variables all of them colour where they only save registers.
_ROUNDS, _WORK = 60, 2000
#: After so many rounds the search begins anew, from a shuffled order (the same one each time).
_ANEW = 12


def search(
    program: Program,
    interference: Interference,
    order: Sequence[int],
    most: Mapping[str, int],
    *,
    patient: bool = False,
) -> Registers | None:
    """Registers for all variables with at most `most` of each class; None where no round found any.

    There are fewer rounds for programs of many variables, unless the caller is `patient`.
    """
    stuck: dict[int, int] = {}
    for number in range(_ROUNDS if patient else max(4, min(_ROUNDS, _WORK // max(len(order), 1)))):
        if number and number % _ANEW == 0:
            stuck, order = {}, random.Random(number).sample(order, len(order))
        try:
            return colour(program, interference, sorted(order, key=lambda v: -stuck.get(v, 0)), most)
        except Stuck as found:
            if found.variable.pin is not None:
                return None
            stuck[found.variable.id] = stuck.get(found.variable.id, 0) + 1
    return None
