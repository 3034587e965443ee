"""A comparison whose answer is overwritten before anybody looks at it.

    s_cmp_lt_u32 i, n
    s_add_u32 i, i, 1          this writes SCC too
    s_cbranch_scc1 loop        and this reads the sum's carry

There is one SCC and one VCC, so that analysis cannot tell what the branch was meant to read; but a
comparison that nobody reads, followed by something else that is read, is a mistake. So is anything else that
was put into VCC, as its result alone, and overwritten there before it was read: VCC is no place for
temporaries while instructions around it use it as a flag.
"""

from __future__ import annotations

from regweave.assembly.amd.kernel_program import KernelProgram, Touch
from regweave.assembly.amd.parts import Parts
from regweave.errors import AssemblyError

_CONDITIONS = ("scc", "vcc_lo", "vcc_hi")
_COMPARISONS = ("s_cmp_", "s_cmpk_", "s_bitcmp", "v_cmp_")


def check_conditions(program: KernelProgram, parts: Parts) -> None:
    """AssemblyError for the first comparison whose SCC or VCC is lost to another writer."""
    watched = 0
    for variable in program.variables:
        if variable.name in _CONDITIONS:
            watched |= 1 << parts.base[variable.id]
    if not watched:
        return
    after = parts.live_after()
    for number, block in enumerate(parts.flow.blocks):
        for i in range(block.start, block.stop):
            lost = parts.defines[i] & watched & ~after[i]
            if not lost or parts.defines[i] & ~watched:
                continue
            if not program.forms[i].name.startswith(_COMPARISONS):
                lost = sum(parts.bits(touch) for touch in _named(program, i)) & lost
            if lost:
                _check(program, parts, after, number, i, lost)


def _check(program: KernelProgram, parts: Parts, after: list[int], number: int, i: int, lost: int) -> None:
    """AssemblyError if on some way from operation i of a block the next to write what is lost is read."""
    blocks = parts.flow.blocks
    todo, seen = [(number, i + 1)], set()
    while todo:
        at, start = todo.pop()
        j = next((j for j in range(start, blocks[at].stop) if parts.defines[j] & lost), None)
        if j is None:
            todo += [(other, blocks[other].start) for other in blocks[at].successors if other not in seen]
            seen.update(blocks[at].successors)
        elif after[j] & lost:
            scc = any(v.name == "scc" and lost >> parts.base[v.id] & 1 for v in program.variables)
            name = "SCC" if scc else "VCC"
            raise AssemblyError(
                f"{name} is set by {program.lines[i]!r} and overwritten by "
                f"{program.lines[j]!r} before it is read",
                where=f"{program.name}, {program.describe(i)}",
                fix=f"read {name} first, or move the comparison behind {program.lines[j]!r}",
            )


def _named(program: KernelProgram, i: int) -> list[Touch]:
    """What operation i writes as an operand."""
    named = {
        register
        for place in program.shapes[i].places
        if place.slot >= 0 and place.role
        for register in place.registers
    }
    return [t for t in program.touches[i] if t.role and program.variables[t.variable].name in named]
