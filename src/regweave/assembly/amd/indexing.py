"""Registers chosen while the kernel runs: vector registers in index mode, scalar ones by `s_movrel`.

    s_set_gpr_idx_on i, gpr_idx(SRC0)      M0 = i; the first source's register number is added to it
    v_mov_b32 x, table.0                   reads table.0, table.1, ... : whichever i says
    s_set_gpr_idx_off

Which register is meant is not known beforehand, so all from the named one to the variable's last count as
read; one of them is written and the others keep what they hold. The mode is followed in the order in which
the instructions are written, so that between on and off there may be no label and no branch.

Facts: AMD's "Vega 7nm" manual, "VGPR indexing": the modes are SRC0, SRC1, SRC2 and DST; memory instructions
are not affected.
"""

from __future__ import annotations

import re

from regweave.assembly.amd.lines import Line
from regweave.errors import AssemblyError, nearest_names
from regweave.machines.amd.assembly.table import GcnInstruction

_MODES = ("SRC0", "SRC1", "SRC2", "DST")
_MODE = re.compile(r"gpr_idx\(([\w,]*)\)\Z")
_STRAIGHT = "labels and branches stand outside of s_set_gpr_idx_on ... s_set_gpr_idx_off"


class Indexing:
    """Follows the mode through the kernel called `name`, instruction by instruction."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._on: frozenset[str] | None = None

    def step(self, instruction: GcnInstruction, line: Line) -> frozenset[int]:
        """The operands of an instruction to whose registers M0 is added. AssemblyError where the mode cannot
        be known."""
        head = instruction.name
        if head in ("s_set_gpr_idx_on", "s_set_gpr_idx_mode"):
            if (self._on is None) == (head == "s_set_gpr_idx_mode"):
                already = "on" if self._on is not None else "off"
                raise AssemblyError(f"{head} while the index mode is {already}", where=self._name)
            self._on = _read(line.operands[-1] if line.operands else "")
            return frozenset()
        if head == "s_set_gpr_idx_off":
            self._on = None
            return frozenset()
        if self._on is None:
            return frozenset()
        if instruction.control is not None:
            self.require_off(f"{head!r} stands in index mode")
        if instruction.unit == "matrix" or (instruction.unit == "vector" and "lane" in head):
            raise AssemblyError(
                f"{head!r} cannot be used in index mode",
                where=self._name,
                fix="put s_set_gpr_idx_off before it",
            )
        if instruction.unit != "vector":
            return frozenset()
        roles = [slot.role for slot in instruction.signatures[0]]
        sources = [number for number, role in enumerate(roles) if role != "="]
        found = {0} if "DST" in self._on and roles and roles[0] else set()
        if roles and roles[0] == "+" and sources[:1] == [0]:
            sources = sources[1:]  # the result that is added to
        return frozenset(
            found | {sources[int(mode[-1])] for mode in self._on - {"DST"} if int(mode[-1]) < len(sources)}
        )

    def require_off(self, what: str) -> None:
        """AssemblyError if the mode is on where it must not be."""
        if self._on is not None:
            raise AssemblyError(what, where=self._name, expected=_STRAIGHT)


def _read(text: str) -> frozenset[str]:
    match = _MODE.match(text.replace(" ", ""))
    modes = [mode for mode in match[1].split(",") if mode] if match is not None else []
    wrong = [mode for mode in modes if mode not in _MODES]
    if match is None or wrong:
        raise AssemblyError(
            f"index mode {text!r} cannot be read",
            expected="like gpr_idx(SRC0,DST)",
            nearest=nearest_names(wrong[0], _MODES) if wrong else (),
        )
    return frozenset(modes)
