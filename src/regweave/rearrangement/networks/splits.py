"""Inputs in two: which outputs share an intermediate word on each side, and what such words hold.

An output that needs pieces of both sides takes them from one word of each. Intermediate words serve as many
outputs as find room: no lane may need more pieces of one than it has.

    inputs a b | c d     outputs a0 b0 c0 d0, a1 b1 c1 d1     words a0 b0 a1 b1 and c0 d0 c1 d1 serve both
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from regweave.rearrangement.networks.network import ANY

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Demand = TypeVar("_Demand")
_MOST = np.iinfo(np.int64).max
# words that are halved in more ways than by one bit of their number
_FEW = 8


def best_split(
    demands: NDArray[np.int64], masks: NDArray[np.uint64], words: Sequence[int], inputs: int
) -> Split:
    """The split of `words` of the lowest score, the first of equal ones; `masks` are those of the demands."""
    # how many pieces an output needs more than once
    twice = (demands >= 0).sum(axis=2) - np.bitwise_count(masks).sum(axis=2, dtype=np.int64)
    sides = [side for side in sides_of(words) if 0 < len(side) < len(words)]
    splits = [Split(demands.shape[2], masks, twice, words, side, inputs) for side in sides]
    return splits[best_of([split.nodes for split in splits], lambda number: splits[number].score)]


def masks_of(wanted: NDArray[np.int64], inputs: int) -> NDArray[np.uint64]:
    """`[outputs, lanes, numbers]`: the pieces that each output needs in each lane, one bit each."""
    masks = np.zeros((*wanted.shape[:2], -(-inputs * wanted.shape[-1] // 64)), dtype=np.uint64)
    bits = np.where(wanted >= 0, np.uint64(1) << (wanted % 64).astype(np.uint64), np.uint64(0))
    for part in range(masks.shape[-1]):
        masks[:, :, part] = np.bitwise_or.reduce(np.where(wanted // 64 == part, bits, np.uint64(0)), axis=2)
    return masks


class Split:
    """The inputs in two, and which outputs share an intermediate word on each side."""

    def __init__(
        self,
        size: int,
        masks: NDArray[np.uint64],
        twice: NDArray[np.int64],
        words: Sequence[int],
        side: Sequence[int],
        inputs: int,
    ) -> None:
        self._size, self._inputs, self._twice = size, inputs, twice
        self.side = list(side)
        self.rest = [word for word in words if word not in side]
        bits = _bits_of(self.side, inputs, size)
        self._masks = masks & bits, masks & ~bits
        self._needed = [np.asarray(part.any(axis=(1, 2))) for part in self._masks]
        self._both = self._needed[0] & self._needed[1]
        self.nodes = int(np.count_nonzero(self._both))

    @cached_property
    def _packed(self) -> list[tuple[dict[int, int], list[int]]]:
        # what one side delivers alone must come as it is; other pieces may lie anywhere
        twice = np.where(self._both[:, None], -1, self._twice)
        first = np.argsort(self._both, kind="stable").tolist()
        return [
            _pack(part, [output for output in first if need[output]], twice, self._size)
            for part, need in zip(self._masks, self._needed, strict=True)
        ]

    @cached_property
    def score(self) -> int:
        """An estimate of the nodes that it takes: those that join both sides, and those of each side."""
        held = [pieces for _, words in self._packed for pieces in words]
        return self.nodes + gathering(held, self._size, self._inputs)

    def fill(
        self, number: int, demands: NDArray[np.int64], first: str
    ) -> tuple[NDArray[np.int64], dict[int, int]]:
        """What the intermediate words of one side hold, and the number of each output's word."""
        home = self._packed[number][0]
        wanted = demands[list(home)]
        of_side = np.zeros(self._inputs, dtype=bool)
        of_side[self.side] = True
        mine = (wanted >= 0) & (of_side[wanted // self._size] == (number == 0))
        parts = np.where(mine, wanted, ANY)
        alone = (parts == wanted).all(axis=(1, 2))
        order: dict[int, int] = {}
        places = [order.setdefault(place, len(order)) for place in home.values()]
        bins = np.array(places, dtype=np.int64)
        held = np.full((len(order), *parts.shape[1:]), ANY)
        held[bins[alone]] = parts[alone]
        # the first output of every word, then the second, and so on
        turns = np.array([places[:at].count(place) for at, place in enumerate(places)], dtype=np.int64)
        for turn in range(int(turns.max(initial=-1)) + 1):
            members = (turns == turn) & ~alone
            if members.any():
                shape = held[bins[members]].shape
                there, more = (t.reshape(-1, self._size) for t in (held[bins[members]], parts[members]))
                held[bins[members]] = _joined(there, more, first).reshape(shape)
        return held, dict(zip(home, places, strict=True))


def gathering(held: Sequence[int], size: int, inputs: int) -> int:
    """An estimate of the nodes that gather what words hold: pieces of inputs, a bit each."""
    lowest = ((1 << size * inputs) - 1) // ((1 << size) - 1)
    return sum([max(_words_used(pieces, size, lowest) - 1, 0).bit_length() for pieces in held])


def _words_used(pieces: int, size: int, lowest: int) -> int:
    """Of how many words these are pieces; `lowest` are the first pieces of all words."""
    apart = size
    while apart > 1:  # the lowest of a word's bits says whether any is set
        apart //= 2
        pieces |= pieces >> apart
    return (pieces & lowest).bit_count()


def joined(
    made: Sequence[Mapping[int, int]],
    any_word: int,
    demands: Iterable[_Demand],
    node: Callable[[int, int, _Demand], int],
) -> list[int]:
    """The words of the outputs from those that both sides `made` for them: one, or the `node` of two."""
    outputs = []
    for output, demand in enumerate(demands):
        parts = [side[output] for side in made if output in side] or [any_word]
        outputs.append(parts[0] if len(parts) == 1 else node(parts[0], parts[1], demand))
    return outputs


def best_of(nodes: Sequence[int], score: Callable[[int], int]) -> int:
    """The first of the splits with the lowest score, of which the nodes that join both sides are a part."""
    best: tuple[int, int] | None = None
    for least, number in sorted(zip(nodes, range(len(nodes)), strict=True)):
        if best is None or (least, number) < best:
            best = min((score(number), number), best or (_MOST, number))
    assert best is not None
    return best[1]


def sides_of(words: Sequence[int]) -> list[list[int]]:
    """Halves of the words to try: all pairings of up to four, else by the bits of their numbers."""
    if len(words) <= 4:
        return [[words[0], *others] for others in combinations(words[1:], (len(words) - 1) // 2)]
    bits = (len(words) - 1).bit_length()
    every = range(1, 1 << bits) if len(words) <= _FEW else [1 << bit for bit in range(bits)]
    return [
        [word for number, word in enumerate(words) if not (number & chosen).bit_count() & 1]
        for chosen in every
    ]


def _bits_of(words: Sequence[int], inputs: int, size: int) -> NDArray[np.uint64]:
    """The bits that stand for the pieces of these words, 64 to a number."""
    total = sum(((1 << size) - 1) << size * word for word in words)
    numbers = range(-(-inputs * size // 64))
    return np.array([total >> 64 * number & (1 << 64) - 1 for number in numbers], dtype=np.uint64)


def _pack(
    masks: NDArray[np.uint64], outputs: Sequence[int], twice: NDArray[np.int64], size: int
) -> tuple[dict[int, int], list[int]]:
    """Output -> word, so that no lane needs more than `size` pieces of a word; the fullest fitting word wins.
    And the pieces that any lane needs of each word, one bit each.

    Where `twice[output]` is negative the output's pieces may lie anywhere. Others need theirs in order, some
    of them `twice`, so each has a word of its own, which more may join.
    """
    bins = np.zeros((len(outputs), *masks.shape[1:]), dtype=np.uint64)
    repeated = np.zeros((len(outputs), masks.shape[1]), dtype=np.int64)
    held = np.zeros(len(outputs), dtype=np.int64)
    filled, home = 0, {}
    for output in outputs:
        loose = bool(twice[output, 0] < 0)
        place, mask = filled, masks[output]
        if loose and filled:
            sizes = np.bitwise_count(bins[:filled] | mask)
            sizes = sizes[:, :, 0] if mask.shape[1] == 1 else sizes.sum(axis=2, dtype=np.int64)
            fits = (sizes + repeated[:filled]).max(axis=1) <= size
            if fits.any():
                grown = sizes.sum(axis=1, dtype=np.int64) - held[:filled]
                place = int(np.where(fits, grown, _MOST).argmin())
        if not loose:
            repeated[place] = twice[output]
        filled = max(filled, place + 1)
        bins[place] |= mask
        held[place] = np.bitwise_count(bins[place]).sum(dtype=np.int64)
        home[output] = place
    needed = np.bitwise_or.reduce(bins[:filled], axis=1).astype("<u8")
    return home, [int.from_bytes(word.tobytes(), "little") for word in needed]


def _joined(held: NDArray[np.int64], more: NDArray[np.int64], first: str) -> NDArray[np.int64]:
    """`held` with the pieces of `more` in its free places: those that come `first`, then any. Row by row."""
    held, size = held.copy(), held.shape[1]
    rows = np.arange(len(held))
    earlier = np.tri(size, k=-1, dtype=bool)
    equal = more[:, :, None] == more[:, None, :]
    new = (more >= 0) & ~(more[:, :, None] == held[:, None, :]).any(axis=2) & ~(equal & earlier).any(axis=2)
    if first != "any":
        for column in range(size):
            piece = more[:, column]
            place = piece % size if first == "old" else np.full_like(piece, column)
            fits = new[:, column] & (held[rows, place] < 0)
            held[rows[fits], place[fits]] = piece[fits]
            new[fits, column] = False
    row, column = np.nonzero(new)
    if row.size:
        free = np.argsort(held >= 0, axis=1, kind="stable")
        held[row, free[row, np.cumsum(new, axis=1)[row, column] - 1]] = more[row, column]
    return held
