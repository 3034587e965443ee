"""Few rounds for requests that several holders can serve and many lanes can share.

No schedule is shorter than the busiest taker's distinct words, or than the distinct words that only one lane
holds. From that bound upwards each length is tried: requests are served in the order of how little choice
they leave, each in the round and from the holder that serve most of its takers at once, prefer what is
offered anyway, and burden the lane that offers least. Small groups are searched to the end: theirs are then
the fewest rounds there are; for larger ones the first length that works is taken.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regweave.rearrangement.holders import Holder

_TRIES = 4
_MOST_TAKES_TO_SEARCH = 40
_MOST_NODES = 2000


@dataclass(frozen=True)
class Request:
    """Lanes that need one word, and who holds it."""

    takers: tuple[int, ...]
    holders: tuple[Holder, ...]


# (round, taker) -> whom it takes from
Schedule = dict[tuple[int, int], Holder]


def fewest_rounds(requests: Sequence[Request]) -> tuple[Schedule, int]:
    """A schedule that serves all requests, and its number of rounds."""
    rounds = _bound(requests)
    while True:
        for attempt in range(_TRIES):
            found = _served(requests, rounds, attempt)
            if found is not None:
                return found, rounds
        if sum(len(request.takers) for request in requests) <= _MOST_TAKES_TO_SEARCH:
            found = _searched(requests, rounds)
            if found is not None:
                return found, rounds
        rounds += 1


def _bound(requests: Sequence[Request]) -> int:
    takes: dict[int, int] = {}
    for request in requests:
        for taker in request.takers:
            takes[taker] = takes.get(taker, 0) + 1
    only = {request.holders[0] for request in requests if len(request.holders) == 1}
    offers = Counter(peer for peer, _ in only)
    return max([0, *takes.values(), *offers.values()])


class _State:
    """Rounds as bit masks: which are free for whom, and what is offered in them."""

    def __init__(self, rounds: int) -> None:
        self.everything = (1 << rounds) - 1
        self.taken: dict[int, int] = {}
        self.offering: dict[int, int] = {}
        self.offered: dict[Holder, int] = {}

    def open(self, taker: int, holder: Holder) -> int:
        """The rounds in which `taker` can take this word of this lane."""
        here = self.everything & ~self.offering.get(holder[0], 0) | self.offered.get(holder, 0)
        return here & ~self.taken.get(taker, 0)

    def take(self, taker: int, holder: Holder, number: int) -> None:
        """Let `taker` take it in this round."""
        bit = 1 << number
        self.taken[taker] = self.taken.get(taker, 0) | bit
        self.offering[holder[0]] = self.offering.get(holder[0], 0) | bit
        self.offered[holder] = self.offered.get(holder, 0) | bit

    def copy(self) -> _State:
        """The same, to be changed apart."""
        other = _State(0)
        other.everything = self.everything
        other.taken, other.offering = dict(self.taken), dict(self.offering)
        other.offered = dict(self.offered)
        return other


def _served(requests: Sequence[Request], rounds: int, attempt: int) -> Schedule | None:
    """Every request in turn, or None if one cannot be served any more."""
    state, schedule = _State(rounds), Schedule()
    ordered = list(requests)
    random.Random(attempt).shuffle(ordered)
    ordered.sort(key=lambda request: (len(request.holders), -len(request.takers)))
    for request in ordered:
        waiting = list(request.takers)
        while waiting:
            best: tuple[tuple[int, bool, int, int], Holder, int] | None = None
            for holder in request.holders:
                masks = [state.open(taker, holder) for taker in waiting]
                load = state.offering.get(holder[0], 0).bit_count()
                for number in range(rounds):
                    served = sum(mask >> number & 1 for mask in masks)
                    if served:
                        again = bool(state.offered.get(holder, 0) >> number & 1)
                        score = served, again, -load, -number
                        if best is None or score > best[0]:
                            best = score, holder, number
            if best is None:
                return None
            _, holder, number = best
            for taker in [taker for taker in waiting if state.open(taker, holder) >> number & 1]:
                state.take(taker, holder, number)
                schedule[number, taker] = holder
                waiting.remove(taker)
    return schedule


def _searched(requests: Sequence[Request], rounds: int) -> Schedule | None:
    """A schedule of this length by search, the most constrained take first; None if there is none, or the
    search grows too long."""
    nodes = 0

    def place(state: _State, takes: list[tuple[int, Request]], schedule: Schedule) -> Schedule | None:
        nonlocal nodes
        if not takes:
            return schedule
        nodes += 1
        if nodes > _MOST_NODES:
            return None
        choices = [
            [(holder, mask) for holder in request.holders if (mask := state.open(taker, holder))]
            for taker, request in takes
        ]
        at = min(range(len(takes)), key=lambda number: sum(mask.bit_count() for _, mask in choices[number]))
        taker = takes[at][0]
        rest = takes[:at] + takes[at + 1 :]
        for holder, mask in choices[at]:
            fresh = False
            for number in range(rounds):
                if not mask >> number & 1:
                    continue
                # rounds in which nothing happens yet are alike
                empty = not any(
                    busy >> number & 1 for busy in (*state.taken.values(), *state.offering.values())
                )
                if empty and fresh:
                    continue
                fresh |= empty
                after = state.copy()
                after.take(taker, holder, number)
                found = place(after, rest, schedule | {(number, taker): holder})
                if found is not None:
                    return found
        return None

    takes = [(taker, request) for request in requests for taker in request.takers]
    return place(_State(rounds), takes, {})
