"""Layouts in CuTe's notation: `(shape):(stride)`, the first mode being the thread and the second the value.

    >>> read_cute("((4,8),(2,2)):((32,1),(16,8))", (16, 8)).element(1, 2)
    (8, 2)

Thread 1 of 4 adds 32 and value 2, the second of the outer 2, adds 8: index 40 of the tile, which CuTe
counts down the columns, so row 40 mod 16 and column 40 div 16. Modes nest; within a mode the first part
counts fastest. A stride of 0 gives several threads the same element. `_4` and `Int<4>` are 4, and the C++
form `Layout<Shape<...>, Stride<...>>` is read too. A layout says nothing about the tile: it comes beside
the text.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.layouts.numbers import check_slots
from regweave.machines.notations.cursor import Cursor

_WHOLE = re.compile(r"_?[0-9]{1,18}(?![\w@])")
_WRAPPED = re.compile(r"(?:Int|C)\s*<\s*[0-9]{1,18}\s*>")
_DEEPEST = 16
_LONGEST_NAME = 64

Mode: TypeAlias = "int | tuple[Mode, ...]"


def read_cute(text: str, tile: tuple[int, int] | None = None) -> Layout:
    """The layout that gives thread t its value v at element number `layout(t, v)` of `tile`, counted down
    the columns.

    Raises InputError for text that is no such layout, without a tile, or with elements outside it;
    UnsupportedError for swizzled layouts.
    """
    cursor = Cursor(text, "a CuTe layout")
    if cursor.sees("Sw"):
        raise UnsupportedError(
            "a swizzled CuTe layout", where=cursor.place(), expected="shape:stride",
            fix="paste it as a table, or as a Triton linear layout",
        )  # fmt: skip
    shape, stride = _templates(cursor) if cursor.accept("Layout") else _pair(cursor)
    cursor.finish()
    _check_alike(shape, stride, cursor)
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise InputError(
            "a CuTe layout of one mode"
            if not isinstance(shape, tuple)
            else f"a layout of {len(shape)} modes",
            where=text.strip()[:60],
            expected="two modes: threads and values, ((T...),(V...)):((...),(...))",
        )
    if tile is None:
        raise InputError(
            "a CuTe layout does not say how large its tile is",
            where=text.strip()[:60],
            fix="give the tile beside it (tile=, --tile ROWSxCOLUMNS)",
        )
    assert isinstance(stride, tuple)
    threads, values = _offsets(shape[0], stride[0]), _offsets(shape[1], stride[1])
    check_slots(threads.size * values.size, "a CuTe layout")
    numbers = threads[:, None] + values[None, :]
    rows, columns = tile
    outside = np.argwhere(numbers >= rows * columns)
    if outside.size:
        thread, value = (int(number) for number in outside[0])
        raise InputError(
            f"thread {thread} value {value} is element {int(numbers[thread, value])}",
            where=text.strip()[:60],
            expected=f"less than {rows * columns}, the elements of the {rows} x {columns} tile",
        )
    table = numbers % rows * columns + numbers // rows
    name = "".join(text.split())
    # names become those of functions and files
    return Layout(name if len(name) <= _LONGEST_NAME else "CuTe layout", tile, "b32", table)


def _pair(cursor: Cursor) -> tuple[Mode, Mode]:
    shape = _mode(cursor, "(", ")", 0)
    cursor.take(":")
    return shape, _mode(cursor, "(", ")", 0)


def _templates(cursor: Cursor) -> tuple[Mode, Mode]:
    cursor.take("<")
    shape = _mode(cursor, "Shape", ">", 0)
    cursor.take(",")
    stride = _mode(cursor, "Stride", ">", 0)
    cursor.take(">")
    return shape, stride


def _mode(cursor: Cursor, opening: str, closing: str, depth: int) -> Mode:
    if depth > _DEEPEST:
        cursor.fail(f"at most {_DEEPEST} levels", "modes nested too deep")
    if not cursor.accept(opening):
        if _WRAPPED.match(cursor.text, cursor.at):
            return int(re.findall(r"[0-9]+", cursor.match(_WRAPPED, "a number"))[0])
        return int(cursor.match(_WHOLE, f"a whole number or '{opening}'").lstrip("_"))
    if closing == ">":
        cursor.take("<")
    parts: list[Mode] = []
    while not cursor.accept(closing):
        if parts:
            cursor.take(",")
        parts.append(_mode(cursor, opening, closing, depth + 1))
    if not parts:
        cursor.fail("at least one number", "an empty mode")
    return tuple(parts)


def _check_alike(shape: Mode, stride: Mode, cursor: Cursor) -> None:
    if isinstance(shape, tuple) != isinstance(stride, tuple) or (
        isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) != len(stride)
    ):
        raise InputError(
            "shape and stride of a CuTe layout are built differently",
            where=cursor.text.strip()[:60],
            expected="one stride for every number of the shape",
        )
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        for part, step in zip(shape, stride, strict=True):
            _check_alike(part, step, cursor)
    elif shape == 0:
        raise InputError("a mode of size 0", where=cursor.text.strip()[:60], expected="at least 1")


def _leaves(mode: Mode) -> list[int]:
    return list(chain.from_iterable(_leaves(part) for part in mode)) if isinstance(mode, tuple) else [mode]


def _offsets(shape: Mode, stride: Mode) -> NDArray[np.int64]:
    """The offset of every coordinate of a mode, its first part counting fastest."""
    offsets = np.zeros(1, dtype=np.int64)
    for size, step in zip(_leaves(shape), _leaves(stride), strict=True):
        check_slots(offsets.size * size, "a CuTe layout")
        if step * (size - 1) >= 1 << 40:
            raise InputError(f"a stride of {step}", expected="elements of a tile")
        offsets = (np.arange(size, dtype=np.int64)[:, None] * step + offsets[None, :]).ravel()
    return offsets
