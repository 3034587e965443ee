"""Tables back into layouts: CSV and Markdown as `to_csv` and `to_markdown` print them.

    >>> from_markdown("| lane | r0    | r1    |\n|---|---|---|\n| 0 | (0,0) | (0,1) |\n").shape
    (1, 2)

A table holds slots and elements but no type and no tile. The tile is the smallest that holds all elements,
and the type follows from how many parts share a register: bits of that width (`retype` says what they
mean).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from regweave.errors import InputError
from regweave.layouts.elements import REGISTER_BITS
from regweave.layouts.layout import Layout
from regweave.layouts.numbers import check_slots

_HEADING = "lane,register,part,row,column"
_COLUMN = re.compile(r"r([0-9]{1,6})(?:\.([0-9]{1,2}))?")
_ELEMENT = re.compile(r"\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")

# how many elements of the types that there are share a register
_PARTS = (1, 2, 4, 8, REGISTER_BITS)
# a slot (lane, register, part) and its element (row, column), with the line that says so
_Entry = tuple[int, int, int, int, int, int]


def from_csv(text: str, name: str = "table") -> Layout:
    """The layout of a table of lane, register, part, row and column; InputError naming the line."""
    lines = _lines(text)
    if not lines or lines[0][1].replace(" ", "") != _HEADING:
        raise InputError("the first line names other columns", where=f"{name}, line 1", expected=_HEADING)
    entries: list[_Entry] = []
    for number, line in lines[1:]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 5 or not all(cell.isascii() and cell.isdigit() and len(cell) < 10 for cell in cells):
            raise InputError(f"{line[:40]!r} is no slot", where=f"{name}, line {number}", expected=_HEADING)
        lane, register, part, row, column = (int(cell) for cell in cells)
        entries.append((lane, register, part, row, column, number))
    return _layout(entries, name)


def from_markdown(text: str, name: str = "table") -> Layout:
    """The layout of a table with a row per lane and a column per register (`r0`) or part (`r0.1`).

    Raises InputError naming the line and the column.
    """
    rows = [(number, [cell.strip() for cell in line.strip("|").split("|")]) for number, line in _lines(text)]
    if len(rows) < 3 or rows[0][1][0] != "lane" or not all(set(cell) <= set("-:") for cell in rows[1][1]):
        raise InputError(
            "not a table of lanes", where=f"{name}, line 1", expected="| lane | r0 | r1 | ..., then |---|..."
        )
    slots: list[tuple[int, int]] = []
    for heading in rows[0][1][1:]:
        match = _COLUMN.fullmatch(heading)
        if match is None:
            raise InputError(
                f"a column {heading!r}", where=f"{name}, line 1", expected="r0, r1, ... or r0.0, r0.1, ..."
            )
        slots.append((int(match[1]), int(match[2] or 0)))
    entries: list[_Entry] = []
    for number, (lane, *cells) in rows[2:]:
        if not (lane.isascii() and lane.isdigit() and len(lane) < 10) or len(cells) != len(slots):
            raise InputError(
                f"a row of lane {lane!r} with {len(cells)} elements", where=f"{name}, line {number}",
                expected=f"a lane's number and {len(slots)} elements",
            )  # fmt: skip
        for (register, part), cell in zip(slots, cells, strict=True):
            match = _ELEMENT.fullmatch(cell)
            if match is None:
                raise InputError(
                    f"{cell!r} is no element",
                    where=f"{name}, line {number}, r{register}",
                    expected="(row,column)",
                )
            entries.append((int(lane), register, part, int(match[1]), int(match[2]), number))
    return _layout(entries, name)


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _layout(entries: Iterable[_Entry], name: str) -> Layout:
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    for lane, register, part, row, column, number in entries:
        slot = lane, register, part
        if slot in found:
            raise InputError(
                f"lane {lane} register {register} part {part} again",
                where=f"{name}, line {number}",
                expected="every slot once",
            )
        found[slot] = row, column
    if not found:
        raise InputError("a table without slots", where=name, expected="at least one")
    lanes = 1 + max(lane for lane, _, _ in found)
    places = sorted({(register, part) for _, register, part in found})
    most = 1 + max(part for _, part in places)
    if most > REGISTER_BITS:
        raise InputError(f"{most} parts to a register", where=name, expected=f"at most {REGISTER_BITS}")
    # a single register may be partly filled
    parts = next(size for size in _PARTS if size >= most)
    wide = (
        parts == 1 and len(places) > 1 and all(register == 2 * at for at, (register, _) in enumerate(places))
    )
    check_slots(lanes * len(places), name)
    step = 2 if wide else 1
    wanted = [(item // parts * step, item % parts) for item in range(len(places))]
    for lane in range(lanes):
        for register, part in wanted:
            if (lane, register, part) not in found:
                raise InputError(
                    f"nothing is said of lane {lane} register {register} part {part}",
                    where=name,
                    expected=f"{lanes} lanes with {len(wanted)} elements each",
                )
    elements = [[found[lane, *place] for place in wanted] for lane in range(lanes)]
    rows, columns = (1 + max(pair[axis] for row in elements for pair in row) for axis in (0, 1))
    return Layout.explicit(name, (rows, columns), "b64" if wide else f"b{REGISTER_BITS // parts}", elements)
