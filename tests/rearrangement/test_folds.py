"""Folds against every permutation of k, tried in order."""

from itertools import permutations

import numpy as np
import pytest

from regweave.layouts import Layout
from regweave.rearrangement import relate
from regweave.rearrangement.folds import find_fold


def first_by_trying(source: Layout, destination: Layout) -> tuple[int, ...] | None:
    """The first permutation of the columns that makes each destination item one source item in all lanes."""
    columns = source.shape[1]
    held = set(map(tuple, source.table.T.tolist()))
    rows, positions = np.divmod(destination.table, columns)
    for permutation in permutations(range(columns)):
        wanted = rows * columns + np.array(permutation)[positions]
        if set(map(tuple, wanted.T.tolist())) == held:
            return permutation
    return None


@pytest.mark.parametrize("seed", range(60))
def test_the_first_permutation_is_found(seed):
    rng = np.random.default_rng(seed)
    lanes, items = [(1, 4), (2, 3), (2, 6), (3, 4), (4, 3), (6, 2)][seed % 6]
    columns = int(rng.choice([n for n in (2, 3, 4, 6) if lanes * items % n == 0]))
    shape = lanes * items // columns, columns
    table = rng.permutation(lanes * items).reshape(lanes, items)
    rows, column = np.divmod(table, columns)
    folded = (rows * columns + rng.permutation(columns)[column])[:, rng.permutation(items)]
    if seed % 4 == 0:  # and some that are no fold, most of the time
        folded = rng.permuted(folded, axis=0)
    source = Layout("s", shape, "f32", table, ("m", "n"))
    destination = Layout("d", shape, "f32", folded, ("m", "k"))
    fold = find_fold(relate(source, destination))
    assert (fold and fold.permutation) == first_by_trying(source, destination)
    if fold is not None:
        assert np.array_equal(source.table[:, fold.items], fold.destination(destination).table)
