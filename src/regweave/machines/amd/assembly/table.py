"""The instruction table of a GCN or CDNA machine, made of rows and of the catalogue's matrix instructions.

    >>> table = make_table("gfx90a")
    >>> table["v_fma_f32"].signatures[0]
    (Slot(role='=', letters='v', count=1), Slot(role='', letters='vsi', count=1), ...)
    >>> table["v_mfma_f32_32x32x8_f16"].mnemonic, table["v_mfma_f32_32x32x8_f16"].passes
    ('v_mfma_f32_32x32x8f16', 16)

The `unit` says who executes an instruction, and with it which waits and distances it needs. Matrix
instructions have their spelling on the machine: gfx90a knows the older names only.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from regweave.errors import AssemblyError, nearest_names
from regweave.machines.amd.assembly.rows import MEMORY, SCALAR, VECTOR, Row
from regweave.machines.amd.generations import INSTRUCTIONS
from regweave.machines.gpu import MatrixInstruction
from regweave.values import frozen

#: Special registers by the name that operands have, as the registers that the analysis follows.
SPECIAL = {
    "vcc": ("vcc_lo", "vcc_hi"),
    "exec": ("exec_lo", "exec_hi"),
    "vcc_lo": ("vcc_lo",),
    "vcc_hi": ("vcc_hi",),
    "exec_lo": ("exec_lo",),
    "exec_hi": ("exec_hi",),
    "m0": ("m0",),
    "scc": ("scc",),
}
#: The machines that the rows speak of.
MACHINES = ("gfx906", "gfx90a", "gfx942")
UNITS = ("scalar", "scalar_memory", "vector", "matrix", "shared", "global", "flat", "buffer", "control")
_SLOT = re.compile(r"([=+]?)([vsawoilx]+)(\d*)(\*?)\Z")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa)\Z")
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
#: Those whose 16-bit result leaves the other half of its register alone.
_KEEPING = re.compile(
    r"v_(mad|fma|div_fixup)_f16\Z|v_mad_[iu]16\Z|v_(min|max|med)3_[fiu]16\Z|v_cvt_pk_(fp8|bf8)_f32\Z"
)
#: Modifiers by the names that rows use, where a machine has its own.
_SPELLED = {"gfx942": {"glc": "sc0"}}
_CONTROL = {"s_branch": "jump", "s_endpgm": "leave", "s_setpc_b64": "leave"}


@frozen
class Slot:
    """One operand: its role ("", "=" or "+"), the letters that it may be, and how many registers. Of a
    `relative` one M0 says how many registers further the one that is meant lies."""

    role: str
    letters: str
    count: int = 1
    relative: bool = False


@frozen
class Worded:
    """A way to write an instruction's operands that a modifier asks for: `glc` for a former value. `reads`
    are special registers that it reads beside them."""

    word: str
    slots: tuple[Slot, ...]
    reads: tuple[str, ...] = ()


@frozen(eq=False)
class GcnInstruction:
    """One instruction: ways to write its operands, special registers that it reads and writes beside them.

    `unit` is one of UNITS; `control` is "jump", "branch" or "leave" where it leaves the straight line. Of a
    matrix instruction `passes` is how many passes of four clocks it takes; `double` says that its numbers are
    f64, `fast` that it runs in the pipeline that gfx942 has for short types. `worded` are ways that a
    modifier asks for. LLVM knows distances for the groups `transcendental` and `dot`.
    """

    name: str
    mnemonic: str
    unit: str
    signatures: tuple[tuple[Slot, ...], ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    control: str | None = None
    passes: int = 0
    double: bool = False
    fast: bool = False
    worded: tuple[Worded, ...] = ()

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise AssemblyError(f"unit {self.unit!r} of {self.name} is unknown", expected=", ".join(UNITS))
        if (self.unit == "matrix") != bool(self.passes):
            raise AssemblyError(f"{self.name} is a matrix instruction without passes, or the reverse")
        for slots in self.signatures:
            if "=" in [slot.role for slot in slots if set(slot.letters) <= set("iolx")]:
                raise AssemblyError(f"{self.name} writes an operand that is no register")
        if len(set(map(str, self.signatures))) != len(self.signatures):
            raise AssemblyError(f"{self.name} has one way to write its operands twice")

    def ways(self, modifiers: Collection[str]) -> tuple[tuple[Slot, ...], ...]:
        """The ways to write its operands beside these modifiers."""
        asked = tuple(way.slots for way in self.worded if way.word in modifiers)
        return asked or self.signatures

    def reads_beside(self, modifiers: Collection[str]) -> tuple[str, ...]:
        """Special registers that it reads without naming them."""
        asked = next((way.reads for way in self.worded if way.word in modifiers), ())
        return (*self.reads, *asked)

    @property
    def transcendental(self) -> bool:
        """Whether the slow unit of special functions executes it."""
        return _TRANSCENDENTAL.match(self.name) is not None

    @property
    def keeps(self) -> bool:
        """Whether its 16-bit result leaves the other half of its register alone."""
        return _KEEPING.match(self.name) is not None

    @property
    def dot(self) -> bool:
        """Whether it is a dot product."""
        return self.name.startswith("v_dot")


def encoding_of(mnemonic: str) -> str:
    """The ending of a mnemonic that asks for an encoding: `_e32`, `_e64`, `_dpp`, `_sdwa`, or none."""
    match = _SUFFIX.search(mnemonic)
    return match[0] if match else ""


class GcnTable(Mapping[str, GcnInstruction]):
    """The instructions of a machine by name, older spellings of matrix instructions included."""

    def __init__(self, machine: str, instructions: Mapping[str, GcnInstruction]) -> None:
        self.machine = machine
        self._instructions = dict(instructions)

    def __getitem__(self, name: str) -> GcnInstruction:
        found = self._instructions.get(name) or self._instructions.get(_SUFFIX.sub("", name))
        if found is None:
            others = [other for other in MACHINES if other != self.machine and name in make_table(other)]
            raise AssemblyError(
                f"{self.machine} has no instruction {name!r}",
                nearest=nearest_names(name, self._instructions),
                fix=f"{' and '.join(others)} have it" if others else None,
            )
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _SUFFIX.sub("", name) in self._instructions

    def __iter__(self) -> Iterator[str]:
        return iter(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)


@lru_cache
def make_table(machine: str) -> GcnTable:
    """The table of `gfx906`, `gfx90a` or `gfx942`. AssemblyError where a row contradicts itself."""
    found: dict[str, GcnInstruction] = {}
    for row in (*SCALAR, *VECTOR, *MEMORY):
        for entry in _expand(row, machine):
            if entry.name in found:
                raise AssemblyError(f"instruction {entry.name!r} stands twice in the table of {machine}")
            found[entry.name] = entry
    for name in INSTRUCTIONS.on(machine):
        if name.startswith("v_mfma"):
            for spelling, made in _matrix(INSTRUCTIONS[name], machine):
                found.setdefault(spelling, made)
    return GcnTable(machine, found)


def _expand(row: Row, machine: str) -> Iterator[GcnInstruction]:
    machines, operands, implied, names = row
    if machines and machine not in machines.split():
        return
    signatures, worded = _ways(operands, machine)
    reads = tuple(word.lstrip("+") for word in implied.split() if not word.startswith("="))
    writes = tuple(word.lstrip("=+") for word in implied.split() if word[0] in "=+")
    for pattern in names.split():
        for name in _spread(pattern):
            yield GcnInstruction(
                name, name, _unit(name), signatures, reads, writes, _control(name), worded=worded
            )


def _spread(pattern: str) -> Iterator[str]:
    """`s_{and,or}_b32`: each of the names."""
    pieces = _BRACES.split(pattern)
    choices = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    return ("".join(chosen) for chosen in itertools.product(*choices))


def _ways(operands: str, machine: str) -> tuple[tuple[tuple[Slot, ...], ...], tuple[Worded, ...]]:
    """The ways to write operands, and those that a modifier asks for."""
    loadable = "v" if machine == "gfx906" else "va"
    signatures, worded = [], []
    for way in operands.split(" / "):
        condition, _, plain = way.rpartition(": ")
        slots = tuple(_slot(word, loadable) for word in plain.split())
        if not condition:
            signatures.append(slots)
            continue
        word, *reads = condition.split("+")
        spelled = _SPELLED.get(machine, {}).get(word, word)
        worded.append(Worded(spelled, slots, tuple(reads)))
    return tuple(signatures), tuple(worded)


def _slot(word: str, loadable: str) -> Slot:
    match = _SLOT.match(word)
    if match is None:
        raise AssemblyError(f"operand {word!r} of a row cannot be read", expected="like =v4, vsi or l")
    role, letters, count, relative = match.groups()
    return Slot(role, letters.replace("w", loadable), int(count or 1), bool(relative))


def _unit(name: str) -> str:
    if name.startswith(("s_load", "s_buffer", "s_dcache", "s_mem")):
        return "scalar_memory"
    if name.startswith(("s_branch", "s_cbranch", "s_endpgm", "s_barrier", "s_waitcnt", "s_nop")):
        return "control"
    units = {"s": "scalar", "v": "vector", "ds": "shared"}
    head = name.partition("_")[0]
    return units.get(head, head)


def _control(name: str) -> str | None:
    return "branch" if name.startswith("s_cbranch") else _CONTROL.get(name)


def _matrix(entry: MatrixInstruction, machine: str) -> Iterator[tuple[str, GcnInstruction]]:
    """A matrix instruction under each of its spellings."""
    new = entry.name.partition(".")[0]
    names = (new, *entry.aliases)
    # old spellings are the only ones on gfx90a, and aliases on gfx942
    mnemonic = names[-1] if machine == "gfx90a" else new
    counts = {operand: entry.fragments[operand].registers for operand in "ABCD"}
    slots = (
        Slot("=", "va", counts["D"]),
        Slot("", "va", counts["A"]),
        Slot("", "va", counts["B"]),
        Slot("", "vai", counts["C"]),
    )
    double = entry.fragments["A"].dtype == "f64"
    fast = machine == "gfx942" and entry.fragments["A"].dtype not in ("f32", "f64")
    passes = _passes(entry, machine, double, fast)
    for name in names:
        yield (
            name,
            GcnInstruction(name, mnemonic, "matrix", (slots,), passes=passes, double=double, fast=fast),
        )


def _passes(entry: MatrixInstruction, machine: str, double: bool, fast: bool) -> int:
    """Passes of four clocks: by the tile's side; half as many where gfx942 multiplies one block of short
    types at double rate."""
    if double:
        return 4 if entry.m == 4 else 8
    passes = {4: 2, 16: 8, 32: 16}[entry.m]
    return passes // 2 if fast and entry.blocks == 1 else passes
