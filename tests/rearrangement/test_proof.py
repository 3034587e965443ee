"""Probes tell all elements of a tile apart, in as few runs as their type allows."""

import numpy as np
import pytest

from regweave.layouts import Layout
from regweave.programs.numbers import decode
from regweave.rearrangement import relate
from regweave.rearrangement.proof import probes


def tile(dtype: str, lanes: int, items: int) -> Layout:
    return Layout("t", (lanes, items), dtype, np.arange(lanes * items).reshape(lanes, items))


@pytest.mark.parametrize(
    ("source", "destination", "runs"),
    [
        ("f32", "f32", 1),
        ("b8", "b8", 2),
        ("b1", "b1", 12),
        ("f32", "f16", 2),
        ("f32", "e5m2", 2),
        ("s32", "s8", 2),
    ],
)
def test_every_element_has_digits_of_its_own(source, destination, runs):
    relation = relate(tile(source, 32, 128), tile(destination, 32, 128))
    found = list(probes(relation))
    assert len(found) == runs
    size = relation.destination.element_type.bits
    wanted = np.stack([words for _, words in found])
    parts = wanted[..., None] >> np.arange(0, 32, size, dtype=np.uint32) & np.uint32((1 << size) - 1)
    columns = parts.reshape(runs, -1)
    assert len(np.unique(columns, axis=1).T) == 32 * 128
    if relation.packing is not None:
        sent = np.stack([words for words, _ in found]).reshape(runs, -1)
        numbers = [
            decode(bits.astype(np.uint32), kind) for bits, kind in ((sent, source), (columns, destination))
        ]
        assert np.array_equal(*numbers)
