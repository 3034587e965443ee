"""Vector registers that M0 chooses in index mode: so many behind the named one as the wave's M0 says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import PLACES

Array = Any


def parts(offset: Array) -> list[tuple[int, Array]]:
    """The different offsets, each with the waves that have it."""
    return [(int(number), np.flatnonzero(offset == number)) for number in np.unique(offset)]


def read_relative(number: int) -> Callable[[Cohort], Array]:
    """A vector register so many behind the named one as M0 says."""

    def read(c: Cohort) -> Array:
        found = np.zeros(c.lanes.shape, np.uint32)
        for further, part in parts(_index(c, number)):
            found[part] = c.part(part).read(number + further)
        return found

    return read


def write_relative(
    c: Cohort,
    number: int,
    word: Array,
    lanes: Array | None,
    place: Callable[[Cohort, int, Array], Array] | None,
) -> None:
    """Write a vector register so many behind the named one as M0 says; `place` puts a part into it."""
    word = np.broadcast_to(word, c.lanes.shape)
    for further, part in parts(_index(c, number)):
        own, bits = c.part(part), word[part]
        bits = place(own, number + further, bits) if place else bits
        own.write(number + further, bits, None if lanes is None else lanes[part])


def _index(c: Cohort, number: int) -> Array:
    index = (c.read_scalar(PLACES["m0"])[:, 0] & np.uint32(255)).astype(np.int64)
    vectors = c.registers.vectors
    wrong = index + number >= vectors
    if wrong.any():
        c.fault(
            f"reaches beyond v{vectors - 1}, the last register: M0 is {int(index[wrong][0])}", wrong[:, None]
        )
    return index
