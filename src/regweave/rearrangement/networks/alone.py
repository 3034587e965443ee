"""Networks of words that are alike in all lanes, searched for with whole numbers.

The search is that of search.py and splits.py for a single lane: the same words from the same splits. There
most of the time goes into calls for arrays of a few entries. Here all pieces of an output are bits of one
number, and what a word holds is a list:

    >>> find_alone([[0, 4], [1, 5]], inputs=4, size=2)
    ([(0, 2, (0, 2)), (0, 2, (1, 3))], [4, 5])

Where lanes are alike nothing is told apart by the lane, so pieces of intermediate words lie as in the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from operator import or_
from typing import TypeAlias

from regweave.rearrangement.networks.network import ANY
from regweave.rearrangement.networks.splits import best_of, gathering, joined, sides_of

# two words, and which piece of both is taken for each place
_Node: TypeAlias = "tuple[int, int, tuple[int, ...]]"


def find_alone(demands: Sequence[Sequence[int]], inputs: int, size: int) -> tuple[list[_Node], list[int]]:
    """The nodes of the network for `demands[output]`, and the number of the word that each output is."""
    used = sorted({piece // size for demand in demands for piece in demand if piece >= 0})
    search = _Search(inputs, size)
    outputs = search.solve(used or [0], demands)
    return search.nodes, outputs


class _Search:
    """Collects nodes; equal ones are made once. `held[n]` is what word n holds."""

    def __init__(self, inputs: int, size: int) -> None:
        self.inputs, self.size = inputs, size
        self.nodes: list[_Node] = []
        self.held: list[Sequence[int]] = [range(size * at, size * (at + 1)) for at in range(inputs)]
        self._known: dict[_Node, int] = {}

    def solve(self, words: Sequence[int], demands: Sequence[Sequence[int]]) -> list[int]:
        """The numbers of words that hold what is demanded of `words`, which are inputs."""
        if len(words) <= 2:
            return [self.node(words[0], words[-1], demand) for demand in demands]
        masks = [reduce(or_, [1 << piece for piece in demand if piece >= 0], 0) for demand in demands]
        # how many pieces an output needs more than once
        twice = [
            len(demand) - demand.count(ANY) - mask.bit_count()
            for demand, mask in zip(demands, masks, strict=True)
        ]
        sides = [side for side in sides_of(words) if 0 < len(side) < len(words)]
        splits = [_Split(self.size, masks, twice, words, side, self.inputs) for side in sides]
        best = splits[best_of([split.nodes for split in splits], lambda number: splits[number].score)]
        made: list[dict[int, int]] = []
        for number, members in enumerate((best.side, best.rest)):
            bins, home = best.fill(number, demands)
            found = self.solve(members, bins)
            made.append({output: found[place] for output, place in home.items()})
        return joined(made, words[0], demands, self.node)

    def node(self, low: int, high: int, demand: Sequence[int]) -> int:
        """The word made of two others that holds what is demanded; one of them, if it does already."""
        for word in (low, high):
            if all(piece in (ANY, there) for piece, there in zip(demand, self.held[word], strict=True)):
                return word
        picks = [ANY] * self.size
        for base, word in ((self.size, high), (0, low)):
            held = self.held[word]
            places = {piece: place for place, piece in reversed(list(enumerate(held)))}
            for at, piece in enumerate(demand):
                if piece >= 0 and piece in places:
                    # a piece that lies where it is needed is taken from there
                    picks[at] = base + (at if held[at] == piece else places[piece])
        made = low, high, tuple(picks)
        if made not in self._known:
            self._known[made] = self.inputs + len(self.nodes)
            self.nodes.append(made)
            self.held.append(demand)
        return self._known[made]


class _Split:
    """The inputs in two, and which outputs share an intermediate word on each side."""

    def __init__(
        self,
        size: int,
        masks: Sequence[int],
        twice: Sequence[int],
        words: Sequence[int],
        side: Sequence[int],
        inputs: int,
    ) -> None:
        self._size, self._inputs, self._twice = size, inputs, twice
        self.side, self.rest = list(side), [word for word in words if word not in side]
        bits = sum([((1 << size) - 1) << size * word for word in side])
        self._masks = [mask & bits for mask in masks], [mask & ~bits for mask in masks]
        self._both = [bool(low and high) for low, high in zip(*self._masks, strict=True)]
        self.nodes = sum(self._both)

    @cached_property
    def _packed(self) -> list[tuple[dict[int, int], list[int]]]:
        # what one side delivers alone must come as it is; other pieces may lie anywhere
        twice = [-1 if both else count for both, count in zip(self._both, self._twice, strict=True)]
        first = sorted(range(len(twice)), key=self._both.__getitem__)
        return [
            _pack(part, [output for output in first if part[output]], twice, self._size)
            for part in self._masks
        ]

    @cached_property
    def score(self) -> int:
        """An estimate of the nodes that it takes: those that join both sides, and those of each side."""
        held = [pieces for _, words in self._packed for pieces in words]
        return self.nodes + gathering(held, self._size, self._inputs)

    def fill(self, number: int, demands: Sequence[Sequence[int]]) -> tuple[list[list[int]], dict[int, int]]:
        """What the intermediate words of one side hold, and the number of each output's word."""
        home, masks = self._packed[number][0], self._masks[number]
        order: dict[int, int] = {}
        places = {output: order.setdefault(place, len(order)) for output, place in home.items()}
        held = [[ANY] * self._size for _ in order]
        for output, place in places.items():
            if not self._both[output]:
                held[place] = list(demands[output])
        for output, place in places.items():
            if self._both[output]:
                mine = [piece for piece in demands[output] if piece >= 0 and masks[output] >> piece & 1]
                _join(held[place], mine)
        return held, places


def _pack(
    masks: Sequence[int], outputs: Sequence[int], twice: Sequence[int], size: int
) -> tuple[dict[int, int], list[int]]:
    """Output -> word, so that none needs more than `size` pieces of a word; the fullest fitting word wins.
    And the pieces that are needed of each word, one bit each.

    Where `twice[output]` is negative the output's pieces may lie anywhere. Others need theirs in order, some
    of them `twice`, so each has a word of its own, which more may join.
    """
    bins: list[int] = []
    repeated: list[int] = []
    home = {}
    for output in outputs:
        mask, place = masks[output], len(bins)
        loose, least = twice[output] < 0, size + 1
        for number, held in enumerate(bins if loose else ()):
            count = (held | mask).bit_count()
            if count + repeated[number] <= size and count - held.bit_count() < least:
                place, least = number, count - held.bit_count()
        if place == len(bins):
            bins.append(0)
            repeated.append(0)
        if not loose:
            repeated[place] = twice[output]
        bins[place] |= mask
        home[output] = place
    return home, bins


def _join(held: list[int], more: Sequence[int]) -> None:
    """Put new pieces into free places: where they lie in their input, else wherever there is room."""
    late: list[int] = []
    for piece in dict.fromkeys(more):
        if piece in held:
            continue
        if held[piece % len(held)] < 0:
            held[piece % len(held)] = piece
        else:
            late.append(piece)
    free = [place for place, piece in enumerate(held) if piece < 0]
    for piece, place in zip(late, free, strict=False):
        held[place] = piece
