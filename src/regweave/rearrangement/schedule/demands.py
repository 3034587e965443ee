"""What a network of permutes and selects must make, and how few nodes can do it.

Four words of four bytes that become four others, each with a byte of every one, take eight nodes:

    >>> Demands(transposed, inputs=4).least, len(Demands(transposed, inputs=4).network.nodes)
    (8, 8)

The bound is that of Floyd (Permuting information in idealized two-level storage, 1972), whose pages are words
here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.networks.linear import cheapest_network
from regweave.rearrangement.networks.network import Network

if TYPE_CHECKING:
    from numpy.typing import NDArray

# what sums of logarithms may be too large by
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Demands:
    """What the words of a network must hold, `[outputs, lanes, pieces]`, put together from `inputs` words."""

    table: NDArray[np.int64]
    inputs: int

    @cached_property
    def network(self) -> Network:
        """A network that makes them."""
        return cheapest_network(self.table, self.inputs)

    @cached_property
    def least(self) -> int:
        """Nodes that no network does without."""
        return max(self._made, self._merged) if self.table.size else 0

    @property
    def _merged(self) -> int:
        """Nodes that it takes to bring together what comes from several inputs; 0 if pieces are used twice.

        A node makes one word out of two, and the pieces that are on their way through it to one output were
        in two words before: that is one bit of information for each of them at most. So an output takes as
        many nodes as its pieces' inputs have bits of entropy, pieces of all lanes counted together, if all
        nodes are full. One that is made of a single input, with its pieces in other places, takes one more,
        which does nothing for others.
        """
        outputs, lanes, pieces = self.table.shape
        size = lanes * pieces
        there = self.table >= 0
        places = np.where(there, self.table + np.arange(lanes)[:, None] * self.inputs * pieces, -1)
        used = places[there]
        if np.bincount(used).max(initial=0) > 1:
            return 0
        flat = np.where(there, self.table // pieces, self.inputs).reshape(outputs, size)
        counts = np.bincount(
            (flat + np.arange(outputs)[:, None] * (self.inputs + 1)).ravel(),
            minlength=outputs * (self.inputs + 1),
        ).reshape(outputs, -1)[:, : self.inputs]
        output, source = np.nonzero(counts)
        some = counts[output, source]
        bits = some * np.log2(counts.sum(axis=1)[output] / some)
        one = (counts.max(axis=1) == size) & (self.table % pieces != np.arange(pieces)).any(axis=(1, 2))
        return math.ceil(bits.sum() / size - _ROUNDING) + int(one.sum())

    @property
    def _made(self) -> int:
        """Different words that are no input as it stands."""
        outputs, lanes, pieces = self.table.shape
        there = (self.table >= 0).reshape(outputs, lanes * pieces)
        # the first piece of the input that has it there
        firsts = np.where(self.table >= 0, self.table - np.arange(pieces), -1).reshape(outputs, -1)
        low, high = np.where(there, firsts, firsts.max()).min(axis=1), firsts.max(axis=1)
        made = ((low != high) | (high % pieces != 0)) & there.any(axis=1)
        return len({row.tobytes() for row in self.table[made]})
