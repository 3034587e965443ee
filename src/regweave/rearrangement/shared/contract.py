"""What the caller of a function that uses shared memory must provide and keep to, as comments above its code.

>>> memory_comments(program)
("shared: 2112 bytes of shared memory from a multiple of 16 on, for this warp alone.", ...)
"""

from __future__ import annotations

from regweave.programs import Program


def memory_comments(program: Program | None) -> tuple[str, ...]:
    """The lines for a program's shared memory; none if it has no such memory, or there is no program."""
    if program is None or not any(memory.space == "shared" for memory in program.memories):
        return ()
    scopes = {step.symbol for step, _ in program.walk() if step.opcode == "barrier"}
    lanes = program.lanes * program.warps
    owner = "this block" if "block" in scopes else "this warp" if program.warps == 1 else "these warps"
    lines = [
        f"{memory.name}: {memory.bytes} bytes of shared memory from a multiple of 16 on, for {owner} alone."
        for memory in program.memories
    ]
    if not scopes:
        return (*lines, "Every lane uses places of its own: no lane waits for another, before or after.")
    if "block" in scopes:
        caller, barrier = f"All threads of a block of {lanes} threads", "block"
    elif program.warps > 1:
        caller, barrier = f"All threads of a block of {lanes} threads", "warp"
    else:
        caller, barrier = f"All {lanes} lanes of the warp", "warp"
    return (
        *lines,
        f"{caller} must call it together.",
        f"It waits inside for all lanes of the {barrier} and returns when this lane has its words: a barrier",
        f"of the {barrier} must stand between it and what writes to this memory next, another call included.",
    )
