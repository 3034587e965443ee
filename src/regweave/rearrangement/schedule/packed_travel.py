"""Travel words for any relation: what a lane needs of another, packed four bytes to a word, and coloured.

The parts that one lane takes of another are put into words in the order in which they lie there, so that a
source word that is needed whole travels as it is. The words are edges of a multigraph between lanes, and an
edge colouring gives the fewest rounds (schedule/colouring.py): the busiest lane's number of words.
"""

from __future__ import annotations

import numpy as np

from regweave.rearrangement.parts import NOTHING
from regweave.rearrangement.schedule.colouring import colour_edges
from regweave.rearrangement.schedule.edges import Edge
from regweave.rearrangement.schedule.travel import Journeys, Needs


def packed_journeys(needs: Needs, *, remote_only: bool) -> Journeys:
    """The schedule of this kind; with `remote_only`, parts that are there already do not travel."""
    wanted = needs.peers >= 0
    if remote_only:
        wanted &= needs.peers != np.arange(needs.lanes)[:, None]
    takers, units = np.nonzero(wanted)
    peers, own = needs.peers[takers, units], needs.own[takers, units]
    order = np.lexsort((own, peers, takers))
    takers, peers, units = takers[order], peers[order], units[order]
    pair = takers * needs.lanes + peers
    rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
    first = np.flatnonzero(rank % needs.per_word == 0)
    word = np.cumsum(rank % needs.per_word == 0) - 1
    packed = np.full((len(first), needs.per_word), NOTHING)
    packed[word, rank % needs.per_word] = units
    ends = np.stack([takers[first], peers[first]], axis=1).tolist()
    colours = colour_edges([Edge(taker, peer, 0, 0) for taker, peer in ends], needs.lanes)
    return Journeys(takers[first], peers[first], packed, np.array(colours, dtype=np.int64))
