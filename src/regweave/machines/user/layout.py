"""A layout as somebody writes it down in a few keys, and what can be wrong with it.

    tile = [4, 4]                       rows, columns
    type = "f32"
    lane = [[0, 1], [0, 2]]             what each bit of the lane's number adds: [rows, columns], by xor
    item = [[1, 0], [2, 0]]             the same for the number of the element within its lane

Instead of `lane` and `item`, `elements` lists everything: `elements[lane][item] = [row, column]`. An operand
of an instruction may also write its bits as coordinates (`lane = "n0-1"`, `item = "m0-1"`, see
`machines.coordinates`). `axes = ["m", "n"]` names rows and columns. Every element must be held once;
`replicated = true` allows several holders.

Mistakes are errors that name the slot: which lane and item hold an element outside the tile, or one that
another slot holds already; which element nobody holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regweave.errors import InputError
from regweave.layouts import Basis, Layout, element_type
from regweave.layouts.linear import table_of
from regweave.layouts.numbers import check_slots, whole_pair
from regweave.machines.coordinates import fragment
from regweave.machines.gpu import OPERAND_AXES, operand_tile
from regweave.machines.user.keys import check_keys, read_text

_SLOTS = {"lane", "item", "elements"}


def described_layout(values: Any, name: str, where: str) -> Layout:
    """The layout `name` from its keys; InputError naming the slot or key at fault."""
    check_keys(values, {"tile", "type", "axes", "replicated"} | _SLOTS, where, ("tile", "type"))
    shape = whole_pair(values["tile"], where, "tile = [rows, columns]")
    if min(shape) < 1:
        raise InputError(f"tile = {values['tile']!r}", where=where, expected="at least one row and column")
    axes = values.get("axes", ["row", "column"])
    if not (isinstance(axes, list) and len(axes) == 2 and all(isinstance(axis, str) for axis in axes)):
        raise InputError(f"axes = {axes!r}", where=where, expected='two names, like ["m", "k"]')
    return _layout(values, name, where, shape, (axes[0], axes[1]))


def described_operand(
    values: Any, name: str, where: str, operand: str, sizes: tuple[int, int, int], blocks: int
) -> Layout:
    """The layout of operand A, B, C or D of an instruction with these sizes (m, n, k) and blocks."""
    check_keys(values, {"type", "replicated"} | _SLOTS, where, ("type",))
    lane, item = values.get("lane"), values.get("item")
    if isinstance(lane, str) and isinstance(item, str):
        layout = fragment(name, operand, sizes, _element_type(values, where), lane, item, blocks)
        _check_overlap(layout, values, where)
        return layout
    return _layout(values, name, where, operand_tile(operand, sizes, blocks), OPERAND_AXES[operand])


def _element_type(values: Mapping[str, Any], where: str) -> str:
    """The name of an element type, under the key `type`."""
    name = read_text(values, "type", where)
    try:
        return element_type(name).name
    except InputError as error:
        raise InputError(
            error.what, where=f"{where}, type", expected=error.expected, nearest=error.nearest
        ) from None


def _layout(
    values: Mapping[str, Any], name: str, where: str, shape: tuple[int, int], axes: tuple[str, str]
) -> Layout:
    given = _SLOTS & set(values)
    if given not in ({"elements"}, {"lane", "item"}):
        raise InputError(
            "slots by " + (" and ".join(sorted(given)) or "nothing"),
            where=where,
            expected="either lane and item, or elements",
        )
    if "elements" in given:
        _check_rows(values["elements"], where)
        layout = Layout.explicit(name, shape, _element_type(values, where), values["elements"], axes)
    else:
        basis = Basis(_bits(values["lane"], "lane", where), _bits(values["item"], "item", where))
        check_slots(1 << len(basis.lane) + len(basis.item), where)
        _check_inside(basis, shape, where)
        layout = Layout(name, shape, _element_type(values, where), table_of(basis, shape[1]), axes)
    _check_overlap(layout, values, where)
    return layout


def _bits(values: Any, key: str, where: str) -> tuple[tuple[int, int], ...]:
    expected = "a list of [rows, columns], one for each bit"
    if not isinstance(values, list):
        raise InputError(f"{key} = {values!r}", where=where, expected=expected)
    return tuple(
        whole_pair(pair, f"{where}, {key} bit {bit}", "[rows, columns]") for bit, pair in enumerate(values)
    )


def _check_rows(elements: Any, where: str) -> None:
    if not (isinstance(elements, list) and elements and all(isinstance(row, list) for row in elements)):
        raise InputError("elements is no table", where=where, expected="elements[lane][item] = [row, column]")
    for lane, row in enumerate(elements):
        if len(row) != len(elements[0]):
            raise InputError(
                f"lane {lane} has {len(row)} items, lane 0 {len(elements[0])}",
                where=where,
                expected="equally many items for each lane",
            )
        for item, pair in enumerate(row):
            whole_pair(pair, f"{where}, lane {lane} item {item}", "[row, column]")


def _check_inside(basis: Basis, shape: tuple[int, int], where: str) -> None:
    """InputError naming the first slot that leaves the tile, whose sizes need not be powers of two."""
    # with a column count of 0 only columns remain of the element's number, with columns left out only rows
    columns = table_of(basis, 0)
    rows = table_of(Basis(*(tuple((row, 0) for row, _ in part) for part in (basis.lane, basis.item))), 1)
    outside = np.argwhere((rows < 0) | (rows >= shape[0]) | (columns < 0) | (columns >= shape[1]))
    if outside.size:
        lane, item = (int(number) for number in outside[0])
        raise InputError(
            f"lane {lane} item {item} holds ({int(rows[lane, item])}, {int(columns[lane, item])})",
            where=where,
            expected=f"an element of the {shape[0]} x {shape[1]} tile",
        )


def _check_overlap(layout: Layout, values: Mapping[str, Any], where: str) -> None:
    replicated = values.get("replicated", False)
    if not isinstance(replicated, bool):
        raise InputError(f"replicated = {replicated!r}", where=where, expected="true or false")
    if replicated or layout.bijective:
        return
    flat = layout.table.ravel()
    _, first = np.unique(flat, return_index=True)
    again = int(np.setdiff1d(np.arange(flat.size), first)[0])
    lane, item = divmod(again, layout.items)
    row, column = divmod(int(flat[again]), layout.shape[1])
    other = divmod(int(np.flatnonzero(flat == flat[again])[0]), layout.items)
    raise InputError(
        f"lane {lane} item {item} holds ({row}, {column}), as lane {other[0]} item {other[1]} does",
        where=where,
        expected="every element once",
        fix="write replicated = true if several slots hold it",
    )
