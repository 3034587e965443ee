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
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.networks.alone import find_alone
from regweave.rearrangement.networks.network import ANY, Network, Node
from regweave.rearrangement.networks.splits import Split, best_split, joined, masks_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# where the pieces of an intermediate word may lie: as in the input, as in the output, or as they come
_PLACES = ("old", "new", "any")
# outputs x lanes beyond which one way to place pieces must do
_LARGE = 512
# words, and what is demanded of them
_Key = tuple[tuple[int, ...], bytes]


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
    if shape[1] == 1:
        made, outputs = find_alone(demands[:, 0].tolist(), inputs, shape[2])
        nodes = [Node(low, high, np.array([picks])) for low, high, picks in made]
        return Network(inputs, tuple(nodes), tuple(outputs))
    used = np.unique(demands[demands >= 0] // demands.shape[2]).tolist()
    best: Network | None = None
    splits: dict[_Key, Split] = {}
    large = demands.shape[0] * demands.shape[1] > _LARGE
    for first in _PLACES[:1] if large else _PLACES:
        search = _Search(inputs, demands.shape[1], demands.shape[2], first, splits)
        outputs = search.solve(used or [0], demands)
        network = Network(inputs, tuple(search.nodes), tuple(outputs))
        if best is None or network.weight < best.weight:
            best = network
        if best.weight[1] == 0 or len(used) <= 2:
            break  # no intermediate words, or nothing depends on the lane
    assert best is not None
    return best


class _Search:
    """Collects nodes; equal ones are made once. `held[n]` is what word n holds."""

    def __init__(self, inputs: int, lanes: int, size: int, first: str, splits: dict[_Key, Split]) -> None:
        self.inputs, self.size = inputs, size
        self._first, self._splits = first, splits
        self.nodes: list[Node] = []
        self.held = [np.tile(np.arange(size) + size * number, (lanes, 1)) for number in range(inputs)]
        self._known: dict[tuple[int, int, bytes], int] = {}

    def solve(self, words: Sequence[int], demands: NDArray[np.int64]) -> list[int]:
        """The numbers of words that hold what is demanded of `words`, which are inputs."""
        if len(words) <= 2:
            return [self.node(words[0], words[-1], demand) for demand in demands]
        masks = masks_of(demands, self.inputs)
        key = tuple(words), masks.tobytes()
        if key not in self._splits:
            self._splits[key] = best_split(demands, masks, words, self.inputs)
        best = self._splits[key]
        made: list[dict[int, int]] = []
        for number, members in enumerate((best.side, best.rest)):
            bins, home = best.fill(number, demands, self._first)
            found = self.solve(members, bins)
            made.append({output: found[place] for output, place in home.items()})
        return joined(made, words[0], demands, self.node)

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
