"""The coordination matrix: in round j, lane i takes word q of lane p and keeps it as its word r.

Taking the destination registers in order is the *preliminary* matrix. It has conflicts: a lane can offer only
one register in a round, and in round 0 of the tf32 seam lanes 0 and 1 both ask lane 0:

    lane 0   (0,0,0)*  (0,2,1)*  (2,0,2)*  (2,2,3)*
    lane 1   (0,1,0)*  (0,3,1)*  (2,1,2)*  (2,3,3)*

A conflict-free matrix takes the same words in another order for each lane. Its columns are perfect
matchings of the bipartite multigraph (offering lane, taking lane), which exist for every bijection
(Koenig). A lane may also sit a round out (None) where words that are already local stay. Where elements are
held or needed several times, lanes that name the same p in a column must name the same q.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from regweave.errors import VerificationError
from regweave.rearrangement.group import Group
from regweave.rearrangement.words import Words


class Entry(NamedTuple):
    """Take word `word` of lane `peer` and keep it as word `keep` (p, q, r of the coordination matrix)."""

    peer: int
    word: int
    keep: int

    def __str__(self) -> str:
        return f"({self.peer},{self.word},{self.keep})"


@dataclass(frozen=True)
class CoordinationMatrix:
    """`rows[i][j]` for the i-th lane of the group, in numbers of the group's first copy.

    `stays[i]` lists the words that lane i keeps without taking them: peer is the lane itself. `copies[i]`, if
    there are any, lists what it needs once more: the same word of the same lane as one of its entries.
    """

    lanes: tuple[int, ...]
    rows: tuple[tuple[Entry | None, ...], ...]
    stays: tuple[tuple[Entry, ...], ...]
    copies: tuple[tuple[Entry, ...], ...] = ()

    @property
    def rounds(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @cached_property
    def columns(self) -> tuple[tuple[Entry | None, ...], ...]:
        """The rounds, each with one entry per lane of the group."""
        return tuple(zip(*self.rows, strict=True))

    def column(self, number: int) -> tuple[Entry | None, ...]:
        """Round `number`, one entry per lane of the group."""
        return self.columns[number]

    @cached_property
    def _local(self) -> tuple[bool, ...]:
        return tuple(
            all(entry is None or entry.peer == lane for lane, entry in zip(self.lanes, column, strict=True))
            for column in self.columns
        )

    def is_local(self, number: int) -> bool:
        """Whether every lane takes from itself in round `number`, so that nothing needs to be exchanged."""
        return self._local[number]

    @property
    def exchanges(self) -> int:
        """Rounds in which anything moves between lanes."""
        return self.rounds - sum(self._local)

    def offers(self, number: int) -> dict[int, int]:
        """s of round `number`: the word that each asked lane must offer (g composed with f inverted)."""
        return {entry.peer: entry.word for entry in self.column(number) if entry is not None}

    def conflicts(self, number: int) -> frozenset[int]:
        """Lanes that are asked for more than one word in round `number`.

        Without replicated elements these are the lanes that are asked twice.
        """
        asked = {(entry.peer, entry.word) for entry in self.column(number) if entry is not None}
        times = Counter(peer for peer, _ in asked)
        return frozenset(peer for peer, words in times.items() if words > 1)

    def copies_of(self, index: int) -> tuple[Entry, ...]:
        """What the lane at `index` of the group needs once more."""
        return self.copies[index] if self.copies else ()


def preliminary_matrix(words: Words, group: Group) -> CoordinationMatrix:
    """Every lane takes its words in the order of its own registers: conflicts and all."""
    rows = tuple(
        tuple(Entry(int(words.peers[lane, r]), int(words.words[lane, r]), r) for r in group.registers)
        for lane in group.lanes
    )
    return CoordinationMatrix(group.lanes, rows, tuple(() for _ in group.lanes))


def check_matrix(matrix: CoordinationMatrix, words: Words, group: Group) -> CoordinationMatrix:
    """Return `matrix` if it is conflict-free and brings every lane of the group every word it needs.

    Raises VerificationError naming the round or the lane otherwise.
    """
    for number in range(matrix.rounds):
        if conflicts := matrix.conflicts(number):
            raise VerificationError(
                f"round {number} asks lane {min(conflicts)} for two words", where="coordination matrix"
            )
    for index, (lane, row, stays) in enumerate(zip(matrix.lanes, matrix.rows, matrix.stays, strict=True)):
        needed = sorted(
            Entry(int(words.peers[lane, r]), int(words.words[lane, r]), r)
            for r in group.registers
            if words.peers[lane, r] >= 0
        )
        taken = [entry for entry in row if entry is not None]
        copies = matrix.copies_of(index)
        if sorted([*taken, *stays, *copies]) != needed:
            raise VerificationError(f"lane {lane} does not receive the words of its registers",
                                    where="coordination matrix")  # fmt: skip
        if any(entry.peer != lane for entry in stays):
            raise VerificationError(
                f"lane {lane} keeps a word that it does not have", where="coordination matrix"
            )
        if not {entry[:2] for entry in copies} <= {entry[:2] for entry in taken}:
            raise VerificationError(f"lane {lane} copies a word that it does not take",
                                    where="coordination matrix")  # fmt: skip
    return matrix
