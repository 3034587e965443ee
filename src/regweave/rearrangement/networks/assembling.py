"""Words put together from parts of other words of the same lane, by byte permutes that outputs share.

    >>> assemble(builder, [(0, 1, 4, 5)], {item: (word, bit), ...}, 8)      # one permute of two words

Where a wanted word is a held one as it stands, nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from regweave.errors import UnsupportedError
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.networks.search import find_network

_ANY, _BYTE = -1, 8
_PADDING = [(_ANY,) * (4 - count) for count in range(5)]

# item -> the word that holds it and the bit at which it lies there
Held: TypeAlias = dict[int, tuple[Value, int]]


def assemble(builder: ProgramBuilder, wanted: Sequence[Sequence[int]], held: Held, unit: int) -> list[Value]:
    """Words of the wanted items from the words that hold them, by byte permutes where parts move.

    Bytes of `held` words are numbered 4 * word + byte. Elements of half a byte move with their neighbours.
    """
    values = list(dict.fromkeys([value for value, _ in held.values()]))
    number = {value: 4 * index for index, value in enumerate(values)}
    demands: list[tuple[int, ...]] = []
    for items in wanted:
        found = [held[item] for item in items]
        places = [(number[value] + at // 8, at % 8) for value, at in found]
        if unit == _BYTE and not any(low for _, low in places):  # as they come
            demands.append((*[first for first, _ in places], *_PADDING[len(places)]))
            continue
        demand = [_ANY] * 4
        for place, (first, low) in enumerate(places):
            byte, here = divmod(place * unit, 8)
            if low != here or demand[byte] not in (_ANY, first):
                raise UnsupportedError("elements of half a byte would have to be taken apart")
            demand[byte] = first
            for further in range(1, unit // 8):
                demand[byte + further] = first + further
        demands.append(tuple(demand))
    results = {index: values[row[0] // 4] for index, row in enumerate(demands) if _straight(row)}
    moved = {index: row for index, row in enumerate(demands) if index not in results}
    pairs = {index: sorted({byte // 4 for byte in row if byte >= 0}) for index, row in moved.items()}
    if all(len(words) <= 2 for words in pairs.values()):  # nothing is shared: each is a permute of its own
        for index, words in pairs.items():
            picks = _of_two(moved[index], words[0])
            results[index] = _permuted(builder, values[words[0]], values[words[-1]], picks)
        moved = {}
    for outputs in _independent(moved):
        rows = [demands[output] for output in outputs]
        inputs = sorted({byte // 4 for row in rows for byte in row if byte >= 0})
        place = {value * 4 + byte: at * 4 + byte for at, value in enumerate(inputs) for byte in range(4)}
        local = [[place.get(byte, _ANY) for byte in row] for row in rows]
        made = _network(builder, local, [values[value] for value in inputs])
        results.update(zip(outputs, made, strict=True))
    return [results[index] for index in range(len(wanted))]


def _straight(demand: Sequence[int]) -> bool:
    """Whether it is a whole word as it stands, as far as it matters."""
    first = demand[0]
    if first % 4:
        return False
    return all(byte in (_ANY, first + place) for place, byte in enumerate(demand))


def _independent(demands: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Outputs in sets that share no input."""
    # by number, in the order in which they last grew
    sets: dict[int, tuple[set[int], list[int]]] = {}
    owner: dict[int, int] = {}
    for number, (output, demand) in enumerate(demands.items()):
        inputs, outputs = {byte // 4 for byte in demand if byte >= 0}, [output]
        for known in sorted({owner[word] for word in inputs if word in owner}):
            more, earlier = sets.pop(known)
            inputs, outputs = inputs | more, earlier + outputs
        sets[number] = inputs, outputs
        owner.update(dict.fromkeys(inputs, number))
    return [outputs for _, outputs in sets.values()]


def _network(
    builder: ProgramBuilder, demands: Sequence[Sequence[int]], inputs: Sequence[Value]
) -> list[Value]:
    if len(inputs) <= 2:
        return [_permuted(builder, inputs[0], inputs[-1], picks) for picks in demands]
    pairs = [sorted({byte // 4 for byte in picks if byte >= 0}) for picks in demands]
    if all(len(words) <= 2 for words in pairs):
        return [
            _permuted(builder, inputs[words[0]], inputs[words[-1]], _of_two(picks, words[0]))
            for words, picks in zip(pairs, demands, strict=True)
        ]
    values = list(inputs)
    if len(demands) == 1:  # word by word, two and two
        for low, high, selector in _gathering(tuple(demands[0]), len(inputs)):
            operands = values[low], values[high], builder.constant(selector)
            values.append(builder.step("byte_permute", operands))
        return values[-1:]
    network = find_network(np.array(demands)[:, None], len(inputs))
    for node in network.nodes:
        values.append(_permuted(builder, values[node.low], values[node.high], node.picks[0].tolist()))
    return [values[at] for at in network.outputs]


@lru_cache(maxsize=256)
def _gathering(picks: tuple[int, ...], inputs: int) -> tuple[tuple[int, int, int], ...]:
    """Two words and a selector for each permute that gathers what is picked; results are numbered on.

    The rows of a tile repeat a few patterns hundreds of times.
    """
    nodes: list[tuple[int, int, int]] = []

    def gathered(words: range) -> tuple[int, dict[int, int]]:
        """A word of all that is picked from these, and the byte of it for each place of the picks."""
        if len(words) == 1:
            return words[0], {at: byte % 4 for at, byte in enumerate(picks) if byte // 4 == words[0]}
        half = len(words) // 2
        (low, lows), (high, highs) = gathered(words[:half]), gathered(words[half:])
        taken = lows | {at: byte + 4 for at, byte in highs.items()}
        nodes.append((low, high, _selector(tuple([taken.get(at, _ANY) for at in range(4)]))))
        return inputs + len(nodes) - 1, {at: at for at in taken}

    gathered(range(inputs))
    return tuple(nodes)


def _of_two(picks: Sequence[int], low: int) -> list[int]:
    """Bytes of word `low` and of one other in the numbers of a permute."""
    return [_ANY if byte < 0 else byte % 4 + 4 * (byte // 4 != low) for byte in picks]


def _permuted(builder: ProgramBuilder, low: Value, high: Value, picks: Sequence[int]) -> Value:
    return builder.step("byte_permute", (low, high, builder.constant(_selector(tuple(picks)))))


@lru_cache(maxsize=1024)
def _selector(picks: tuple[int, ...]) -> int:
    """The selector; bytes that nobody needs are those beside the first that somebody does."""
    place, first = next((place, pick) for place, pick in enumerate(picks) if pick >= 0)
    filled = [
        pick if pick >= 0 else first // 4 * 4 + (first + at - place) % 4 for at, pick in enumerate(picks)
    ]
    return sum(pick << 4 * at for at, pick in enumerate(filled))
