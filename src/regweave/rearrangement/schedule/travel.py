"""Words that are put together to travel, for elements narrower than a register.

Where the elements of a destination word come from several lanes, a lane sends what another needs of it as
*travel words*, made of parts of its own words, and puts its words together from those that arrive. The f16
C -> B seam is the model case. Lane 4 g + t needs, of every 8 x 8 block, two halves from two lanes; what it
needs of one lane in two blocks fills a word. So each pair of blocks takes two travel words: two byte permutes
to make them, two exchanges, two byte permutes to take them apart.

Travel words are words: their coordination matrix says that in round j lane i takes travel word q of lane p
as its arrival r. Only making them and taking them apart comes on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts.elements import REGISTER_BITS
from regweave.rearrangement.group import Group
from regweave.rearrangement.networks.network import Network
from regweave.rearrangement.parts import NOTHING
from regweave.rearrangement.schedule.demands import Demands
from regweave.rearrangement.schedule.matrix import CoordinationMatrix, Entry
from regweave.rearrangement.spreading import BYTE, pieces_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES = REGISTER_BITS // BYTE


@dataclass(frozen=True, eq=False)
class Needs:
    """What the lanes of a group need, in the group's numbers: `[lanes, destination parts]` each.

    Part u of a lane (register * parts of a word + place) is the part `own[lane, u]` of lane `peers[lane, u]`,
    counted likewise; both are -1 where nothing is needed. A part has `bits` bits.
    """

    bits: int
    peers: NDArray[np.int64]
    own: NDArray[np.int64]

    @property
    def lanes(self) -> int:
        """Lanes of the group."""
        return self.peers.shape[0]

    @property
    def has_local(self) -> bool:
        """Whether a lane needs anything that it has."""
        return bool((self.peers == np.arange(self.lanes)[:, None]).any())

    @property
    def remote_words(self) -> int:
        """The most travel words that a lane takes from others, at least."""
        own = np.arange(self.lanes)[:, None]
        pairs = (own * self.lanes + self.peers)[(self.peers >= 0) & (self.peers != own)]
        counts = np.bincount(pairs, minlength=self.lanes**2).reshape(self.lanes, -1)
        return int((-(-counts // self.per_word)).sum(axis=1).max())

    @cached_property
    def once(self) -> bool:
        """Whether no part is needed twice."""
        parts = (self.peers * (self.per_word * self.registers) + self.own)[self.peers >= 0]
        return len(np.unique(parts)) == parts.size

    @property
    def per_word(self) -> int:
        """Parts of a word."""
        return 32 // self.bits

    @property
    def registers(self) -> int:
        """Registers of the group."""
        return self.peers.shape[1] // self.per_word


@dataclass(frozen=True, eq=False)
class Journeys:
    """Travel word e goes from lane `peers[e]` to lane `takers[e]` in round `rounds[e]`.

    `units[e, k]` is the taker's part that lies at place k of it; -1 for none.
    """

    takers: NDArray[np.int64]
    peers: NDArray[np.int64]
    units: NDArray[np.int64]
    rounds: NDArray[np.int64]

    @cached_property
    def count(self) -> int:
        """Rounds."""
        return int(self.rounds.max(initial=-1)) + 1

    @property
    def has_local_rounds(self) -> bool:
        """Whether in some round every lane takes from itself."""
        moving = self.takers != self.peers
        return len(np.unique(self.rounds[moving])) < len(np.unique(self.rounds))


@dataclass(frozen=True, eq=False)
class Travel:
    """A schedule of travel words, with the networks that make them and take them apart, found when needed.

    `offered` makes, from the pieces of a lane's own words, those of what it offers in each round; `kept`
    makes the pieces of the destination words from those of the arrivals, round by round, and of the own
    words. A piece is a word, or what `pieces` of a word lie in when its parts are narrower than a byte.
    """

    needs: Needs
    group: Group
    journeys: Journeys

    @property
    def bits(self) -> int:
        """Bits of a part."""
        return self.needs.bits

    @cached_property
    def demands(self) -> tuple[Demands, Demands]:
        """What is offered, of own words, and what is kept, of arrivals and own words."""
        return _demands(self.needs, self.journeys)

    @cached_property
    def matrix(self) -> CoordinationMatrix:
        """H of the travel words."""
        return _matrix(self.needs, self.group, self.journeys)

    @cached_property
    def offered(self) -> Network:
        """From own words to what is sent."""
        return self.demands[0].network

    @cached_property
    def kept(self) -> Network:
        """From arrivals and own words to the destination's."""
        return self.demands[1].network

    @property
    def pieces(self) -> int:
        """In how many words of whole bytes the parts of a word are spread."""
        return pieces_of(self.bits)

    @property
    def least_nodes(self) -> int:
        """Permutes and selects that no networks do without."""
        return sum(demands.least for demands in self.demands)

    def spreading(self, *, direct: bool) -> int:
        """Instructions that spread and join words, at least; rounds in which nothing moves do without.

        0 where parts have bytes of their own, or are needed more than once.
        """
        size, needs = self.pieces, self.needs
        if size == 1 or not needs.once:
            return 0
        offered, kept = (demands.table for demands in self.demands)
        arrivals = self.journeys.count * size
        parts = np.flatnonzero(np.bincount(kept[kept >= 0] // _BYTES))
        own = np.union1d(
            np.flatnonzero(np.bincount(offered[offered >= 0] // _BYTES)), parts[parts >= arrivals] - arrivals
        )
        moving = np.arange(self.journeys.count) if direct else self.moving
        taken = parts[np.isin(parts // size, moving)]
        # a piece is masked; all but the first are moved down before, and up again when they are joined
        masked = len(own) + np.count_nonzero(own % size) + len(taken) + np.count_nonzero(taken % size)
        words = (t.reshape(len(t) // size, size * math.prod(t.shape[1:])) for t in (offered, kept))
        sent, made = (np.all(word >= 0, axis=1) for word in words)
        joined = np.count_nonzero(sent[moving]) + np.count_nonzero(made)
        return int(masked + 2 * (size - 1) * joined)

    @property
    def nodes(self) -> int:
        """Permutes and selects."""
        return len(self.offered.nodes) + len(self.kept.nodes)

    @cached_property
    def selectors(self) -> int:
        """Different selectors that lanes do not have in common: an instruction each, at least."""
        permutes = (node for node in (*self.offered.nodes, *self.kept.nodes) if node.selects is None)
        tables = (node.settled for node in permutes)
        return len({table.tobytes() for table in tables if bool((table != table[0]).any())})

    @cached_property
    def moving(self) -> NDArray[np.int64]:
        """The rounds in which anything moves between lanes."""
        journeys = self.journeys
        return np.unique(journeys.rounds[journeys.takers != journeys.peers])

    @property
    def exchanges(self) -> int:
        """How many these are."""
        return len(self.moving)

    def rounds(self, *, direct: bool) -> int:
        """Rounds that take an exchange: all of them in the `direct` form."""
        return self.journeys.count if direct else self.exchanges


def arranged(journeys: Journeys, needs: Needs) -> tuple[Journeys, ...]:
    """The same travel words with their parts in other places: as they lie in the source, or are needed.

    A word whose parts lie as in the source may be there already, one whose parts lie as they are needed may
    need no permute on arrival. Where two parts claim one place the order is kept as it is.
    """
    units, there = journeys.units, journeys.units >= 0
    places = (
        needs.own[journeys.takers[:, None], units] % needs.per_word,
        units % needs.per_word,
    )
    found = []
    for claimed in places:
        bits = np.where(there, 1 << claimed, 0)
        if bool((np.bitwise_or.reduce(bits, axis=1) == bits.sum(axis=1)).all()):
            moved = np.full_like(units, NOTHING)
            rows, columns = np.nonzero(there)
            moved[rows, claimed[rows, columns]] = units[rows, columns]
            found.append(replace(journeys, units=moved))
    return tuple(found) or (journeys,)


def make_travel(journeys: Journeys, needs: Needs, group: Group, *, stay: bool) -> Travel:
    """The schedule of these journeys; with `stay`, parts of rounds that are local are not sent but kept."""
    if not stay:
        return Travel(needs, group, journeys)
    rounds, remote = journeys.rounds, journeys.takers != journeys.peers
    moves = np.zeros(journeys.count, dtype=bool)
    moves[rounds[remote]] = True
    kept = moves[rounds]
    left = Journeys(
        journeys.takers[kept],
        journeys.peers[kept],
        journeys.units[kept],
        (np.cumsum(moves) - 1)[rounds[kept]],
    )
    return Travel(needs, group, left)


def _demands(needs: Needs, journeys: Journeys) -> tuple[Demands, Demands]:
    takers, peers, units, rounds = journeys.takers, journeys.peers, journeys.units, journeys.rounds
    size, count = needs.per_word, journeys.count
    there = units >= 0
    offered = np.full((count, needs.lanes, size), NOTHING)
    offered[rounds, peers] = np.where(there, needs.own[takers[:, None], units], NOTHING)
    # what no journey brings is there already
    kept = np.where(needs.peers >= 0, needs.own + count * size, NOTHING)
    rows, columns = np.nonzero(there)
    kept[takers[rows], units[rows, columns]] = rounds[rows] * size + columns
    kept = kept.reshape(needs.lanes, needs.registers, size).swapaxes(0, 1)
    spread = pieces_of(needs.bits)
    return (
        Demands(in_pieces(offered, needs.bits), needs.registers * spread),
        Demands(in_pieces(kept, needs.bits), (count + needs.registers) * spread),
    )


def _matrix(needs: Needs, group: Group, journeys: Journeys) -> CoordinationMatrix:
    """H of travel words, numbered in each lane by who takes them, and of arrivals, by round.

    Words that are not put together have the numbers that they have.
    """
    takers, peers, units, rounds = journeys.takers, journeys.peers, journeys.units, journeys.rounds
    lanes, count = len(group.lanes), len(takers)
    registers = np.array(group.registers)
    words, keeps = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if needs.per_word == 1:
        words, keeps = registers[needs.own[takers, units[:, 0]]], registers[units[:, 0]]
    numbered = ((words, (takers, peers)), (keeps, (rounds, takers)))
    for numbers, ends in numbered if needs.per_word > 1 else ():
        order = np.lexsort((rounds, *ends))
        ordered = ends[1][order]
        numbers[order] = np.arange(count) - np.searchsorted(ordered, ordered)
    rows: list[list[Entry | None]] = [[None] * journeys.count for _ in range(lanes)]
    for taker, peer, word, keep, number in np.stack([takers, peers, words, keeps, rounds], axis=1).tolist():
        rows[taker][number] = Entry(group.lanes[peer], word, keep)
    return CoordinationMatrix(group.lanes, tuple(map(tuple, rows)), ((),) * lanes)


def in_pieces(table: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Demands in parts, `[outputs, lanes, parts]` of word * parts + place, as demands on whole bytes.

    Parts of less than a byte lie in several pieces of a word: part k in byte k // pieces of piece k % pieces.
    """
    if bits >= BYTE:
        return table
    pieces = pieces_of(bits)
    word, place = np.divmod(table, table.shape[2])
    codes = np.where(table < 0, NOTHING, (word * pieces + place % pieces) * 4 + place // pieces)
    split = codes.reshape(*table.shape[:2], 4, pieces)
    return np.moveaxis(split, 3, 1).reshape(-1, table.shape[1], 4)
