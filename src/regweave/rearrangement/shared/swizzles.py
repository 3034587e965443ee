"""Where to put each element in shared memory, so that neither side has a bank conflict.

Take layouts that are linear over bits. What a lane moves at once are elements that it holds together on both
sides: the *vector* bits, common to the items of source and destination (a side may go on alone to
wider accesses). The lanes of a phase must then fall into different banks. Let X be the span of the source's
vector and phase lanes, Y the same of the destination; the address bits above the banks must tell no two
elements of X apart, and no two of Y. Two subspaces of equal size always have a common complement: with xs
and ys what X and Y do not share, the sums x_i + y_i, and anything outside both, span one.

    address bits:  vector | lanes of X | x_1 + y_1, x_2 + y_2, ..., the rest

That is the xor swizzle, found by algebra. If all vectors are directions of the address, the sum can also be
one of integers: y_i moves an element by a multiple of the banks plus what x_i moves it. This *padded*
arrangement takes a little more memory, but what an item adds is the same in all lanes, so that instructions
have room for it and no lane computes it.

Elements of different *steps* use the same memory one after the other (the grouped form).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.shared.matrix_rows import ROW_BITS
from regweave.rearrangement.subspaces import Span, combined, common, coordinates, extend, spanned

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The bit address of every element and the step in which it is there, by what elements are made of.

    An element is the xor of some of `directions`; its address is the sum of their `weights`, and those beyond
    them say its step. `store_bits` and `load_bits` are the widths of accesses, and `kind` says how the
    addresses came about.
    """

    kind: str
    directions: tuple[int, ...]
    weights: tuple[int, ...]
    store_bits: int
    load_bits: int

    @cached_property
    def units(self) -> list[int]:
        """For each bit of an element's number the directions that it is made of, as a mask."""
        return coordinates(self.directions)

    @cached_property
    def _masks(self) -> NDArray[np.int64]:
        return spanned(self.units)

    @cached_property
    def addresses(self) -> NDArray[np.int64]:
        """The bit address of every element."""
        return addresses_of(self._masks, self.weights)

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """The step of every element."""
        return self._masks >> len(self.weights)


def addresses_of(masks: NDArray[np.int64], weights: Sequence[int]) -> NDArray[np.int64]:
    """The sum of the weights in each mask."""
    return (masks[:, None] >> np.arange(len(weights)) & 1) @ np.array(weights, dtype=np.int64)


class Side(NamedTuple):
    """What each bit of the lane and of the item number adds to the element number."""

    lanes: tuple[int, ...]
    items: tuple[int, ...]


@dataclass(frozen=True)
class _Vectors:
    """The vector bits of both sides: one begins with the other."""

    store: tuple[int, ...]
    load: tuple[int, ...]


def vectors_of(layout: Layout) -> Side | None:
    """The vectors of a layout, or None where it is not linear over bits."""
    if layout.basis is None:
        return None
    lanes, items = (
        tuple([row * layout.shape[1] + column for row, column in pairs])
        for pairs in (layout.basis.lane, layout.basis.item)
    )
    return Side(lanes, items)


def arrange(
    source: Side,
    destination: Side,
    unit: int,
    machine: WarpMachine,
    *,
    packed: bool = False,
    grouped: bool = False,
    rows: str | None = None,
    copies: int = 1,
    hopeless: Callable[[int, int], bool] = lambda store, load: False,
) -> Iterator[Arrangement]:
    """Arrangements of elements of `unit` bits to choose from, wide accesses first.

    `packed`: which of the source's items share a register is free. `grouped`: in as many steps as keep all
    lanes busy, none if one step is all there is. `rows`: the side, `load` or `store`, whose first items are
    rows of 16 bytes as they are. There must be room for `copies`. Accesses of so many bits, to store and to
    load, are left out if `hopeless`.
    """
    # items that only repeat what others or lanes hold are not stored
    sides = Side(source.lanes, tuple(extend(source.lanes, source.items))), destination
    widths = machine.shared_access_bits
    ways = _row_vectors(*sides, unit, widths, rows) if rows else _vectors(*sides, unit, widths, packed=packed)
    for vectors in ways:
        lanes = (*sides[0].lanes, *sides[1].lanes, *vectors.store, *vectors.load)
        steps = extend(lanes, sides[0].items) if grouped else []
        if (grouped and not steps) or hopeless(unit << len(vectors.store), unit << len(vectors.load)):
            continue
        spans = []
        for access, side, vector in zip(("store", "load"), sides, (vectors.store, vectors.load), strict=True):
            phase = machine.shared_phase(access, max(32, unit << len(vector)) // 8)
            inside = (1 << len(side.lanes)) - 1  # there may be fewer lanes than in a warp
            together = [combined(side.lanes, lane & inside) for lane in phase]
            spans.append(tuple(extend((), [*vector, *together])))
        # parts of words each in a word of its own, where lanes would get into one another's way in one
        apart = 32 // (unit << len(vectors.load)) if vectors.store == vectors.load else 1
        for cell in dict.fromkeys((1, max(apart, 1))):
            banks, room = machine.shared_banks * 32, machine.shared_bytes * 8 // copies
            frame = _Frame(*sides, vectors, steps, unit, cell, banks, room, *spans)
            yield from frame.arrangements()


def _fit(vector: Sequence[int], unit: int, widths: Sequence[int]) -> tuple[int, ...]:
    """As many of these vector bits as one access can move."""
    width = next((width for width in widths if width <= unit << len(vector)), unit)
    return tuple(vector[: (width // unit).bit_length() - 1])


def _vectors(
    source: Side, destination: Side, unit: int, widths: Sequence[int], *, packed: bool
) -> Iterator[_Vectors]:
    """The vector bits: common ones, or with what one side can add to them."""
    in_word = (32 // unit).bit_length() - 1
    items = source.items
    # the place within an access must not depend on the lane
    lanes = (*source.lanes, *destination.lanes)
    together: list[int] = []
    for number, vector in enumerate(destination.items[:in_word]):
        # parts of a register stay together where both sides have them in the same place
        held = (packed and vector in Span(items)) or items[number : number + 1] == (vector,)
        if not held or not extend([*lanes, *together], [vector]):
            break
        together.append(vector)
    shared = _fit([*together, *extend([*lanes, *together], common(items, destination.items))], unit, widths)
    if unit << len(shared) < 8:
        return
    yield _Vectors(shared, shared)
    if unit << len(shared) < widths[0]:
        by_source = extend(shared, items)
        by_destination = extend(shared, [vector for vector in destination.items if vector])
        yield _Vectors(_fit([*shared, *by_source], unit, widths), shared)
        yield _Vectors(shared, _fit([*shared, *by_destination], unit, widths))


def _row_vectors(
    source: Side, destination: Side, unit: int, widths: Sequence[int], rows: str
) -> Iterator[_Vectors]:
    """The rows of one side, and as much of their beginning as the other side holds together."""
    most = (ROW_BITS // unit).bit_length() - 1
    side, other = (source, destination) if rows == "store" else (destination, source)
    row, held = side.items[:most], Span(other.items)
    count = next((number for number, vector in enumerate(row) if vector not in held), most)
    begun = _fit(row[:count], unit, widths)
    if unit << len(begun) >= 8:
        yield _Vectors(row, begun) if rows == "store" else _Vectors(begun, row)


@dataclass(frozen=True)
class _Frame:
    """One choice of vectors: the spans x and y that each phase must keep apart, and the steps.

    What vectors move lies `cell` times as far apart as it is long. `room` is the memory there is, in bits.
    """

    source: Side
    destination: Side
    vectors: _Vectors
    steps: Sequence[int]
    unit: int
    cell: int
    bank_bits: int
    room: int
    x: tuple[int, ...]
    y: tuple[int, ...]

    def arrangements(self) -> Iterator[Arrangement]:
        """In the order of either side: padded where that is possible, else the xor swizzle."""
        wider = len(self.vectors.store) - len(self.vectors.load)
        for natural in (True, False):
            if (natural and wider >= 0) or (not natural and wider <= 0):
                low, high = self._directions(natural)
                padded = self._padded(low, high)
                xor = [*low, *(y if x is None else x ^ y for x, y in high)]
                yield padded if padded is not None else self._made("xor", xor, self._weights(len(xor)))

    def _weights(self, bits: int) -> list[int]:
        """What each of the lowest address bits adds."""
        together = len(self.vectors.load)
        return [self.unit * (1 if bit < together else self.cell) << bit for bit in range(bits)]

    def _directions(self, natural: bool) -> tuple[list[int], list[tuple[int | None, int]]]:
        """Address bits within the banks, and those above: (x, y) if y must use the banks of x, or (None, y).

        The lanes of the natural side come in order, so that its addresses are little more than the lane.
        """
        first, second = (self.x, self.y) if natural else (self.y, self.x)
        vector = self.vectors.store if natural else self.vectors.load
        side = self.source if natural else self.destination
        both = common(first, second)
        xs, ys = extend(both, first), extend(both, second)
        # a vector bit must not be moved by the lane: it is paired with an item
        own = Span(side.items)
        xs.sort(key=lambda x: x not in vector)
        ys.sort(key=lambda y: y not in own)
        count = min(len(xs), len(ys))
        low = [*first, *ys[count:]]
        partners: dict[int, int | None] = dict(zip(ys[:count], xs[:count], strict=True))
        if len(low) + count <= (self.bank_bits // (self.unit * self.cell)).bit_length() - 1:
            partners = dict.fromkeys(partners)  # there is room: they need not share
        order = [*side.lanes, *partners, *self.source.lanes, *self.destination.lanes, *self._step_items()]
        ahead = Span([*low, *partners])
        high: list[tuple[int | None, int]] = []
        for direction in order:
            if direction in partners:
                high.append((partners.pop(direction), direction))
            elif ahead.add(direction):
                high.append((None, direction))
        return low, high

    def _step_items(self) -> list[int]:
        """The items that lie in each step."""
        if not self.steps:
            return list(self.source.items)
        lanes = (*self.source.lanes, *self.destination.lanes, *self.vectors.store, *self.vectors.load)
        inside = Span(lanes)
        return [vector for vector in self.source.items if vector in inside]

    def _padded(self, low: list[int], high: list[tuple[int | None, int]]) -> Arrangement | None:
        """Integer weights for the same directions, if every lane and item bit is one and there is room."""
        basis = [*low, *(y for _, y in high)]
        used = {*self.source.lanes, *self.source.items, *self.destination.lanes, *self.destination.items}
        if not used - {0} <= {*basis, *self.steps} or all(x is None for x, _ in high):
            return None
        widest = self.unit << max(len(self.vectors.store), len(self.vectors.load))
        weights = self._weights(len(low))
        extent = self.unit * self.cell << len(low)
        by_direction = dict(zip(low, weights, strict=True))
        for x, _ in high:
            if x is None:
                weights.append(-(-extent // widest) * widest)
            else:
                residue = by_direction[x]
                if residue % widest:
                    return None
                weights.append(extent + (residue - extent) % self.bank_bits)
            extent += weights[-1]
        return self._made("padded", basis, weights) if extent <= self.room else None

    def _made(self, kind: str, basis: list[int], weights: list[int]) -> Arrangement:
        store, load = (self.unit << len(vector) for vector in (self.vectors.store, self.vectors.load))
        return Arrangement(kind, (*basis, *self.steps), tuple(weights), store, load)
