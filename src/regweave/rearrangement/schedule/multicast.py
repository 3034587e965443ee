"""Matrices for replicated elements: several holders to ask, and one offer that many lanes take.

A lane offers one word in a round, and any number of lanes may take it. If eight lanes need the same word, one
round serves them all; if two lanes hold it, either may offer it, or both in different rounds. What a lane
needs twice it takes once and keeps twice (the matrix's `copies`). What it has stays, unless others take the
same word for the same register in a round in which this lane is idle: then all keep it alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from regweave.rearrangement.group import Group
from regweave.rearrangement.holders import Holder
from regweave.rearrangement.schedule.matrix import CoordinationMatrix, Entry
from regweave.rearrangement.schedule.multicast_rounds import Request, Schedule, fewest_rounds
from regweave.rearrangement.words import Words


def multicast_matrix(
    words: Words, group: Group, holders: Mapping[Holder, Sequence[Holder]]
) -> tuple[Words, CoordinationMatrix]:
    """A matrix in few rounds, local words staying; and the words with the holders that it asks.

    `holders` lists for each word of each lane where it is held, as `word_holders` does.
    """
    wanted = _wanted(words, group, holders)
    requests = [
        Request(tuple(lane for lane in group.lanes if options in wanted[lane]), options)
        for options in dict.fromkeys(options for lane in group.lanes for options in wanted[lane])
    ]
    remote = [
        Request(takers, request.holders)
        for request in requests
        if (takers := tuple(lane for lane in request.takers if not _own(lane, request.holders)))
    ]
    schedule, rounds = fewest_rounds(remote)
    return _matrix(words, group, wanted, schedule, rounds)


def _wanted(
    words: Words, group: Group, holders: Mapping[Holder, Sequence[Holder]]
) -> dict[int, dict[tuple[Holder, ...], list[int]]]:
    """For each lane the words that it needs, by their holders within the group, with its registers."""
    lanes, registers = set(group.lanes), set(group.registers)
    wanted: dict[int, dict[tuple[Holder, ...], list[int]]] = {lane: {} for lane in group.lanes}
    for lane in group.lanes:
        for register in group.registers:
            peer, word = int(words.peers[lane, register]), int(words.words[lane, register])
            if peer < 0:
                continue
            inside = tuple(
                (holder, place)
                for holder, place in holders[peer, word]
                if holder in lanes
                and place in registers
                # every copy of the group asks the same way
                and all(
                    (holder + offset, place + shift) in holders[peer + offset, word + shift]
                    for offset in group.lane_offsets
                    for shift in group.register_offsets
                )
            )
            wanted[lane].setdefault(inside, []).append(register)
    return wanted


def _own(lane: int, holders: tuple[Holder, ...]) -> Holder | None:
    return next((holder for holder in holders if holder[0] == lane), None)


def _matrix(
    words: Words,
    group: Group,
    wanted: dict[int, dict[tuple[Holder, ...], list[int]]],
    schedule: Schedule,
    rounds: int,
) -> tuple[Words, CoordinationMatrix]:
    peers, taken = words.peers.copy(), words.words.copy()
    rows: dict[int, list[Entry | None]] = {}
    stays: dict[int, list[Entry]] = {}
    copies: dict[int, list[Entry]] = {}
    for lane in group.lanes:
        row: list[Entry | None] = [None] * rounds
        kept: list[Entry] = []
        again: list[Entry] = []
        for options, registers in wanted[lane].items():
            own = _own(lane, options)
            if own is not None:
                kept += [Entry(*own, register) for register in registers]
            else:
                number = next(
                    at for at in range(rounds) if row[at] is None and schedule.get((at, lane)) in options
                )
                entries = [Entry(*schedule[number, lane], register) for register in registers]
                row[number] = entries[0]
                again += entries[1:]
        rows[lane], stays[lane], copies[lane] = row, kept, again
    for lane in group.lanes:
        _join(lane, rows, stays[lane], wanted[lane])
        for entry in (*stays[lane], *copies[lane], *(entry for entry in rows[lane] if entry is not None)):
            peers[lane, entry.keep], taken[lane, entry.keep] = entry.peer, entry.word
    for offset in group.lane_offsets:
        for shift in group.register_offsets:
            at = np.ix_(np.array(group.lanes) + offset, np.array(group.registers) + shift)
            first = np.ix_(group.lanes, group.registers)
            needed = peers[first] >= 0
            peers[at] = np.where(needed, peers[first] + offset, -1)
            taken[at] = np.where(needed, taken[first] + shift, -1)
    found = Words(peers, taken, words.contents)
    return found, CoordinationMatrix(
        group.lanes,
        tuple(tuple(rows[lane]) for lane in group.lanes),
        tuple(tuple(stays[lane]) for lane in group.lanes),
        tuple(tuple(copies[lane]) for lane in group.lanes),
    )


def _join(
    lane: int,
    rows: Mapping[int, list[Entry | None]],
    stays: list[Entry],
    wanted: Mapping[tuple[Holder, ...], list[int]],
) -> None:
    """Let a lane take what it has if others take it in a round that is free here and keep it alike.

    That needs no select, which a register filled by exchange in some lanes and from within in others does.
    """
    row = rows[lane]
    for entry in list(stays):
        options = next(options for options, registers in wanted.items() if entry.keep in registers)
        for number, taken in enumerate(row):
            column = {other[number] for other in rows.values()} - {None}
            if taken is None and all(other.keep == entry.keep for other in column if other is not None):
                offered = sorted({other[:2] for other in column if other is not None} & set(options))
                if offered:
                    row[number] = Entry(*offered[0], entry.keep)
                    stays.remove(entry)
                    break
