"""How loads and stores are written: a cast of the address, one access of the right width.

    const uint4 v7 = *(const uint4 *)(tile + v3 + 32);      // the words are v7.x to v7.w
    *(uint2 *)(out + v4) = make_uint2(v8, v9);

Memories are pointers to bytes, so that addresses are what the program says. The known part of an address is
added last and to the pointer: instructions have room for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regweave.emitters.language import Place, Statement

_PARTS = "xyzw"


@dataclass(frozen=True)
class AccessTypes:
    """The names of unsigned types by their bytes, and how a vector of words is made: `{type}`, `{words}`."""

    names: Mapping[int, str]
    vector: str


def memory_statements(types: AccessTypes, qualifiers: Mapping[str, str]) -> dict[str, Statement]:
    """Loads and stores of shared and global memory; `qualifiers` are the words for each space, or empty."""
    statements: dict[str, Statement] = {}
    for space, qualifier in qualifiers.items():
        statements[f"{space}_load"] = _load(types, qualifier)
        statements[f"{space}_store"] = _store(types, qualifier)
    return statements


def _load(types: AccessTypes, qualifier: str) -> Statement:
    def written(place: Place) -> tuple[list[str], list[str]]:
        size, offset = place.step.numbers
        kind, name = types.names[size], place.names[0]
        held = types.names[max(size, 4)]  # narrow loads are extended with zeros
        pointer = f"({_words(qualifier, 'const', kind)} *)"
        line = f"const {held} {name} = *{pointer}({_address(place, offset)});"
        count = len(place.names)
        return [line], [name] if count == 1 else [f"{name}.{part}" for part in _PARTS[:count]]

    return written


def _store(types: AccessTypes, qualifier: str) -> Statement:
    def written(place: Place) -> tuple[list[str], list[str]]:
        size, offset = place.step.numbers
        kind, words = types.names[size], place.values[1:]
        value = words[0] if len(words) == 1 else types.vector.format(type=kind, words=", ".join(words))
        if size < 4:
            value = f"({kind}){value}"
        return [f"*({_words(qualifier, kind)} *)({_address(place, offset)}) = {value};"], []

    return written


def _address(place: Place, offset: int) -> str:
    return f"{place.step.symbol} + {place.values[0]}" + (f" + {offset}" if offset else "")


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)
