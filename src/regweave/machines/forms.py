"""Forms: a pattern bound to kinds of operands and ready to print.

A generator emits the same few shapes thousands of times (`fma` of three vector registers; `fma` with the last
one in memory). Each shape is worked out once and kept, so that emitting is one dictionary look-up and
printing one `%`:

    >>> from regweave.machines.x86 import AVX512
    >>> form = AVX512.table.form("fma", ("v", "v", "m"))
    >>> form.text
    'vfmadd231ps %s, %s, zmmword ptr %s'
    >>> form.render(("zmm0", "zmm1", "[rdi]"), {})
    'vfmadd231ps zmm0, zmm1, zmmword ptr [rdi]'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from regweave.machines.instructions import ACCEPTS, Pattern, Token

Views = Mapping[str, Mapping[str, str]]


class Form:
    """One pattern for one tuple of operand kinds.

    `reads` and `writes` are operand numbers (an operand may be in both; memory operands only read their
    address). `limits` are (operand number, bound) of the numbers that have one. `text` prints all lines with
    `%s` for tokens. `constants` are words that follow the operands, `names` registered names that follow
    those. `copy` is (destination, source) if the first line only moves one register to another: `rest` then
    prints the other lines. `special` says that emitting needs more than the operand masks.
    """

    __slots__ = (
        "clobbers",
        "conflicts",
        "constants",
        "control",
        "copy",
        "flags",
        "limits",
        "lines",
        "name",
        "name_reads",
        "name_writes",
        "names",
        "operands",
        "pattern",
        "pick",
        "pick_rest",
        "reads",
        "rest",
        "scratch",
        "special",
        "text",
        "tokens",
        "writes",
    )

    def __init__(
        self,
        name: str,
        pattern: Pattern,
        kinds: Sequence[str],
        memory: Mapping[str, tuple[str, str]],
        moves: frozenset[str],
    ) -> None:
        self.name = name
        self.pattern = pattern
        self.operands = pattern.constraints
        self.control = pattern.control
        self.flags = pattern.flags
        self.clobbers = pattern.clobbers
        self.scratch = tuple(operand for operand in self.operands if operand.scratch)
        registers = [
            i for i, operand in enumerate(self.operands) if operand.scratch or kinds[i][0] not in "mbcil"
        ]
        held = set(registers)
        accesses = pattern.accesses
        self.reads = tuple(
            i for i, access in enumerate(accesses) if access.read or (i not in held and kinds[i] in ACCEPTS)
        )
        self.writes = tuple(i for i in registers if accesses[i].first_write is not None)
        self.limits = tuple(
            (i, operand.below)
            for i, operand in enumerate(self.operands)
            if operand.below is not None and kinds[i] == "i"
        )
        self.conflicts = tuple((i, j) for i, j in pattern.conflicts if i in held)
        self._print(kinds, memory)
        self.copy: tuple[int, int] | None = None
        self.rest, self.pick_rest = "", self.pick
        first = pattern.parsed[0]
        if (
            first.pieces[0].strip() in moves
            and len(registers) >= 2
            and all(isinstance(t, Token) and t.target in held and not t.view for t in first.tokens)
            and all(operand.count == 1 for operand in self.operands)
        ):
            destination, source = (token.target for token in first.tokens)  # type: ignore[union-attr]
            self.copy = (destination, source)  # type: ignore[assignment]
            self.rest = self.text.partition("\n")[2]
            self.pick_rest = _picker(self.tokens[2:])
        self.special = bool(
            self.scratch
            or self.limits
            or self.conflicts
            or self.clobbers
            or self.control
            or self.flags
            or self.constants
            or self.names
            or self.copy
        )

    def _print(self, kinds: Sequence[str], memory: Mapping[str, tuple[str, str]]) -> None:
        """Lay out `text`, `tokens`, `constants` and `names`."""
        affixes = []
        for operand, kind in zip(self.operands, (*kinds, *("" for _ in self.scratch)), strict=True):
            letter = kind
            if kind in ACCEPTS:
                letter = next(letter for letter in operand.letters if letter in ACCEPTS[kind])
            affixes.append(memory.get(letter, ("", "")))
        constants: list[str] = []
        names: list[str] = []
        read: set[str] = set()
        written: set[str] = set()
        for line in self.pattern.parsed:
            for token in line.tokens:
                if isinstance(token, str):
                    if token not in constants:
                        constants.append(token)
                elif isinstance(token.target, str):
                    if token.target not in names:
                        names.append(token.target)
                    if token.role != "=":
                        read.add(token.target)
                    if token.role:
                        written.add(token.target)
        self.constants, self.names = tuple(constants), tuple(names)
        self.name_reads = tuple(name in read for name in names)
        self.name_writes = tuple(name in written for name in names)
        base = len(self.operands)
        lines, tokens = [], []
        for line in self.pattern.parsed:
            text = line.pieces[0]
            for token, piece in zip(line.tokens, line.pieces[1:], strict=True):
                if isinstance(token, str):
                    index, element, view, affix = base + constants.index(token), None, "", memory["#"]
                elif isinstance(token.target, str):
                    index, element, view, affix = (
                        base + len(constants) + names.index(token.target),
                        None,
                        token.view,
                        ("", ""),
                    )
                else:
                    index, view, affix = token.target, token.view, affixes[token.target]
                    element = token.element if self.operands[index].count > 1 else None
                tokens.append((index, element, view))
                text += f"{affix[0]}%s{affix[1]}{piece}"
            lines.append(text)
        self.text = "\n".join(lines)
        self.lines = len(lines)
        self.tokens = tuple(tokens)
        self.pick = _picker(self.tokens)

    def render(self, texts: Sequence[Any], views: Views) -> str:
        """The lines, given each operand's text (of several registers: a tuple whose str() is the whole
        run)."""
        return self.text % self.pick(texts, views)

    def __repr__(self) -> str:
        return f"<form of {self.name}: {self.text!r}>"


def _picker(
    tokens: Sequence[tuple[int, int | slice | None, str]],
) -> Callable[[Sequence[Any], Views], tuple[str, ...]]:
    """A function that picks the tokens' texts, in order, from the operands' texts."""
    if any(element is not None or view for _, element, view in tokens):

        def pick(texts: Sequence[Any], views: Views) -> tuple[str, ...]:
            chosen = []
            for index, element, view in tokens:
                text = texts[index] if element is None else texts[index][element]
                chosen.append(views[view][text] if view else text)
            return tuple(chosen)

        return pick
    indexes = [index for index, _, _ in tokens]
    if not indexes:
        return lambda texts, views: ()
    if len(indexes) == 1:
        only = indexes[0]
        return lambda texts, views: (texts[only],)
    getter = itemgetter(*indexes)
    return lambda texts, views: getter(texts)
