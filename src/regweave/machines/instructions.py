"""Instruction tables: assembly templates with operands and constraints, as data that validates itself.

A generator says *what* (`fma`), the table of a machine says *how*. One entry may be several lines; it still
counts as one operation, so a macro costs a generator no more than a single instruction. Worked example:

    Pattern("d:v a:v b:v|m", "vfmadd231ps %+0, %1, %2")

reads: three operands; the first two are vector registers, the third is one or a memory operand. In the lines,
`%1` reads operand 1, `%=0` writes operand 0 and `%+0` does both. What an operand does as a whole, and which
operands must not share a register although one dies where the other is born (a line reads it after another
line wrote the result), is derived from the lines, so it cannot be declared wrongly. Further signs:

    ~t:v          a scratch register of class v that lives only inside the entry
    count:i<64    an immediate from 0 to 63
    d:v4@2        four consecutive registers, the first a multiple of two; `%0.3` is the last, `%0.0:1` the
                  first two, `%0` all
    %1:x          operand 1 under its view x (the xmm part of zmm), :d (32 bits of a general one)
    %#7fffffff    a constant of the table: this 32-bit word in every lane, from the constant pool
    %#iota        likewise the lane numbers 0, 1, 2, ...
    %name         a register registered under that name (only in a user's own templates)

Kinds of operand: the letter of a register class, `i` (immediate), `l` (label), or memory. Memory letters say
how a memory operand is written (`m` a full vector, `s` 32 bits, `q` 64 bits, `a` the bare address), see
`Table.memory`. `b` is a memory operand whose one element is repeated to all lanes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regweave.errors import AssemblyError
from regweave.values import frozen

CONTROLS = ("jump", "branch", "call", "return", "leave")
FLAGS = ("set", "lost", "read")

#: Which constraint letters a kind of memory satisfies: it is written in the form that the entry wants.
ACCEPTS = {"m": "msqdwha", "b": "bs", "c": "ms"}

_TOKEN = re.compile(r"%(?:#([0-9a-f]{8}|iota)|([=+]?)(\d+|[A-Za-z_]\w*)(?:\.(\d+)(?::(\d+))?)?(?::([a-z]))?)")
_OPERAND = re.compile(r"(~?)(\w+):([a-z](?:\|[a-z])*)([1-9]\d*)?(?:@([1-9]\d*))?(?:<(\d+))?\Z")


@frozen
class Operand:
    """An operand's constraint: name, letters it may be, registers and their alignment, scratch or not.

    `below` bounds an immediate: 0 <= number < below; None where the assembler knows what fits.
    """

    name: str
    letters: tuple[str, ...]
    count: int = 1
    alignment: int = 1
    scratch: bool = False
    below: int | None = None

    @classmethod
    def parse(cls, text: str) -> Operand:
        """From the notation `d:v`, `b:v|m`, `d:v4@2`, `n:i<64`, `~t:k`."""
        match = _OPERAND.match(text)
        if match is None:
            raise AssemblyError(
                f"operand constraint {text!r} cannot be read",
                expected="like d:v, b:v|m, d:v4@2, n:i<64 or ~t:v",
            )
        scratch, name, letters, count, alignment, below = match.groups()
        return cls(
            name,
            tuple(letters.split("|")),
            int(count or 1),
            int(alignment or 1),
            bool(scratch),
            None if below is None else int(below),
        )


@frozen
class Token:
    """An appearance in a line: `role` is "", "=" or "+"; `target` an operand number or a register's name.

    `element` is one register of a tuple, a slice several of them; None means all.
    """

    target: int | str
    role: str
    element: int | slice | None
    view: str

    def of(self, registers: tuple[str, ...]) -> tuple[str, ...]:
        """Those of an operand's registers that it means."""
        if self.element is None:
            return registers
        chosen = registers[self.element]
        return (chosen,) if isinstance(chosen, str) else tuple(chosen)


@frozen
class Line:
    """A parsed template line: text pieces between tokens; a token that is a str is a constant's word."""

    pieces: tuple[str, ...]
    tokens: tuple[Token | str, ...]

    @classmethod
    def parse(cls, text: str) -> Line:
        """Split `vaddps %=0, %1, %2` into text and tokens."""
        pieces, tokens, position = [], [], 0
        for match in _TOKEN.finditer(text):
            pieces.append(text[position : match.start()])
            word, role, target, element, last, view = match.groups()
            if word:
                tokens.append(word)
            else:
                tokens.append(
                    Token(
                        int(target) if target.isdigit() else target,
                        role,
                        slice(int(element), int(last) + 1) if last else int(element) if element else None,
                        view or "",
                    )
                )
            position = match.end()
        pieces.append(text[position:])
        if any("%" in piece for piece in pieces):
            raise AssemblyError(
                f"template {text!r} has a % that starts no operand", fix="write %0, %=0, %+0 or %name"
            )
        return cls(tuple(pieces), tuple(tokens))


@dataclass
class Access:
    """Where an entry first writes, last writes and last reads an operand; `read`: it needs the old value."""

    first_write: int | None = None
    last_write: int | None = None
    last_read: int | None = None
    read: bool = False

    def note(self, line: int, role: str) -> None:
        """Add one appearance: in a line, reads come before writes."""
        if role != "=":
            self.last_read = line
            self.read = self.read or self.first_write is None or self.first_write == line
        if role:
            self.last_write = line
            if self.first_write is None:
                self.first_write = line


@frozen
class Pattern:
    """One way to write an instruction: operands, lines, and what else happens.

    `clobbers` are registers that it destroys. `control` says how it leaves the straight line: "jump",
    "branch" (may fall through), "call" (a local routine), "return" (from a routine), "leave" (from the
    function). `flags` says what it does to the condition flags: "set" (a branch may follow), "lost", "read".
    `latency` and `throughput` (cycles per instruction) are notes for cost models, 0 if unknown. Parsing
    happens at first use, so that a table imports fast.
    """

    operands: str
    lines: str | tuple[str, ...]
    clobbers: tuple[str, ...] = ()
    control: str | None = None
    flags: str | None = None
    latency: float = 0.0
    throughput: float = 0.0

    def __post_init__(self) -> None:
        if self.control is not None and self.control not in CONTROLS:
            raise AssemblyError(
                f"control {self.control!r} of {self} is unknown", expected=", ".join(CONTROLS)
            )
        if self.flags is not None and self.flags not in FLAGS:
            raise AssemblyError(f"flags {self.flags!r} of {self} are unknown", expected=", ".join(FLAGS))

    def __str__(self) -> str:
        return repr(self.lines if isinstance(self.lines, str) else "; ".join(self.lines))

    @cached_property
    def constraints(self) -> tuple[Operand, ...]:
        """The parsed operands; scratch ones stand last."""
        parsed = tuple(Operand.parse(part) for part in self.operands.split())
        scratch = [operand.scratch for operand in parsed]
        if scratch != sorted(scratch):
            raise AssemblyError(f"in {self.operands!r} a scratch operand stands before a bound one")
        return parsed

    @cached_property
    def parsed(self) -> tuple[Line, ...]:
        """The parsed lines."""
        lines = (self.lines,) if isinstance(self.lines, str) else self.lines
        return tuple(Line.parse(line) for line in lines)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """What the lines do to each operand, in operand order."""
        found = [Access() for _ in self.constraints]
        for number, line in enumerate(self.parsed):
            for token in line.tokens:
                if isinstance(token, str) or isinstance(token.target, str):
                    continue
                if token.target >= len(found):
                    raise AssemblyError(
                        f"{self} uses operand %{token.target}", expected=f"{len(found)} operands"
                    )
                part = token.element
                first, stop = (
                    (part.start, part.stop) if isinstance(part, slice) else (part or 0, (part or 0) + 1)
                )
                if not first < stop <= self.constraints[token.target].count:
                    raise AssemblyError(
                        f"{self} uses %{token.target}.{stop - 1}, beyond the operand's registers"
                    )
                found[token.target].note(number, token.role)
        for operand, access in zip(self.constraints, found, strict=True):
            if access.first_write is None and access.last_read is None:
                raise AssemblyError(f"{self} never uses its operand {operand.name!r}")
            if operand.scratch and access.read:
                raise AssemblyError(f"{self} reads its scratch operand {operand.name!r} before writing it")
        return tuple(found)

    @cached_property
    def conflicts(self) -> tuple[tuple[int, int], ...]:
        """Pairs (written operand, other operand) that need different registers inside the entry.

        Either the first is written while the value that the other came with is still to be read, or both hold
        a value of the entry's own at the same time. Time runs in half lines: line t reads at 2t and writes at
        2t + 1.
        """
        spans = []
        for operand, access in zip(self.constraints, self.accesses, strict=True):
            start = -1 if access.read or access.first_write is None else 2 * access.first_write + 1
            end = max(2 * (access.last_read or 0), 2 * (access.last_write or 0) + 1)
            spans.append((start, end if operand.scratch else 2 * len(self.parsed)))
        pairs = []
        for (i, a), (j, b) in itertools.permutations(enumerate(self.accesses), 2):
            if a.first_write is None:
                continue
            if b.first_write is None or b.read:
                overlap = b.last_read is not None and a.first_write < b.last_read
            else:
                overlap = False
            if b.first_write is not None:
                overlap = overlap or (spans[i][0] <= spans[j][1] and spans[j][0] <= spans[i][1])
            if overlap:
                pairs.append((i, j))
        return tuple(pairs)


@frozen
class Instruction:
    """A named entry: its patterns, what it means on NumPy values, and a sentence for people.

    `meaning` takes the values of the non-scratch operands in order and returns the new value of the first one
    (see `machines/x86/meanings.py`); None for entries whose effect is not a value (jumps, prefetches).
    """

    name: str
    patterns: tuple[Pattern, ...]
    meaning: Callable[..., Any] | None = None
    help: str = ""

    @cached_property
    def takes_label(self) -> bool:
        """Whether its operand is a place in the program."""
        return any(operand.letters == ("l",) for pattern in self.patterns for operand in pattern.constraints)
