"""Where some lanes may be switched off, a vector instruction's result is only a part of its register.

    v_mov_b32 x, 0                      x = 0 in all lanes
    s_and_saveexec_b64 saved, mask
    v_mov_b32 x, 1                      the other lanes keep their 0: this x needs the former one
    s_mov_b64 exec, saved               all lanes again

All lanes are on when a kernel starts. They are on again behind `s_mov_b64 exec, -1`, and behind `s_mov_b64
exec, saved` or `s_or_b64 exec, exec, saved` where `saved` is what an instruction that changed EXEC kept of
the full mask. Anywhere else EXEC may have holes, and a register that was written before is read by writing
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.flow import Flow

# None: some lanes may be off; else the variables that hold the full mask
State = tuple[bool, frozenset[int]]
_EXEC = ("exec_lo", "exec_hi")


def full_masks(program: KernelProgram, flow: Flow) -> Sequence[bool]:
    """For each operation, whether all lanes are certainly on when it runs."""
    found = [False] * len(program.forms)
    names = {variable.id: variable.name for variable in program.variables}
    before: dict[int, State] = {0: (True, frozenset())} if flow.blocks else {}
    todo = list(before)
    while todo:
        number = todo.pop()
        block = flow.blocks[number]
        state = before[number]
        for i in range(block.start, block.stop):
            found[i] = state[0]
            state = _step(program, i, state, names)
        for successor in block.successors:
            known = before.get(successor)
            merged = state if known is None else (known[0] and state[0], known[1] & state[1])
            if merged != known:
                before[successor] = merged
                todo.append(successor)
    return found


def _step(program: KernelProgram, i: int, state: State, names: dict[int, str]) -> State:
    full, holders = state
    written = {touch.variable for touch in program.touches[i] if touch.role}
    if not written:
        return state
    instruction = program.shapes[i].instruction.name
    changes = any(names[v] in _EXEC for v in written)
    kept = holders - written
    if not changes:
        if instruction == "s_mov_b64" and full and _reads_exec(program, i, names):
            return full, kept | written
        return full, kept
    if instruction.endswith("_saveexec_b64"):
        return False, kept | (frozenset(v for v in written if names[v] not in _EXEC) if full else frozenset())
    operands = program.lines[i].partition(" ")[2].replace(" ", "").split(",")
    if instruction == "s_mov_b64" and operands[-1] == "-1":
        return True, kept
    restores = instruction == "s_mov_b64" or (instruction == "s_or_b64" and "exec" in operands[1:])
    sources = {touch.variable for touch in program.touches[i] if touch.role == ""}
    return restores and any(v in holders for v in sources), kept


def _reads_exec(program: KernelProgram, i: int, names: dict[int, str]) -> bool:
    return any(names[touch.variable] in _EXEC for touch in program.touches[i] if touch.role == "")
