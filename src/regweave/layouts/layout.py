"""A layout says which element of a tile every slot of a warp holds.

A warp has `lanes` lanes, each lane holds `items` elements in order, and elements narrower than a
register share one: item 2 of a lane of f16 is the low half of register 1. A slot is (lane, register,
part), the part being 0 unless elements share a register. Both directions are easy to ask:

    >>> c = Layout.linear("C", (16, 8), "f32", lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
    ...                   item=[(0, 1), (8, 0)])
    >>> c.element(5, 2)                 # what does lane 5 hold in register 2?
    (9, 2)
    >>> c.slots(9, 2)                   # who holds (9, 2)?
    (Slot(lane=5, register=2, part=0),)

Here lane 5 is binary 00101, so its bits 0 and 2 move the element by (0, 2) and (1, 0), and register
2 by (8, 0): the layout is *linear over bits*. Most hardware is. But the value itself is a table, so
that any map fits (a tile of 6 x 5, a user's own machine); `basis` recovers the bits where there
are any. One representation keeps every algorithm free of special cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regweave.errors import InputError, UnsupportedError
from regweave.layouts.checking import checked_table, number_kind, tile_sizes
from regweave.layouts.elements import ElementType, element_type
from regweave.layouts.linear import Basis, find_basis, table_of
from regweave.layouts.numbers import check_slots, divided, row_blocks, whole_number, whole_numbers, whole_pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Slot(NamedTuple):
    """One place for one element: part `part` of register `register` of lane `lane`."""

    lane: int
    register: int
    part: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """An immutable map from slots to elements of a `shape[0]` x `shape[1]` tile.

    `table[lane, item]` is the element's number, row * columns + column, in 32 bits unless the tile has more
    than 2^31 elements. `dtype` names an element
    type. `axes` names rows and columns for people and for the planner: ("m", "k") says that columns
    are the contraction index of a product. Two layouts are equal if they place the same type of
    elements of the same tile in the same slots; names and axes do not count.

    Raises InputError if an entry is no whole number or outside the tile, an element is held by no slot, the
    name is not one line of text, or both axes have one name.
    """

    name: str
    shape: tuple[int, int]
    dtype: str
    table: NDArray[Any]
    axes: tuple[str, str] = ("row", "column")

    def __post_init__(self) -> None:
        # names stand in generated code, one line each
        if not isinstance(self.name, str) or not self.name.isprintable():
            raise InputError(f"{self.name!r} cannot name a layout", expected="one line of text")
        where = f"layout {self.name}"
        table = whole_numbers(self.table, where)  # a copy: nobody else may write to it
        rows, columns = tile_sizes(self.shape, where)
        object.__setattr__(self, "shape", (rows, columns))
        element_type(self.dtype)
        if (
            len(self.axes) != 2
            or len(set(self.axes)) != 2
            or not all(isinstance(axis, str) and axis.isprintable() for axis in self.axes)
        ):
            raise InputError(
                f"axes {self.axes!r}", where=where, expected="two different names, one line each"
            )
        object.__setattr__(self, "table", checked_table(table, (rows, columns), where))

    @classmethod
    def derived(
        cls, name: str, shape: tuple[int, int], dtype: str, table: NDArray[Any], axes: tuple[str, str]
    ) -> Layout:
        """The layout that another one, which was checked, was made into: what follows is not checked again.

        `table` belongs to the layout from now on.
        """
        made = object.__new__(cls)
        table = table.astype(number_kind(shape), copy=False)
        table.setflags(write=False)
        vars(made).update(name=name, shape=shape, dtype=dtype, table=table, axes=axes)
        return made

    @classmethod
    def linear(
        cls,
        name: str,
        shape: tuple[int, int],
        dtype: str,
        *,
        lane: Sequence[tuple[int, int]],
        item: Sequence[tuple[int, int]],
        axes: tuple[str, str] = ("row", "column"),
    ) -> Layout:
        """A layout from what each bit of the lane and of the item number adds: (rows, columns), by xor."""
        where = f"layout {name}"
        check_slots(1 << len(lane) + len(item), where)
        pairs = [whole_pair(bit, where, "(rows, columns) for each bit") for bit in (*lane, *item)]
        rows, columns = tile_sizes(shape, where)
        outside = [pair for pair in pairs if not (0 <= pair[0] < rows and 0 <= pair[1] < columns)]
        if outside:
            raise InputError(
                f"a bit adds {outside[0]}", where=where, expected=f"less than the {rows} x {columns} tile"
            )
        basis = Basis(tuple(pairs[: len(lane)]), tuple(pairs[len(lane) :]))
        return cls(name, shape, dtype, table_of(basis, columns), axes)

    @classmethod
    def explicit(
        cls,
        name: str,
        shape: tuple[int, int],
        dtype: str,
        elements: ArrayLike,
        axes: tuple[str, str] = ("row", "column"),
    ) -> Layout:
        """A layout from `elements[lane][item] = (row, column)`, of any size."""
        where = f"layout {name}"
        pairs = whole_numbers(
            elements, where, "elements[lane][item] = (row, column), equally many items per lane"
        )
        rows, columns = tile_sizes(shape, where)
        if pairs.ndim != 3 or pairs.shape[2] != 2:
            raise InputError(
                f"a table of shape {pairs.shape}",
                where=where,
                expected="[lanes, items, 2], the last being (row, column)",
            )
        outside = np.argwhere((pairs < 0) | (pairs >= np.array((rows, columns))))
        if outside.size:
            at, slot = (int(number) for number in outside[0][:2])
            row, column = (int(number) for number in pairs[at, slot])
            raise InputError(
                f"lane {at} item {slot} holds ({row}, {column})",
                where=where,
                expected=f"an element of the {rows} x {columns} tile",
            )
        return cls(name, shape, dtype, pairs[..., 0] * columns + pairs[..., 1], axes)

    @property
    def lanes(self) -> int:
        """Lanes that take part."""
        return self.table.shape[0]

    @property
    def items(self) -> int:
        """Elements that each lane holds."""
        return self.table.shape[1]

    @property
    def element_type(self) -> ElementType:
        """The element type that `dtype` names."""
        return element_type(self.dtype)

    @property
    def registers(self) -> int:
        """32-bit registers that each lane needs; the last may be partly used."""
        kind = self.element_type
        return -(-self.items // kind.per_register) * kind.registers

    @property
    def elements(self) -> int:
        """Elements of the tile."""
        return self.shape[0] * self.shape[1]

    @property
    def bijective(self) -> bool:
        """Whether every element is held exactly once."""
        return self.table.size == self.elements

    @cached_property
    def uniform(self) -> bool:
        """Whether every lane holds the elements of the first one, moved by a constant."""
        first = self.table[0] - self.table[0, 0]
        return all(
            bool((self.table[some] - self.table[some, :1] == first).all()) for some in row_blocks(self.table)
        )

    @cached_property
    def basis(self) -> Basis | None:
        """What each lane and item bit adds, or None where the layout is not linear over bits."""
        return find_basis(self.table, self.shape)

    def element(self, lane: int, register: int, part: int = 0) -> tuple[int, int]:
        """The (row, column) that a slot holds; InputError if there is no such slot."""
        for number in (lane, register, part):
            whole_number(number, f"layout {self.name}", "lane, register and part")
        kind = self.element_type
        item = register // kind.registers * kind.per_register + part
        if not (
            0 <= lane < self.lanes
            and 0 <= register < self.registers
            and item < self.items
            and 0 <= part < kind.per_register
        ):
            raise InputError(
                f"no slot (lane {lane}, register {register}, part {part})",
                where=f"layout {self.name}",
                expected=f"lane < {self.lanes}, register < {self.registers}, part < {kind.per_register}",
            )
        row, column = divmod(int(self.table[lane, item]), self.shape[1])
        return row, column

    def slot_of(self, lane: int, item: int) -> Slot:
        """The slot of a lane's item: the register it lies in and which part of it.

        Raises InputError if there is no such lane or item.
        """
        where = f"layout {self.name}"
        for number, count, what in ((lane, self.lanes, "lane"), (item, self.items, "item")):
            whole_number(number, where, "lane and item")
            if not 0 <= number < count:
                raise InputError(f"no {what} {number}", where=where, expected=f"0 to {count - 1}")
        kind = self.element_type
        register, part = divmod(item, kind.per_register)
        return Slot(lane, register * kind.registers, part)

    def slots(self, row: int, column: int) -> tuple[Slot, ...]:
        """All slots that hold (row, column), by lane; InputError outside the tile."""
        for number in (row, column):
            whole_number(number, f"layout {self.name}", "row and column")
        if not (0 <= row < self.shape[0] and 0 <= column < self.shape[1]):
            raise InputError(
                f"no element ({row}, {column})",
                where=f"layout {self.name}",
                expected=f"an element of the {self.shape[0]} x {self.shape[1]} tile",
            )
        found = np.argwhere(self.table == row * self.shape[1] + column)
        return tuple(self.slot_of(int(lane), int(item)) for lane, item in found)

    def invert(self) -> NDArray[np.int64]:
        """`[elements, 2]`: the (lane, item) of every element, in row-major order.

        Raises InputError if an element has several holders: the inverse is then no map (ask `slots`).
        """
        if not self.bijective:
            numbers, counts = np.unique(self.table, return_counts=True)
            row, column = divmod(int(numbers[counts > 1][0]), self.shape[1])
            raise InputError(
                f"element ({row}, {column}) is held by {len(self.slots(row, column))} slots",
                where=f"layout {self.name}",
                expected="one holder for each element",
                fix="ask slots(row, column) for all holders",
            )
        order = np.argsort(self.table, axis=None)
        return np.stack(np.unravel_index(order, self.table.shape), axis=1)

    def repeat(self, rows: int, columns: int) -> Layout:
        """`rows` x `columns` copies side by side, as `layouts.repeat` says."""
        from regweave.layouts.algebra import repeat

        return repeat(self, rows, columns)

    def retype(self, dtype: str) -> Layout:
        """The same slots for elements of another type: accumulators after they were narrowed, for example."""
        element_type(dtype)
        return Layout.derived(f"{self.name}@{dtype}", self.shape, dtype, self.table, self.axes)

    def transpose(self) -> Layout:
        """The layout of the transposed tile: what held (row, column) holds (column, row)."""
        row, column = divided(self.table, self.shape[1])
        table = column * self.shape[0] + row
        (rows, columns), (down, across) = self.shape, self.axes
        return Layout.derived(f"{self.name}^T", (columns, rows), self.dtype, table, (across, down))

    def to_csv(self) -> str:
        """One line per slot, as `layouts.to_csv` says."""
        from regweave.layouts.tables import to_csv

        return to_csv(self)

    def to_markdown(self) -> str:
        """A row per lane, as `layouts.to_markdown` says."""
        from regweave.layouts.tables import to_markdown

        return to_markdown(self)

    def to_document(self) -> dict[str, Any]:
        """A JSON-ready mapping, as `layouts.to_document` says."""
        from regweave.layouts.tables import to_document

        return to_document(self)

    def to_triton(self, warp_lanes: int | None = None) -> str:
        """Triton's `#ttg.linear`, as `layouts.to_triton` says; UnsupportedError if it cannot be."""
        from regweave.layouts.notations import to_triton

        return to_triton(self, warp_lanes)

    def to_cute(self) -> str:
        """CuTe's `(shape):(stride)`, as `layouts.to_cute` says; UnsupportedError if it cannot be."""
        from regweave.layouts.notations import to_cute

        return to_cute(self)

    def to_svg(self) -> str:
        """The drawing that notebooks show, coloured by lane; UnsupportedError above 65536 elements."""
        from regweave.views.layout_svg import layout_svg

        return layout_svg(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        return self.shape, self.dtype, self.table.shape, self.table.tobytes()

    def __repr__(self) -> str:
        rows, columns = self.shape
        return (
            f"<Layout {self.name}: {rows} x {columns} {self.dtype}, {self.lanes} lanes x {self.items} items>"
        )

    def __str__(self) -> str:
        from regweave.layouts.tables import to_text

        return to_text(self)

    def _repr_svg_(self) -> str | None:
        try:
            return self.to_svg()
        except UnsupportedError:  # too large to draw: a notebook then shows the text
            return None
