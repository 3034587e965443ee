"""Steps of a walk between bit maps: what each does to the columns, and what it costs.

A step makes slot y take from slot P y, with P linear over the bits of the slot's number. If the slots held
elements by the columns S before, they hold them by S P afterwards, so a step exchanges two columns or adds
one to another:

    swap        lane bit <-> register bit      lanes that differ in one bit exchange half of their words
    choose      lane bit += register bit       a lane takes this or that of two registers: selects
    shift       register bit += lane bits      half of the words come from lane xor mask
    gather      part bit <-> or += lane bits   each word is put together from its own and another lane's bytes
    permute     anything among part and register bits, or lane bit += part bit: byte permutes
    lanes       lane bits among themselves     every word comes from another lane
    transpose   lane bits 2 3 4 <-> part bit and lane bits 0 1 (movmatrix), every word
    rename      register bits among themselves: free

`choose` moves nothing between lanes and `shift` selects nothing: a swap is choose, shift and choose, made
leaner because the words that stay need not be chosen twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from regweave.rearrangement.subspaces import combined, coordinates

Kind = Literal["swap", "choose", "shift", "gather", "permute", "lanes", "transpose", "rename"]


class Columns(NamedTuple):
    """What each bit of a slot's number flips in the source's: lane bits, part bits, register bits."""

    lanes: tuple[int, ...]
    parts: tuple[int, ...]
    registers: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """The columns of all bits, lane bits first."""
        return self.lanes + self.parts + self.registers

    def with_all(self, columns: list[int]) -> Columns:
        """Others of the same shape."""
        first, second = len(self.lanes), len(self.lanes) + len(self.parts)
        return Columns(tuple(columns[:first]), tuple(columns[first:second]), tuple(columns[second:]))


@dataclass(frozen=True)
class BitStep:
    """`images[bit]`: the bits (a mask) of the slot that a slot takes from, which its bit `bit` flips.

    `bits` are those that the step is about, numbered like `images`; a mask of them for `shift` and `gather`.
    """

    kind: Kind
    images: tuple[int, ...]
    bits: tuple[int, ...] = ()

    def applied(self, columns: Columns) -> Columns:
        """The columns after the step."""
        old = columns.all
        new = list(old)
        for bit, image in self._changed:
            new[bit] = combined(old, image)
        return columns.with_all(new)

    def rewritten(self, masks: Sequence[int]) -> list[int]:
        """Sums of the columns before the step, each a mask of them, as sums of the columns after it."""
        changed = self._changed
        if len(changed) == 1:  # other columns were added to one: where that is summed up they go again
            ((target, image),) = changed
            added = image ^ 1 << target
            return [mask ^ added if mask >> target & 1 else mask for mask in masks]
        if len(changed) == 2 and changed[0][1] == 1 << changed[1][0] and changed[1][1] == 1 << changed[0][0]:
            both = changed[0][1] | changed[1][1]
            return [mask ^ both if 0 < mask & both < both else mask for mask in masks]
        inverse = coordinates(self.images)
        return [combined(inverse, mask) for mask in masks]

    @cached_property
    def _changed(self) -> tuple[tuple[int, int], ...]:
        """The bits whose columns change, with their images."""
        return tuple((bit, image) for bit, image in enumerate(self.images) if image != 1 << bit)


@lru_cache(maxsize=4096)
def exchange_bits(kind: Kind, size: int, first: int, second: int) -> BitStep:
    """The step that exchanges two columns of `size`."""
    images = [1 << bit for bit in range(size)]
    images[first], images[second] = images[second], images[first]
    return BitStep(kind, tuple(images), (first, second))


@lru_cache(maxsize=4096)
def add_bits(kind: Kind, size: int, target: int, mask: int) -> BitStep:
    """The step that adds the columns of `mask` to column `target`."""
    images = [1 << bit for bit in range(size)]
    images[target] ^= mask
    return BitStep(kind, tuple(images), (target, mask))


def transposition(size: int, part: int) -> BitStep:
    """movmatrix, where `part` is the bit that says which half of a word."""
    images = [1 << bit for bit in range(size)]
    for first, second in ((2, part), (3, 0), (4, 1)):
        images[first], images[second] = images[second], images[first]
    return BitStep("transpose", tuple(images))
