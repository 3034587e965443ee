"""The keys of a table in a user's file: read as what they must be, or refused with the place.

>>> read_number({"lanes": 4}, "lanes", "board.toml, machine")
4
>>> read_number({"lanes": "4"}, "lanes", "board.toml, machine")
InputError: lanes = '4' (board.toml, machine), expected a whole number, 1 to 1073741824
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regweave.errors import InputError, unknown_name


def check_keys(values: Any, known: Iterable[str], where: str, required: Iterable[str] = ()) -> None:
    """InputError unless `values` is a table with known keys only and all required ones."""
    known = set(known)
    if not isinstance(values, Mapping):
        raise InputError(f"{values!r} is no table", where=where, expected="keys " + ", ".join(sorted(known)))
    for key in values:
        if key not in known:
            raise unknown_name("key", key, sorted(known), where=where)
    for key in required:
        if key not in values:
            raise InputError(f"no {key}", where=where, expected=f"{key} = ...")


def read_text(values: Mapping[str, Any], key: str, where: str) -> str:
    """The line of text under a key; InputError for anything else."""
    if isinstance(values[key], str) and values[key].isprintable() and values[key]:
        return values[key]
    raise InputError(f"{key} = {values[key]!r}", where=where, expected="one line of text")


def read_names(values: Mapping[str, Any], key: str, where: str) -> list[str]:
    """The list of texts under a key; InputError for anything else."""
    names = values[key]
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    raise InputError(f"{key} = {names!r}", where=where, expected="a list of names")


def read_number(values: Mapping[str, Any], key: str, where: str, most: int = 1 << 30) -> int:
    """The whole number, 1 to `most`, under a key; InputError for anything else."""
    if type(values[key]) is int and 1 <= values[key] <= most:
        return values[key]
    raise InputError(f"{key} = {values[key]!r}", where=where, expected=f"a whole number, 1 to {most}")


def read_numbers(values: Mapping[str, Any], key: str, where: str) -> tuple[int, ...]:
    """The list of whole numbers, 1 or more, under a key; InputError for anything else."""
    if not isinstance(values[key], list):
        raise InputError(f"{key} = {values[key]!r}", where=where, expected="a list of whole numbers")
    return tuple(read_number({key: value}, key, where) for value in values[key])


def read_table(values: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """The table under a key, empty if there is none; InputError for anything else."""
    table = values.get(key, {})
    if isinstance(table, Mapping):
        return table
    raise InputError(f"{key} = {table!r}", where=where, expected=f"a table {key}")
