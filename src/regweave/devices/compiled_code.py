"""Compiled code as what it costs: which instructions there are, counted by what they do.

    >>> code.count("exchange"), code.count("select"), len(code)
    (16, 32, 91)

It is read from what a disassembler or a compiler prints. The kinds are the same for all vendors, so
that a plan's figures can be compared with what was compiled on any of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# between registers of lanes; choices; bytes of two registers; shared memory; spilled registers; the rest
KINDS = (
    "exchange",
    "select",
    "byte_permute",
    "convert",
    "shared_store",
    "shared_load",
    "barrier",
    "local",
    "matrix",
    "other",
)


@dataclass(frozen=True)
class CompiledCode:
    """The mnemonics of a kernel in order, without what only fills space, and the kind of each."""

    mnemonics: tuple[str, ...]
    kinds: tuple[str, ...]

    def count(self, kind: str) -> int:
        """How many instructions are of this kind."""
        assert kind in KINDS, kind
        return self.kinds.count(kind)

    def __len__(self) -> int:
        return len(self.mnemonics)


def classified(mnemonics: list[str], patterns: Mapping[str, str]) -> CompiledCode:
    """The code of these mnemonics; `patterns` are regular expressions of whole mnemonics, by kind."""
    compiled = [(kind, re.compile(pattern)) for kind, pattern in patterns.items()]
    kinds = (
        next((kind for kind, pattern in compiled if pattern.fullmatch(mnemonic)), "other")
        for mnemonic in mnemonics
    )
    return CompiledCode(tuple(mnemonics), tuple(kinds))
