"""Putting words together from the pieces of others: networks of permutes and selects of two words.

A byte permute takes any four of the eight bytes of two words, and its selector is a register: it may differ
from lane to lane, so a permute is a choice and a byte shuffle in one. Transposing four words of four bytes is
the model case. One output needs a byte of each input, which takes 3 permutes, but the four outputs together
take 8, because an intermediate word serves two of them:

    inputs  a b c d     intermediates  ab = a0 b0 a1 b1   ab' = a2 b2 a3 b3   cd = ...   cd' = ...
    outputs a0 b0 c0 d0 = permute(ab, cd)    a1 b1 c1 d1 = permute(ab, cd)    ...

The search does this for any outputs: it splits the inputs in two, collects what each side must deliver, packs
that into as few intermediate words as will hold it in every lane, and solves both sides the same way. Where
lanes differ they only need to fit lane by lane, so that rotating four words by the lane's number, a
choice of whole words, takes 8 selects by the same reasoning. Nothing here depends on four pieces: a vector
register of 16 positions is a word of 16 pieces in one lane, and a 16 x 16 transpose takes 64 permutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANY = -1
# where the pieces of an intermediate word may lie: as in the input, as in the output, or as they come
_PLACES = ("old", "new", "any")
# outputs x lanes beyond which one way to place pieces must do
_LARGE = 512
_MOST = np.iinfo(np.int64).max
# words that are halved in more ways than by one bit of their number
_FEW = 8
# words, and what is demanded of them
_Key = tuple[tuple[int, ...], bytes]


@dataclass(frozen=True, eq=False)
class Node:
    """A word made of the words `low` and `high`, which number inputs or earlier nodes.

    `picks[lane, i]` says which piece of low, counted from 0, or of high, counted on from there, becomes
    piece i; -1 if that does not matter.
    """

    low: int
    high: int
    picks: NDArray[np.int64]

    @cached_property
    def selects(self) -> NDArray[np.bool_] | None:
        """For each lane whether it takes all of `high`, if every lane takes a whole word; else None."""
        size = self.picks.shape[1]
        cares = self.picks >= 0
        of_high = self.picks >= size
        whole = ~cares | (self.picks % size == np.arange(size))
        mixed = (of_high & cares).any(axis=1) & (~of_high & cares).any(axis=1)
        return of_high.any(axis=1) if bool(whole.all()) and not mixed.any() else None

    @cached_property
    def settled(self) -> NDArray[np.int64]:
        """`picks` with those that do not matter chosen as in the lane where they do whose number differs in
        the fewest bits; 0 where they matter in no lane."""
        lanes, size = self.picks.shape
        highest, found = self.picks.max(axis=0), self.picks
        if bool(((found < 0) | (found == highest)).all()):
            return np.broadcast_to(np.maximum(highest, 0), found.shape)
        for others in _by_distance(lanes):
            if bool((found >= 0).all()):
                return found
            # of the lanes that are so far away and care the first
            cares = self.picks[others % lanes] >= 0
            first = np.where(cares & (others < lanes)[:, :, None], others[:, :, None], lanes).min(axis=1)
            there = self.picks[np.minimum(first, lanes - 1), range(size)]
            found = np.where((found < 0) & (first < lanes), there, found)
        return np.maximum(found, 0)


@dataclass(frozen=True, eq=False)
class Network:
    """Inputs 0 to `inputs` - 1, then one number per node; `outputs` name inputs or nodes."""

    inputs: int
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    @cached_property
    def weight(self) -> tuple[int, int]:
        """Nodes, and an estimate of what telling the lanes apart takes, in half instructions.

        A choice of whole words shares its predicate; a table of 2^k rows is put together from k choices, and
        one that differs from an earlier one by a constant follows from it.
        """
        tables: dict[bytes, bytes] = {}
        slots, selects = 0, set[bytes]()
        for node in self.nodes:
            varying = node.picks ^ node.picks[0]
            key = varying.tobytes()
            if not varying.any():
                continue
            if node.selects is not None:
                selects.add(key)
            elif (exact := node.picks.tobytes()) not in tables:
                rows = len(np.unique(varying, axis=0))
                known = any(key == other for other in tables.values())
                slots += 2 if known else 4 * (rows - 1).bit_length() - 2
                tables[exact] = key
        return len(self.nodes), slots + len(selects)


@lru_cache(maxsize=16)
def _by_distance(lanes: int) -> tuple[NDArray[np.int64], ...]:
    """For each lane the numbers that differ from its own in one bit, those that do in two, and so on."""
    numbers = np.arange(1 << max(lanes - 1, 0).bit_length())
    bits = np.bitwise_count(numbers)
    return tuple(
        np.arange(lanes)[:, None] ^ numbers[bits == count] for count in range(1, int(bits.max()) + 1)
    )


def find_network(demands: NDArray[np.int64], inputs: int) -> Network:
    """The network whose output o has, in every lane, the input piece `demands[o, lane, i]` as its piece i.

    Words have as many pieces as the last axis is long. A piece is numbered input * pieces + its place in
    the input; -1 where it does not matter. The network is right for any demands, and cheap where outputs can
    share intermediate words.
    Of networks with equally many nodes that with the fewest different choices by the lane is returned.
    """
    outputs, lanes, pieces = demands.shape
    return _find((outputs, lanes, pieces), demands.astype(np.int64).tobytes(), inputs)


@lru_cache(maxsize=512)
def _find(shape: tuple[int, int, int], content: bytes, inputs: int) -> Network:
    demands = np.frombuffer(content, dtype=np.int64).reshape(shape)
    used = np.unique(demands[demands >= 0] // demands.shape[2]).tolist()
    best: Network | None = None
    splits: dict[_Key, _Split] = {}
    large = demands.shape[0] * demands.shape[1] > _LARGE
    for first in _PLACES[:1] if large else _PLACES:
        search = _Search(inputs, demands.shape[1], demands.shape[2], first, splits)
        outputs = search.solve(used or [0], list(demands))
        network = Network(inputs, tuple(search.nodes), tuple(outputs))
        if best is None or network.weight < best.weight:
            best = network
        if best.weight[1] == 0 or len(used) <= 2:
            break  # no intermediate words, or nothing depends on the lane
    assert best is not None
    return best


class _Search:
    """Collects nodes; equal ones are made once. `held[n]` is what word n holds."""

    def __init__(self, inputs: int, lanes: int, size: int, first: str, splits: dict[_Key, _Split]) -> None:
        self.inputs, self.size = inputs, size
        self._first, self._splits = first, splits
        self.nodes: list[Node] = []
        self.held = [np.tile(np.arange(size) + size * number, (lanes, 1)) for number in range(inputs)]
        self._known: dict[tuple[int, int, bytes], int] = {}

    def solve(self, words: Sequence[int], demands: Sequence[NDArray[np.int64]]) -> list[int]:
        """The numbers of words that hold what is demanded of `words`, which are inputs."""
        if len(words) <= 2:
            return [self.node(words[0], words[-1], demand) for demand in demands]
        masks = _masks(np.asarray(demands), self.inputs)
        key = tuple(words), masks.tobytes()
        if key not in self._splits:
            sides = [side for side in _sides(words) if 0 < len(side) < len(words)]
            tried = [_Split(demands, masks, words, side, self.inputs) for side in sides]
            self._splits[key] = _best(tried)
        best = self._splits[key]
        made: list[dict[int, int]] = []
        for number, members in enumerate((best.side, best.rest)):
            bins, home = best.fill(number, demands, self._first)
            found = self.solve(members, bins)
            made.append({output: found[place] for output, place in home.items()})
        outputs = []
        for output, demand in enumerate(demands):
            parts = [side[output] for side in made if output in side] or [words[0]]
            outputs.append(parts[0] if len(parts) == 1 else self.node(parts[0], parts[1], demand))
        return outputs

    def node(self, low: int, high: int, demand: NDArray[np.int64]) -> int:
        """The word made of two others that holds what is demanded; one of them, if it does already."""
        for word in (low, high):
            if bool(((demand < 0) | (demand == self.held[word])).all()):
                return word
        picks, straight = np.full_like(demand, ANY), np.arange(self.size)
        for base, word in ((self.size, high), (0, low)):
            equal = self.held[word][:, None, :] == demand[:, :, None]
            # a piece that lies where it is needed is taken from there
            place = np.where(equal[:, straight, straight], straight, equal.argmax(axis=2))
            picks = np.where(equal.any(axis=2) & (demand >= 0), place + base, picks)
        key = low, high, picks.tobytes()
        if key not in self._known:
            self._known[key] = self.inputs + len(self.nodes)
            self.nodes.append(Node(low, high, picks))
            self.held.append(demand)
        return self._known[key]


class _Split:
    """The inputs in two, and which outputs share an intermediate word on each side."""

    def __init__(
        self,
        demands: Sequence[NDArray[np.int64]],
        masks: NDArray[np.uint64],
        words: Sequence[int],
        side: Sequence[int],
        inputs: int,
    ) -> None:
        self._size, self._inputs = demands[0].shape[1], inputs
        self.side = list(side)
        self.rest = [word for word in words if word not in side]
        self._of_side = np.zeros(inputs, dtype=bool)
        self._of_side[self.side] = True
        bits = _bits_of(self.side, inputs, self._size)
        self._masks = masks & bits, masks & ~bits
        needed = [np.asarray(part.any(axis=(1, 2))) for part in self._masks]
        both = needed[0] & needed[1]
        self._demands, self._needed, self._both = demands, needed, both
        self.nodes = int(both.sum())

    @property
    def homes(self) -> list[dict[int, int]]:
        """On each side the number of the intermediate word that every output takes its pieces from."""
        return [home for home, _ in self._packed]

    @cached_property
    def _packed(self) -> list[tuple[dict[int, int], NDArray[np.uint64]]]:
        # what one side delivers alone must come as it is; other pieces may lie anywhere
        wanted, masks = np.asarray(self._demands), self._masks[0] | self._masks[1]
        twice = (wanted >= 0).sum(axis=2) - np.bitwise_count(masks).sum(axis=2, dtype=np.int64)
        twice[self._both] = -1
        first = np.argsort(self._both, kind="stable").tolist()
        return [
            _pack(part, [output for output in first if need[output]], twice, self._size)
            for part, need in zip(self._masks, self._needed, strict=True)
        ]

    @cached_property
    def score(self) -> int:
        """An estimate of the nodes that it takes: those that join both sides, and those of each side."""
        return self.nodes + sum(map(self._price, range(2)))

    def _price(self, number: int) -> int:
        """An estimate of what the intermediate words of one side will take."""
        merged, apart = np.bitwise_or.reduce(self._packed[number][1], axis=1), self._size
        while apart > 1:  # the lowest of an input's bits says whether any is set
            apart //= 2
            merged = merged | merged >> np.uint64(apart)
        lowest = np.uint64(((1 << 64) - 1) // ((1 << self._size) - 1))
        used = np.bitwise_count(merged & lowest).sum(axis=1, dtype=np.int64).tolist()
        return sum(max(words - 1, 0).bit_length() for words in used)

    def fill(
        self, number: int, demands: Sequence[NDArray[np.int64]], first: str
    ) -> tuple[list[NDArray[np.int64]], dict[int, int]]:
        """What the intermediate words of one side hold, and the number of each output's word."""
        home = self.homes[number]
        wanted = np.asarray(demands)[list(home)]
        mine = (wanted >= 0) & (self._of_side[wanted // self._size] == (number == 0))
        parts = np.where(mine, wanted, ANY)
        alone = np.array([np.array_equal(*pair) for pair in zip(parts, wanted, strict=True)], dtype=bool)
        places = np.array(list(home.values()))
        order = {place: at for at, place in enumerate(dict.fromkeys(places.tolist()))}
        bins = np.array([order[place] for place in places.tolist()])
        held = np.full((len(order), *parts.shape[1:]), ANY)
        held[bins[alone]] = parts[alone]
        # the first output of every word, then the second, and so on
        turns = np.array([np.count_nonzero(bins[:at] == bin) for at, bin in enumerate(bins)])
        for turn in range(int(turns.max(initial=-1)) + 1):
            members = (turns == turn) & ~alone
            if members.any():
                shape = held[bins[members]].shape
                there, more = (t.reshape(-1, self._size) for t in (held[bins[members]], parts[members]))
                held[bins[members]] = _joined(there, more, first).reshape(shape)
        return list(held), {output: int(at) for output, at in zip(home, bins, strict=True)}


def _best(splits: Sequence[_Split]) -> _Split:
    """The first of those with the lowest score, of which the nodes that join both sides are a part."""
    best = None
    for number in sorted(range(len(splits)), key=lambda at: splits[at].nodes):
        if best is None or (splits[number].nodes, number) < (splits[best].score, best):
            better = best is None or (splits[number].score, number) < (splits[best].score, best)
            best = number if better else best
    assert best is not None
    return splits[best]


def _sides(words: Sequence[int]) -> list[list[int]]:
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


def _masks(wanted: NDArray[np.int64], inputs: int) -> NDArray[np.uint64]:
    """`[outputs, lanes, numbers]`: the pieces that each output needs in each lane, one bit each."""
    masks = np.zeros((*wanted.shape[:2], -(-inputs * wanted.shape[-1] // 64)), dtype=np.uint64)
    bits = np.where(wanted >= 0, np.uint64(1) << (wanted % 64).astype(np.uint64), np.uint64(0))
    for part in range(masks.shape[-1]):
        masks[:, :, part] = np.bitwise_or.reduce(np.where(wanted // 64 == part, bits, np.uint64(0)), axis=2)
    return masks


def _pack(
    masks: NDArray[np.uint64], outputs: Sequence[int], twice: NDArray[np.int64], size: int
) -> tuple[dict[int, int], NDArray[np.uint64]]:
    """Output -> word, so that no lane needs more than `size` pieces of a word; the fullest fitting word wins.
    And the pieces that lanes need of each word.

    Where `twice[output]` is negative the output's pieces may lie anywhere. Others need theirs in order, some
    of them `twice`, so each has a word of its own, which more may join.
    """
    if masks.shape[1] == 1:
        return _pack_alike(masks[:, 0], outputs, twice[:, 0].tolist(), size)
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
    return home, bins[:filled]


def _pack_alike(
    masks: NDArray[np.uint64], outputs: Sequence[int], twice: Sequence[int], size: int
) -> tuple[dict[int, int], NDArray[np.uint64]]:
    """The same where all lanes are alike, `masks[output]` being numbers of 64 pieces: with whole numbers."""
    numbers = masks.shape[1]
    whole = [sum(part << 64 * at for at, part in enumerate(row)) for row in masks.tolist()]
    bins: list[int] = []
    repeated: list[int] = []
    home = {}
    for output in outputs:
        mask, place = whole[output], len(bins)
        loose, least = twice[output] < 0, _MOST
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
    words = [[held >> 64 * at & (1 << 64) - 1 for at in range(numbers)] for held in bins]
    return home, np.array(words, dtype=np.uint64).reshape(len(bins), 1, numbers)


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
