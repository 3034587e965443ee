"""Registers that a template names outright, and what its instructions change without naming it.

    b.emit_template("mov rbx, 5")               refused: nobody knows who lives in rbx
    rbx = b.general("rbx", pin="rbx")           a variable that gets rbx, which is saved and restored
    b.emit_template("mov %=0, 5", rbx)

Assignment sees variables only. A register in a template's text could hold anybody's value, so it must be
declared: as a pinned variable, or, where the template destroys it, among its pattern's `clobbers`.
"""

from __future__ import annotations

import re

from regweave.errors import AssemblyError
from regweave.machines.instructions import Pattern
from regweave.machines.target import AssemblyMachine

_WORD = re.compile(r"[A-Za-z]\w*")
#: What is in brackets parts no operands.
_OUTSIDE = re.compile(r"\[[^]]*\]|\{[^}]*\}")


def check_outright(pattern: Pattern, machine: AssemblyMachine) -> None:
    """AssemblyError for a register that `pattern` names or changes and does not declare."""
    for line in pattern.parsed:
        words = [word.lower() for piece in line.pieces for word in _WORD.findall(piece)]
        text = "".join(f"{piece}%" for piece in line.pieces)[:-1]
        for word in words:
            if word in machine.unnamable:
                raise AssemblyError(
                    f"a template names {word!r}: {machine.unnamable[word]}", where=text.strip()
                )
            register = machine.spellings.get(word)
            if register is not None and register not in pattern.clobbers:
                raise AssemblyError(
                    f"a template names {word!r}, which may hold anybody's value",
                    where=text.strip(),
                    fix=f"bind a variable pinned to {register!r}, or a Pattern that clobbers {register!r}",
                )
        operands = len(_OUTSIDE.sub("", text).split(","))
        changed = [r for word in words for r in machine.destroyed(word, operands)]
        missing = [r for r in changed if r not in pattern.clobbers]
        if missing:
            raise AssemblyError(
                f"{words[0]!r} changes {', '.join(missing[:4])}{', ...' if missing[4:] else ''}",
                where=text.strip(),
                fix="use a Pattern whose clobbers name what it changes",
            )


def flags_of(lines: tuple[str, ...], machine: AssemblyMachine) -> str | None:
    """ "lost" if one of a template's lines may change the condition flags."""
    changed = any(machine.changes_flags(line.partition(" ")[0].lower()) for line in lines)
    return "lost" if changed else None
