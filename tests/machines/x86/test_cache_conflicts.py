"""Which distances make lines compete for one place of a first-level cache."""

import pytest

from regweave.machines.x86 import lines_clash


@pytest.mark.parametrize(
    ("distance", "clash"),
    [
        (1 << 28, True),
        (3 << 28, True),
        (-(1 << 28), True),
        ((1 << 28) + 64, True),  # a vector further on
        ((1 << 28) + 256, False),
        (1 << 27, False),
        ((1 << 27) + (1 << 12), True),  # bits 12 and 27 cancel each other
        ((1 << 20) + (1 << 15), True),
        ((1 << 20) + (1 << 16), False),
        (1 << 12, False),
        (4, False),
        (0, False),  # the same line
    ],
)
def test_distances(distance, clash):
    assert lines_clash(distance) is clash
