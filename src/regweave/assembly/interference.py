"""Who may not share a register with whom.

Two variables interfere if one is written while the other is live. Interference is kept one-sided: for each
variable, what was live where it was written.

    acc = 0             beside[acc] = x, live there
    v = load x          beside[v] = acc, x
    acc += v
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from regweave.assembly.flow import Flow
from regweave.assembly.program import Program
from regweave.values import frozen


@frozen
class Interference:
    """`beside[v]`: variables live where v is written, and those it must avoid for another reason.

    `blocked[register]`: variables live where that register is destroyed; `order`: the variables that occur,
    by first appearance."""

    beside: Sequence[int]
    blocked: dict[str, int]
    order: Sequence[int]


def interfere(program: Program, flow: Flow) -> Interference:
    """Interference of a solved program, in one backward walk over its operations."""
    count = len(program.variables)
    beside = [0] * count
    for v, others in program.extra.items():
        beside[v] |= others
    first = [-1] * count
    blocked: dict[str, int] = {}
    uses, defines, forms = program.uses, program.defines, program.forms
    for block in reversed(flow.blocks):
        live = block.live_out
        last = block.stop - 1
        clobbers = forms[last].clobbers
        if clobbers:
            kept = live & ~defines[last]
            if forms[last].lines > 1:
                kept |= uses[last] | defines[last]
            for register in clobbers:
                blocked[register] = blocked.get(register, 0) | kept
        for i in range(last, block.start - 1, -1):
            used = uses[i]
            born = defines[i]
            if born:
                # What is read too was live before: its rivals met it where either of them began.
                born ^= born & used
                rest = born
                while rest:
                    v = rest.bit_length() - 1
                    beside[v] |= live | born
                    first[v] = i
                    rest ^= 1 << v
                live ^= live & born
            live |= used
    # What only unreachable code reads has a register too, for that code is printed.
    rest = functools.reduce(operator.or_, uses, 0)
    while rest:
        v = rest.bit_length() - 1
        rest ^= 1 << v
        if first[v] < 0:
            first[v] = len(forms)
    entry = flow.live_at_entry
    for variable in program.arguments:
        beside[variable.id] |= entry
        first[variable.id] = 0
    order = sorted((v for v in range(count) if first[v] >= 0), key=first.__getitem__)
    return Interference(beside, blocked, order)
