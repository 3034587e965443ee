"""A register by its number that is somebody's: written so, and then read under the name.

    row = k.reserve("row", "s1", "s8")
    k.emit("s_load_dword", row, "kernarg", 0)
    k.emit_template("s_mov_b32 s8, 0")          a temporary of this template's
    k.emit("s_add_u32", x, row, 1)              and row is lost

To read it by its number is harmless, and to write it where the name is not read any more. Registers that no
name is pinned to are kept apart from all variables anyway.
"""

from __future__ import annotations

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.parts import Parts
from regweave.assembly.flow import Block
from regweave.errors import AssemblyError


def check_aliases(program: KernelProgram, parts: Parts) -> None:
    """AssemblyError for the first register that is written by its number and read by its name."""
    owners = {
        register: (variable.id, k)
        for variable in program.variables
        if variable.pin is not None and variable.name != variable.pin
        for k, register in enumerate(variable.pinned)
    }
    if not owners:
        return
    for number, block in enumerate(parts.flow.blocks):
        for i in range(block.start, block.stop):
            for place in program.shapes[i].places:
                if place.variable >= 0 or place.slot < 0 or not place.role:
                    continue
                for register in place.registers:
                    if register in owners:
                        _check(program, parts, (number, i), register, owners[register])


def _check(
    program: KernelProgram,
    parts: Parts,
    place: tuple[int, int],
    register: str,
    owner: tuple[int, int],
) -> None:
    number, i = place
    v, k = owner
    bit = 1 << parts.base[v] + k
    blocks = parts.flow.blocks
    todo, seen = [(number, i + 1)], set()
    while todo:
        at, start = todo.pop()
        block = blocks[at]
        found = _first(program, parts, block, start, owner, bit)
        if found is not None:
            j, named = found
            if named:
                name = program.variables[v].name
                raise AssemblyError(
                    f"{program.lines[i]!r} overwrites {register}, which is {name!r}, and "
                    f"{program.lines[j]!r} reads it under that name",
                    where=f"{program.name}, operations {i} and {j}",
                    fix=f"write to {name!r} by its name if that is meant, else use another register",
                )
            continue
        for successor in block.successors:
            if successor not in seen and blocks[successor].live_in & bit:
                seen.add(successor)
                todo.append((successor, blocks[successor].start))


def _first(
    program: KernelProgram, parts: Parts, block: Block, start: int, owner: tuple[int, int], bit: int
) -> tuple[int, bool] | None:
    """The first operation from `start` on that reads the owner by name (True) or ends its value (False)."""
    for j in range(start, block.stop):
        if parts.uses[j] & bit and any(
            found.variable >= 0
            and found.role != "="
            and program.operands[j][found.variable] is program.variables[owner[0]]
            and found.first <= owner[1] < found.stop
            for found in program.shapes[j].places
        ):
            return j, True
        if parts.defines[j] & bit:
            return j, False
    return None
