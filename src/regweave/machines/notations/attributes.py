"""The syntax of compiler attributes: `#dialect.name<{key = value, ...}>`, their aliases, and tensor types.

    >>> tensor = read_attribute("#mma = #ttg.nvidia_mma<{versionMajor = 2, ...}>\ntensor<16x8xf32, #mma>")
    >>> tensor.shape, tensor.dtype, tensor.attribute.name
    ((16, 8), 'f32', 'nvidia_mma')

Only syntax: what an attribute means is said in `triton.py`. The dialect is `ttg`, or `triton_gpu` in older
texts. A value is a number, a boolean, a list, a nested attribute, or a mapping in braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.machines.notations.cursor import Cursor

KIND = "a Triton attribute"
DIALECTS = ("ttg", "triton_gpu")
_DIMENSION = re.compile(r"[0-9]{1,9}x")
_DEEPEST = 16
# element types by the names that tensors give them
TENSOR_TYPES = {
    "f64": "f64",
    "f32": "f32",
    "f16": "f16",
    "bf16": "bf16",
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
    "f8E4M3FNUZ": "e4m3fnuz",
    "f8E5M2FNUZ": "e5m2fnuz",
    "i64": "b64",
    "i32": "s32",
    "i16": "s16",
    "i8": "s8",
    "i4": "s4",
}


@dataclass(frozen=True)
class Attribute:
    """`#ttg.name<{values}>`; `place` is where it stands in the text."""

    name: str
    values: Mapping[str, Any]
    place: str

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value called `key`; InputError if it is missing without default, or of another kind."""
        if key not in self.values:
            if default is not None:
                return default
            raise InputError(f"#ttg.{self.name} lacks {key}", where=self.place, expected=f"{key} = ...")
        value = self.values[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = {int: "a whole number", bool: "true or false", tuple: "a list", dict: "a mapping",
                     Attribute: "an attribute"}  # fmt: skip
            raise InputError(
                f"{key} of #ttg.{self.name} is {value!r}", where=self.place, expected=words.get(kind)
            )
        return value

    def sizes(self, key: str, count: int | None = None, *, powers: bool = True) -> tuple[int, ...]:
        """The list called `key`: `count` positive numbers, powers of two unless said otherwise."""
        values = self.get(key, tuple)
        right = all(
            isinstance(v, int) and v >= 1 and (not powers or v & (v - 1) == 0) and v <= 1 << 20
            for v in values
        )
        if not right or (count is not None and len(values) != count):
            numbers = "powers of two" if powers else "positive numbers"
            raise InputError(
                f"{key} of #ttg.{self.name} is {list(values)}",
                where=self.place,
                expected=numbers if count is None else f"{count} {numbers}",
            )
        return values

    def check_keys(self, *keys: str) -> None:
        """InputError if there are others than `keys`."""
        for key in self.values:
            if key not in keys:
                raise InputError(
                    f"#ttg.{self.name} has no {key!r}",
                    where=self.place,
                    expected=", ".join(keys),
                    nearest=nearest_names(key, keys),
                )


def is_vector(value: Any) -> bool:
    """Whether `value` is what a bit may add: a list [row, column] of two numbers that a tile can have."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(
            isinstance(part, int) and not isinstance(part, bool) and 0 <= part < 1 << 20 for part in value
        )
    )


@dataclass(frozen=True)
class Tensor:
    """An attribute, with the sizes and the element type of its tensor where the text gave them."""

    attribute: Attribute
    shape: tuple[int, ...] | None = None
    dtype: str | None = None


def read_attribute(text: str) -> Tensor:
    """The attribute or tensor type that `text` ends with, after any number of lines `#alias = #ttg...`.

    Raises InputError naming the place for text that is none, UnsupportedError for an element type without
    layout.
    """
    cursor = Cursor(text, KIND)
    aliases: dict[str, Attribute] = {}
    while True:
        if cursor.sees("tensor"):
            tensor = _tensor(cursor, aliases)
            cursor.finish()
            return tensor
        start = cursor.at
        cursor.take("#")
        name = cursor.word()
        if cursor.accept("="):
            if name in aliases:
                cursor.at = start
                cursor.fail("each alias once", f"#{name} is defined twice")
            aliases[name] = _attribute(cursor, aliases, 0)
            if cursor.finished:
                return Tensor(aliases[name])
            continue
        cursor.at = start
        attribute = _attribute(cursor, aliases, 0)
        cursor.finish()
        return Tensor(attribute)


def _attribute(cursor: Cursor, aliases: Mapping[str, Attribute], depth: int) -> Attribute:
    if depth > _DEEPEST:
        cursor.fail(f"at most {_DEEPEST} levels", "attributes nested too deep")
    place, start = cursor.place(), cursor.at
    cursor.take("#")
    name = cursor.word()
    dialect, dot, short = name.partition(".")
    if not dot:
        if name not in aliases:
            raise InputError(
                f"#{name} is not defined",
                where=place,
                expected=f"#{DIALECTS[0]}.<name>, or an alias defined on a line before",
                nearest=nearest_names(name, aliases),
            )
        return aliases[name]
    if dialect not in DIALECTS:
        cursor.at = start
        cursor.fail(f"#{DIALECTS[0]}.<name>", f"#{name} is of another dialect")
    cursor.take("<")
    values = _mapping(cursor, aliases, depth)
    cursor.take(">")
    return Attribute(short, values, place)


def _mapping(cursor: Cursor, aliases: Mapping[str, Attribute], depth: int) -> dict[str, Any]:
    cursor.take("{")
    values: dict[str, Any] = {}
    while not cursor.accept("}"):
        if values:
            cursor.take(",")
        start = cursor.at
        key = cursor.word("a name, as in {name = value}")
        if key in values:
            cursor.at = start
            cursor.fail("each name once", f"{key} is given twice")
        cursor.take("=")
        values[key] = _value(cursor, aliases, depth + 1)
    return values


def _value(cursor: Cursor, aliases: Mapping[str, Attribute], depth: int) -> Any:
    if depth > _DEEPEST:
        cursor.fail(f"at most {_DEEPEST} levels", "values nested too deep")
    if cursor.sees("#"):
        return _attribute(cursor, aliases, depth)
    if cursor.sees("{"):
        return _mapping(cursor, aliases, depth)
    if cursor.accept("["):
        items: list[Any] = []
        while not cursor.accept("]"):
            if items:
                cursor.take(",")
            items.append(_value(cursor, aliases, depth + 1))
        return tuple(items)
    for word, value in (("true", True), ("false", False)):
        if cursor.accept(word):
            return value
    return cursor.number("a number, true, false, a list or an attribute")


def _tensor(cursor: Cursor, aliases: Mapping[str, Attribute]) -> Tensor:
    cursor.take("tensor")
    cursor.take("<")
    shape: list[int] = []
    while _DIMENSION.match(cursor.text, cursor.at):
        shape.append(int(cursor.match(_DIMENSION, "a size")[:-1]))
    if not shape:
        cursor.fail("sizes, as in tensor<16x8xf32, #mma>")
    place = cursor.place()
    dtype = cursor.word("an element type")
    if dtype not in TENSOR_TYPES:
        raise UnsupportedError(
            f"tensors of {dtype} have no layout here",
            where=place,
            expected=", ".join(TENSOR_TYPES),
            nearest=nearest_names(dtype, TENSOR_TYPES),
        )
    cursor.take(",")
    attribute = _attribute(cursor, aliases, 0)
    cursor.take(">")
    return Tensor(attribute, tuple(shape), TENSOR_TYPES[dtype])
