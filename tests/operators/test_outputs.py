"""Shapes of outputs: what follows from the input's, and what does not."""

import pytest

from regweave.operators import Rest, Same, followed


@pytest.mark.parametrize(
    ("dims", "shape", "elements", "result"),
    [
        ((Same(0), 48, Same(2), Same(3)), (2, 96, 7, 9), 2 * 48 * 63, (2, 48, 7, 9)),
        ((Rest(), 48), (2, 7, 7, 96), 98 * 48, (98, 48)),
        ((Same(1), Rest()), (3, 5, 4), 60, (5, 12)),
        ((Rest(), 48), (0, 7, 7, 96), 0, (0, 48)),
        ((Rest(), 0), (2, 3), 0, (0, 0)),
        ((Same(0), 5), (3, 4), 12, None),  # not as many elements
        ((Rest(), 5), (3, 4), 12, None),  # no whole number of rows
        ((Same(2), Rest()), (3, 4), 12, None),  # no such dimension
    ],
)
def test_what_follows_from_the_input(dims, shape, elements, result):
    assert followed(dims, shape, elements) == result
