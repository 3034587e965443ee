"""What machines have in common whose passages through shared memory are the same.

A passage found for one machine holds for all that serve lanes alike: of the NVIDIA machines from sm_80 to
sm_89 all, and of gfx90a and gfx942 both. How much memory there is matters where a tile could need more.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import product

from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.shared.matrix_rows import has_matrices

_WORD = 32


def memory_of(machine: WarpMachine, elements: int, *, written: bool) -> Hashable:
    """What the search for a passage of so many elements asks a machine for.

    Where passages are `written` to be compared, that also depends on how addresses are scaled.
    """
    # padding adds less than all banks for each direction: what could be needed at most
    enough = elements * (_WORD + machine.shared_banks * _WORD) // 8
    scales = machine.shared_scales if written else ()
    return _served(machine), min(machine.shared_bytes, enough), scales


@lru_cache(maxsize=64)
def _served(machine: WarpMachine) -> Hashable:
    matrices = [
        has_matrices(machine, access, transposed=transposed)
        for access, transposed in product(("load", "store"), (False, True))
    ]
    phases = tuple(sorted(machine.shared_phases.items()))
    return (machine.lanes, machine.shared_banks, machine.shared_access_bits, phases, *matrices, machine.costs)
