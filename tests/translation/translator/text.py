"""A whole text: every line translated or left, the register file entered in every function."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from regweave.errors import AssemblyError, nearest_names
from translator import lanewise, masks, moves, narrowing, picks, scaling, spreads, state, tables
from translator.entering import prologue
from translator.pieces import clear
from translator.reading import Instruction, Register, read

#: What translates an instruction, by its name.
TRANSLATORS: dict[str, Callable[[Instruction], list[str]]] = {
    **dict.fromkeys((*tables.SAME, *tables.ROUNDED), lanewise.same),
    **dict.fromkeys((*tables.COMPARED, *tables.TESTED), lanewise.compared),
    **dict.fromkeys(tables.WIDENED, lanewise.widened),
    **dict.fromkeys(moves.MOVED, moves.moved),
    **dict.fromkeys(moves.SINGLE, moves.single),
    **dict.fromkeys(moves.PARTS, moves.parts),
    **dict.fromkeys(spreads.SPREAD, spreads.spread),
    **dict.fromkeys(masks.LOGIC, masks.logic),
    **dict.fromkeys(masks.COPIES, masks.inverted),
    **dict.fromkeys(masks.SHIFTS, masks.shifted),
    **dict.fromkeys(masks.MOVES, masks.moved),
    **dict.fromkeys(masks.CHOICES, masks.chosen),
    **dict.fromkeys(picks.INDEXED, picks.indexed),
    **dict.fromkeys(picks.QUARTERS, picks.quarters),
    **dict.fromkeys(picks.SLIDES, picks.slid),
    **dict.fromkeys(narrowing.NARROWED, narrowing.narrowed),
    **dict.fromkeys(narrowing.HALVED, narrowing.halved),
    "vscalefps": scaling.scaled,
    "vreduceps": scaling.reduced,
}

_WIDE = re.compile(r"\bzmm\d|\b[xy]mm(?:1[6-9]|2\d|3[01])\b|\bk[0-7]\b")
_VECTOR = re.compile(r"\b(?:[xyz]mm\d+|k[0-7])\b")
_GLOBAL = re.compile(r"\s*\.globl\s+(\S+)")
_LABEL = re.compile(r"\s*([\w.$]+):\s*(.*)\Z")
#: Instructions that read or write vector registers that they do not name.
_HIDDEN = re.compile(r"(?:fx|x)(?:save|rstor)|emms|vzeroall")


def is_wide(text: str) -> bool:
    """Whether a text names registers that only AVX-512 has."""
    return _WIDE.search(text) is not None


def translate(text: str) -> str:
    """The text for AVX2; AssemblyError for a line that nobody knows how to translate."""
    entries = set(_GLOBAL.findall(text))
    out = []
    for line in text.split("\n"):
        label = _LABEL.match(line)
        while label is not None:
            out.append(f"{label[1]}:")
            if label[1] in entries:
                out += prologue(label[1])
            line = label[2]
            label = _LABEL.match(line)
        if line.strip():
            out.append(_translated(line.split("#")[0].strip()))
    return "\n".join(out) + "\n" + state.constants_text()


@lru_cache(maxsize=1 << 16)
def _translated(line: str) -> str:
    """The lines for one instruction or directive."""
    mnemonic = line.partition(" ")[0]
    if line.startswith(".") or not line:
        return line
    if mnemonic == "vzeroupper":
        lines = [line for number in range(16) for line in clear(Register("x", number))]
        return "\n".join([*dict.fromkeys(lines), line])
    translator = TRANSLATORS.get(mnemonic)
    if translator is not None:
        try:
            return "\n".join(translator(read(line)))
        except (ValueError, IndexError, AttributeError, KeyError):
            raise read(line).refuse() from None
    if mnemonic[0] in "vk" or _VECTOR.search(line) or _HIDDEN.match(mnemonic):
        raise AssemblyError(
            f"`{line}` is not translated: nobody knows {mnemonic}",
            nearest=nearest_names(mnemonic, TRANSLATORS),
            fix="add it to tests/translation",
        )
    return line
