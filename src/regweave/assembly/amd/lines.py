"""A line of AMD assembly taken apart: `v_fma_f32 %0, -%1, s[2:3], 1.0 clamp`.

    >>> parse_line("global_load_dwordx4 %0, %1, off offset:16")
    Line(mnemonic='global_load_dwordx4', operands=('%0', '%1', 'off'), modifiers='offset:16')

Commas part the operands, except inside brackets; what follows the last operand behind a blank are modifiers.
An operand is a sign or an absolute value around one of: a name or number of the template (`%x`, `%0`) with a
part of its tuple (`%0.2`, `%0.0:1`), a register by its number (`v7`, `s[2:3]`), a special register, `off`, a
number, a label.
"""

from __future__ import annotations

import re
from functools import lru_cache

from regweave.assembly.reading import check_digits
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.table import SPECIAL
from regweave.values import frozen

_AROUND = re.compile(r"(-?(?:\||neg\(|abs\()?)(.*?)(\||\))?\Z", re.DOTALL)
_REFERENCE = re.compile(r"%?([A-Za-z_]\w*|\d+)(?:\.(\d+)(?::(\d+))?)?\Z")
_PHYSICAL = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])\Z")
_NUMBER = re.compile(
    r"[+-]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)\Z|src_(?:shared|private)_(?:base|limit)\Z"
)
_CALL = re.compile(r"(\w+)\((\w+)\)\Z")


@frozen
class Line:
    """The mnemonic, the operands' texts, and the modifiers as one text."""

    mnemonic: str
    operands: tuple[str, ...]
    modifiers: str


@frozen
class Operand:
    """An operand's text, read.

    `kind` is "reference" (a name or number of the template, `text`; registers `first` up to `stop` of it,
    `stop` 0 for all), "register" (`text` is the letter), "special", "off", "number" or "word"; `before` and
    `after` stand around it.
    """

    kind: str
    text: str
    first: int = 0
    stop: int = 0
    before: str = ""
    after: str = ""


@lru_cache(maxsize=4096)
def parse_line(text: str) -> Line:
    """The parts of a line; AssemblyError for unbalanced brackets, an empty operand, endless numbers."""
    check_digits(text)
    mnemonic, _, rest = text.strip().partition(" ")
    if not mnemonic:
        raise AssemblyError("the line is empty", expected="an instruction")
    pieces, depth, start = [], 0, 0
    for at, sign in enumerate(rest):
        depth += (sign in "([") - (sign in ")]")
        if depth < 0:
            break
        if sign == "," and not depth:
            pieces.append(rest[start:at].strip())
            start = at + 1
    last = rest[start:].strip()
    if depth:
        raise AssemblyError("brackets do not match", where=text)
    operand, modifiers = _split(last)
    if last or pieces:
        pieces.append(operand)
    if "" in pieces:
        raise AssemblyError("an operand is missing", where=text)
    return Line(mnemonic, tuple(pieces), modifiers)


def _split(text: str) -> tuple[str, str]:
    """The last operand and the modifiers: apart at the first blank outside brackets."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if sign.isspace() and not depth:
            return text[:at], " ".join(text[at:].split())
    return text, ""


@lru_cache(maxsize=4096)
def read_operand(text: str, *, bare: bool) -> Operand:
    """An operand's text, read. Without `bare`, names and numbers of the template begin with %.

    AssemblyError for endless numbers.
    """
    check_digits(text)
    before, core, after = _AROUND.match(text).groups("")  # type: ignore[union-attr]
    if bool(after) != before.endswith(("|", "(")):
        before, core, after = "", text, ""
    if _NUMBER.match(text):
        return Operand("number", text)
    if core in SPECIAL:
        return Operand("special", core, 0, 0, before, after)
    physical = _PHYSICAL.match(core)
    if physical is not None:
        letter, single, first, last = physical.groups()
        start = int(single or first)
        return Operand("register", letter, start, int(last or start) + 1, before, after)
    if core == "off":
        return Operand("off", core)
    reference = _REFERENCE.match(core)
    if reference is not None and (core.startswith("%") or (bare and not core[0].isdecimal())):
        name, first, last = reference.groups()
        start = int(first or 0)
        stop = 0 if first is None else int(last or start) + 1
        return Operand("reference", name, start, stop, before, after)
    return Operand("word", text)


def is_reserved(name: str) -> bool:
    """Whether a name already means something in a line: a register, `off`."""
    return name in SPECIAL or name == "off" or _PHYSICAL.match(name) is not None or name in ("v", "s", "a")


def argument_of(text: str) -> str | None:
    """The name in `argument(name)`, the place of a kernel's argument."""
    match = _CALL.match(text)
    return match[2] if match is not None and match[1] == "argument" else None
