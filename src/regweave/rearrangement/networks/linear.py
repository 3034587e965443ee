"""Networks of permutes and selects by algebra, where demands are linear over bits.

Say output o needs in lane l, as its piece i, the input piece T(o, l, i), and T is linear over the bits of o,
l and i and takes no piece twice in a lane. The inputs that one output draws on, over all lanes and pieces,
form a space D of f dimensions, and f layers of nodes do it, which is the least that trees of two-word nodes
can have. The last layer decides one bit u of the input's number. What it chooses between are words in
which u is settled, and they are found so: let (e, d) move the outputs' pieces by a vector of D on which u
is 1. Then outputs o and o + e need, in each lane, complementary parts of the words with u = 0 and of those
with u = 1, so that two intermediate words serve the two of them, and each is again linear:

    T'(z, l, i) = T(o + e s, l, i + d s)    where s = u(T(o, l, i)) + (bit of z that stands for u)

For the transpose of four words of four bytes (f = 2) that is 4 nodes for each of two bits, 8 in all. e and d
are chosen such that nodes are selects or have constant selectors where that is possible. Where there are
more inputs than outputs, or outputs with unused places, T is completed to a bijection first, and only the
words that the outputs need are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.networks.network import ANY, Network, Node
from regweave.rearrangement.networks.search import find_network
from regweave.rearrangement.subspaces import combined, coordinates, extend, reduced, spanned

if TYPE_CHECKING:
    from numpy.typing import NDArray

# choices of (u, e, d) that are followed in each layer, and nodes of all networks that are compared
_WIDTH, _MOST_NODES = 3, 32
# dimensions of D up to which every vector of it is tried, and not only those of a basis
_MOST_DIMENSIONS = 2
# outputs up to which a search is tried as well, if telling lanes apart takes more half instructions than this
_MOST_SEARCHED, _CHEAP = 4, 8


@dataclass(frozen=True)
class _Map:
    """Where pieces come from, as columns: input bits low, place bits above them.

    `outputs`, `lanes` and `pieces` are what each bit of o, l and i adds to `constant`. Only the pieces whose
    number is within the mask `used` matter.
    """

    outputs: tuple[int, ...]
    lanes: tuple[int, ...]
    pieces: tuple[int, ...]
    constant: int
    used: int

    @property
    def words(self) -> int:
        """Mask of the input bits."""
        return (1 << len(self.outputs)) - 1

    @property
    def moving(self) -> tuple[int, ...]:
        """The columns of lane bits and of the piece bits that matter."""
        pieces = (column for bit, column in enumerate(self.pieces) if self.used >> bit & 1)
        return (*self.lanes, *pieces)

    @property
    def drawn(self) -> list[int]:
        """A basis of D: by what inputs differ between lanes and pieces."""
        return extend((), [column & self.words for column in self.moving])

    def table(self) -> NDArray[np.int64]:
        """`[outputs, lanes, pieces]`: the input piece that each takes, the input's number in the low bits."""
        outputs, lanes, pieces = (spanned(columns) for columns in (self.outputs, self.lanes, self.pieces))
        return outputs[:, None, None] ^ lanes[:, None] ^ pieces ^ self.constant


@dataclass(frozen=True)
class _Layer:
    """The last layer: bit `u` is decided, outputs `e` apart share words, whose pieces lie `d` apart."""

    u: int
    e: int
    d: int
    before: _Map

    def needed(self, output: int) -> tuple[int, int]:
        """The words that an output is chosen from."""
        pivot = self.e & -self.e
        low = output ^ self.e if output & pivot else output
        return low, low | pivot


def cheapest_network(demands: NDArray[np.int64], inputs: int) -> Network:
    """The best network by algebra or by search; only by algebra where that works and a search takes long."""
    outputs, lanes, pieces = demands.shape
    return _cheapest((outputs, lanes, pieces), demands.astype(np.int64).tobytes(), inputs)


@lru_cache(maxsize=512)
def _cheapest(shape: tuple[int, int, int], content: bytes, inputs: int) -> Network:
    demands = np.frombuffer(content, dtype=np.int64).reshape(shape)
    linear = linear_network(demands, inputs)
    if linear is not None and (len(demands) > _MOST_SEARCHED or linear.weight[1] <= _CHEAP):
        return linear
    found = find_network(demands, inputs)
    return found if linear is None else min((linear, found), key=lambda network: network.weight)


def linear_network(demands: NDArray[np.int64], inputs: int) -> Network | None:
    """The network for demands `[outputs, lanes, pieces]` that are linear; None for others.

    Pieces are numbered as in `find_network`, -1 where a place is unused in all outputs and lanes.
    """
    if not demands.size or any(size & (size - 1) for size in demands.shape):
        return None
    used = _used_places(demands)
    if used is None:
        return None
    numbers = np.unique(demands[demands >= 0] // demands.shape[2])
    target = _as_map(demands, numbers, used)
    if target is None:
        return None
    wanted = range(len(demands))
    found: list[Network] = []
    for layers in _ways(target, frozenset(wanted), ()):
        builder = _Builder(inputs, numbers)
        outputs = builder.build(target, layers, wanted)
        found.append(Network(inputs, tuple(builder.nodes), tuple(outputs)))
        if len(found) * len(builder.nodes) >= _MOST_NODES:
            break
    return min(found, key=lambda network: network.weight, default=None)


def _used_places(demands: NDArray[np.int64]) -> int | None:
    """The mask of piece numbers that are used, if these are all numbers within a mask; None otherwise."""
    there = demands[0, 0] >= 0
    places = np.flatnonzero(there)
    if not places.size or bool(((demands >= 0) != there).any()):
        return None
    mask = int(np.bitwise_or.reduce(places))
    return mask if 1 << mask.bit_count() == places.size else None


def _as_map(demands: NDArray[np.int64], numbers: NDArray[np.int64], used: int) -> _Map | None:
    """The demands as a map, completed to a bijection; `numbers` are the inputs that they use, in order."""
    outputs, lanes, pieces = demands.shape
    if len(numbers) & (len(numbers) - 1) or len(numbers) < outputs:
        return None
    bits, place_bits = len(numbers).bit_length() - 1, pieces.bit_length() - 1
    slots = np.searchsorted(numbers, demands // pieces) | demands % pieces << bits
    start = int(slots[0, 0, 0])
    of_outputs = [int(slots[1 << bit, 0, 0]) ^ start for bit in range(outputs.bit_length() - 1)]
    of_lanes = [int(slots[0, 1 << bit, 0]) ^ start for bit in range(lanes.bit_length() - 1)]
    of_pieces = {bit: int(slots[0, 0, 1 << bit]) ^ start for bit in range(place_bits) if used >> bit & 1}
    inside = [*of_outputs, *of_pieces.values()]
    if len(extend((), inside)) < len(inside):
        return None
    # unused places first get pieces of their own words
    units = [1 << bits + bit for bit in range(place_bits)] + [1 << bit for bit in range(bits)]
    free = iter(extend(inside, units))
    every = [of_pieces[bit] if bit in of_pieces else next(free) for bit in range(place_bits)]
    found = _Map((*of_outputs, *free), tuple(of_lanes), tuple(every), start, used)
    wanted = demands >= 0
    return found if np.array_equal(found.table()[:outputs][wanted], slots[wanted]) else None


def _ways(target: _Map, wanted: frozenset[int], layers: tuple[_Layer, ...]) -> Iterator[tuple[_Layer, ...]]:
    """Sequences of layers, from the last to the first, the promising ones first."""
    if not target.drawn:
        yield layers
        return
    for layer, needed in _layers(target, wanted)[:_WIDTH]:
        yield from _ways(layer.before, needed, (*layers, layer))


def _layers(target: _Map, wanted: frozenset[int]) -> list[tuple[_Layer, frozenset[int]]]:
    """The choices for the last layer and the words that each needs, the cheapest first."""
    bits, drawn = len(target.outputs), target.drawn
    inverse = tuple(coordinates((*target.outputs, *target.pieces)))
    found: list[tuple[tuple[int, ...], _Layer, frozenset[int]]] = []
    sums = spanned(drawn)[1:].tolist() if len(drawn) <= _MOST_DIMENSIONS else reduced(drawn)
    for moved, place in product(sums, range(1 << len(target.pieces))):
        step = moved | place << bits
        move = combined(inverse, step)
        e, d = move & target.words, move >> bits
        # pieces of two outputs may lie in places that were unused, one bit of places at a time
        if not e or (d & ~target.used).bit_count() > 1:
            continue
        for u in (bit for bit in range(bits) if moved >> bit & 1):
            layer = _Layer(u, e, d, _before(target, u, e, d, step))
            if len(layer.before.drawn) < len(drawn):
                needed = frozenset(word for output in wanted for word in layer.needed(output))
                found.append(((len(needed), *_price(target, layer)), layer, needed))
    found.sort(key=lambda entry: entry[0])
    return [(layer, needed) for _, layer, needed in found]


def _before(target: _Map, u: int, e: int, d: int, step: int) -> _Map:
    def settled(column: int) -> int:
        return column ^ step if column >> u & 1 else column

    outputs = [settled(column) for column in target.outputs]
    outputs[(e & -e).bit_length() - 1] = step
    lanes, pieces = (tuple(map(settled, columns)) for columns in (target.lanes, target.pieces))
    return _Map(tuple(outputs), lanes, pieces, settled(target.constant), target.used | d)


def _price(target: _Map, layer: _Layer) -> tuple[int, ...]:
    """What the nodes of this layer and of those before it depend on.

    Best are nodes whose selectors are the same in all lanes, then selects; places that differ from lane to
    lane in the words before cost most.
    """
    lanes, before = len(target.lanes), layer.before
    by_lane = sum(column >> layer.u & 1 for column in target.lanes)
    by_piece = any(column >> layer.u & 1 for column in target.moving[lanes:]) or layer.d != 0
    turned = sum(bool(column & ~target.words) for column in before.lanes)
    left = len(extend((), [column & target.words for column in before.lanes]))
    bits = layer.d.bit_count() + layer.e.bit_count()
    return by_lane * by_piece, turned, left, by_lane, bits


class _Builder:
    """Writes layers as nodes."""

    def __init__(self, inputs: int, numbers: NDArray[np.int64]) -> None:
        self.nodes: list[Node] = []
        self._inputs, self._numbers = inputs, numbers.tolist()

    def build(self, target: _Map, layers: tuple[_Layer, ...], wanted: Iterable[int]) -> list[int]:
        """The numbers of the words that `target` says."""
        found = self._words(target, layers, tuple(wanted))
        results = []
        for word, places in found.values():
            picks = _masked(places, target.used)
            straight = (picks < 0) | (picks == np.arange(picks.shape[1]))
            results.append(word if bool(straight.all()) else self._node(word, word, picks))
        return results

    def _words(
        self, target: _Map, layers: tuple[_Layer, ...], wanted: Sequence[int]
    ) -> dict[int, tuple[int, NDArray[np.int64]]]:
        """For each output a word, and the places `[lanes, pieces]` in it of the pieces wanted."""
        table, bits = target.table(), len(target.outputs)
        if not layers:
            inputs = (table[:, 0, 0] & target.words).tolist()
            return {output: (self._numbers[inputs[output]], table[output] >> bits) for output in wanted}
        layer = layers[0]
        needed = dict.fromkeys(word for output in wanted for word in layer.needed(output))
        before = self._words(layer.before, layers[1:], tuple(needed))
        made: dict[int, tuple[int, NDArray[np.int64]]] = {}
        for output in wanted:
            low, high = layer.needed(output)
            at = np.arange(table.shape[2]) ^ (layer.d if output != low else 0)
            side = table[output] >> layer.u & 1
            picks = np.where(side, before[high][1][:, at] + len(at), before[low][1][:, at])
            word = self._node(before[low][0], before[high][0], _masked(picks, target.used))
            made[output] = word, np.broadcast_to(np.arange(len(at)), picks.shape)
        return made

    def _node(self, low: int, high: int, picks: NDArray[np.int64]) -> int:
        self.nodes.append(Node(low, high, picks))
        return self._inputs + len(self.nodes) - 1


def _masked(picks: NDArray[np.int64], used: int) -> NDArray[np.int64]:
    """Picks of the places within a mask; the others do not matter."""
    return np.where(np.arange(picks.shape[1]) & ~used, ANY, picks)
