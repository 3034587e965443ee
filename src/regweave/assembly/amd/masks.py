"""Where some lanes may be switched off, a vector instruction's result is only a part of its register.

    v_mov_b32 x, 0                      x = 0 in all lanes
    s_and_saveexec_b64 saved, mask
    v_mov_b32 x, 1                      the other lanes keep their 0: this x needs the former one
    s_mov_b64 exec, saved               all lanes again

All lanes are on when a kernel starts. They are on again behind `s_mov_b64 exec, -1`, and behind `s_mov_b64
exec, saved` or `s_or_b64 exec, exec, saved` where `saved` is what an instruction that changed EXEC kept of
the full mask. Anywhere else EXEC may have holes, and a register that was written before is read by writing
it. Of a workgroup that is no multiple of a wave the lanes of the start are all that there are, until EXEC may
have gained others.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.amd.kernel_program import KernelProgram, Touch
from regweave.assembly.flow import Flow

Part = tuple[int, int]  # a variable, and which of its registers
# whether all lanes are on, and the pairs of registers that hold the full mask
State = tuple[bool, frozenset[tuple[Part, ...]]]
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
    written = [touch for touch in program.touches[i] if touch.role]
    if not written:
        return state
    instruction = program.shapes[i].instruction.name
    changes = any(names[touch.variable] in _EXEC for touch in written)
    result = _parts(written, names)
    kept = frozenset(pair for pair in holders if not set(pair) & set(result))
    if not changes:
        if instruction == "s_mov_b64" and full and _reads_exec(program, i, names):
            return full, kept | {result}
        return full, kept
    operands = program.lines[i].partition(" ")[2].replace(" ", "").split(",")
    with_exec = "exec" in operands[1:]
    restores = instruction == "s_mov_b64" or (instruction == "s_or_b64" and with_exec)
    sources = _parts([touch for touch in program.touches[i] if touch.role == ""], names)
    if restores and sources in holders:
        return True, kept
    narrows = instruction == "s_and_saveexec_b64" or (instruction == "s_and_b64" and with_exec)
    if not (program.whole_waves or narrows or instruction.startswith("v_cmpx")):
        kept = frozenset()
    if instruction.endswith("_saveexec_b64"):
        return False, kept | ({result} if full else frozenset())
    return instruction == "s_mov_b64" and operands[-1] == "-1" and program.whole_waves, kept


def _parts(touches: Sequence[Touch], names: dict[int, str]) -> tuple[Part, ...]:
    """The registers of touches, without EXEC and SCC."""
    return tuple(
        (touch.variable, k)
        for touch in touches
        if names[touch.variable] not in (*_EXEC, "scc")
        for k in range(touch.first, touch.stop)
    )


def _reads_exec(program: KernelProgram, i: int, names: dict[int, str]) -> bool:
    return any(names[touch.variable] in _EXEC for touch in program.touches[i] if touch.role == "")
