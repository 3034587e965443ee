"""Which of the changeable nodes work on blocked tensors: the choice that moves the fewest bytes in reorders.

    conv -> t -> Mul -> u -> Add -> v -> conv         with t, v blocked: Mul and Add blocked costs nothing,
                                                      both plain costs two reorders, one of them costs one

A tensor needs one reorder if anyone reads it in another layout than it is made in, however many do. That sum
is minimised by moving single nodes, and groups of nodes that touch, as long as it falls; graphs have tens of
such nodes, so this takes milliseconds, and a start from each of the two extremes keeps it from a poor valley.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from regweave.engine.building.blocking.forms import Facts
from regweave.engine.building.blocking.view import Place, View

UNKNOWN = 64
"""What a dimension of unknown size counts for."""

FIXED_COST = 4096
"""Elements that could be moved in the time that it takes to start a node at all."""

ENTRY_CHANNELS = 4
"""onnxruntime's ReorderInput takes multiples of this many channels only."""

IMPOSSIBLE = 1e18

PADDING_COST = 0.25
"""Of moving an element: working on a padded one."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """Who makes a tensor (place, or None for inputs and constants) and who reads it (place and position).

    `cost` is that of a reorder from blocked to plain, `entry_cost` the other way; `free` tensors need none.
    """

    name: str
    maker: tuple[int, int] | None
    readers: tuple[tuple[int, int], ...]
    is_output: bool
    cost: float
    entry_cost: float
    free: bool


@dataclass(frozen=True, eq=False)
class Problem:
    """The view as tensors between places. A choice is the set of places that are blocked."""

    places: tuple[Place, ...]
    tensors: Mapping[str, Tensor]
    facts: Facts

    @cached_property
    def changeable(self) -> tuple[int, ...]:
        """The places with a choice."""
        return tuple(i for i, place in enumerate(self.places) if place.form is not None)

    def wants_blocked(self, reader: tuple[int, int], blocked: frozenset[int]) -> bool:
        """Whether this reader wants its input blocked under a choice."""
        place, position = self.places[reader[0]], reader[1]
        if place.form is None:
            return position in place.blocked_inputs
        return reader[0] in blocked and position in place.form.inputs

    def is_blocked(self, tensor: Tensor, blocked: frozenset[int]) -> bool:
        """Whether a tensor is made blocked under a choice."""
        if tensor.maker is None:
            return False
        index, position = tensor.maker
        place = self.places[index]
        return position in place.blocked_outputs if place.form is None else index in blocked

    def needs_reorder(self, tensor: Tensor, blocked: frozenset[int]) -> bool:
        """Whether someone reads the tensor in the other layout."""
        made = self.is_blocked(tensor, blocked)
        if tensor.is_output and made:
            return True
        return not tensor.free and any(self.wants_blocked(r, blocked) != made for r in tensor.readers)

    def cost(self, blocked: frozenset[int], tensors: Iterable[Tensor] | None = None) -> float:
        """Elements moved by reorders (of these tensors only, if given), and the smaller price of padding."""
        given = self.tensors.values() if tensors is None else tensors
        total = sum(
            tensor.cost if self.is_blocked(tensor, blocked) else tensor.entry_cost
            for tensor in given
            if self.needs_reorder(tensor, blocked)
        )
        return total + sum(self.padding[index] for index in blocked)

    @cached_property
    def padding(self) -> dict[int, float]:
        """What a changeable place costs for its padded channels when it is blocked."""
        costs = {}
        for index in self.changeable:
            name = self.places[index].node.output[0]
            shape = self.facts.image(name)
            added = 0.0
            if shape is not None and isinstance(shape[1], int):
                added = (-shape[1] % self.facts.block) / shape[1]
            costs[index] = PADDING_COST * added * size(self.facts, name)
        return costs

    @cached_property
    def around(self) -> dict[int, tuple[Tensor, ...]]:
        """The tensors that each place makes or reads."""
        found: dict[int, list[Tensor]] = {}
        for tensor in self.tensors.values():
            ends = {end[0] for end in tensor.readers} | ({tensor.maker[0]} if tensor.maker else set())
            for index in ends:
                found.setdefault(index, []).append(tensor)
        return {index: tuple(tensors) for index, tensors in found.items()}


def size(facts: Facts, tensor: str) -> int:
    """Elements of a tensor, dimensions of unknown size counted as UNKNOWN, but for the batch: as 1."""
    shape = facts.sizes.get(tensor) or facts.shapes.get(tensor)
    if not shape:
        return UNKNOWN**3
    first = shape[0] if isinstance(shape[0], int) else 1
    return first * prod(dim if isinstance(dim, int) else UNKNOWN for dim in shape[1:])


def problem(view: View, facts: Facts) -> Problem:
    """The tensors of a view, with what a reorder of each would cost."""
    makers = {name: (i, o) for i, place in enumerate(view.places) for o, name in enumerate(place.node.output)}
    readers: dict[str, list[tuple[int, int]]] = {}
    for index, place in enumerate(view.places):
        for position, name in enumerate(place.node.input):
            if name and name not in facts.constants:
                readers.setdefault(name, []).append((index, position))
    tensors = {}
    for name in {*makers, *readers, *view.outputs}:
        shape = facts.image(name)
        cost = FIXED_COST + size(facts, name)
        free = shape is not None and shape[2:] == (1, 1) and int(shape[1]) % facts.block == 0
        enters = shape is None or int(shape[1]) % ENTRY_CHANNELS == 0
        tensors[name] = Tensor(
            name,
            makers.get(name),
            tuple(readers.get(name, ())),
            name in view.outputs,
            cost,
            cost if enters else IMPOSSIBLE,
            free,
        )
    return Problem(view.places, tensors, facts)


def best_choice(given: Problem) -> frozenset[int]:
    """The cheapest choice that descents from "none blocked" and "all blocked" reach."""
    starts = (frozenset(given.changeable), frozenset())
    return min((_descend(given, start) for start in starts), key=given.cost)


def _descend(given: Problem, blocked: frozenset[int]) -> frozenset[int]:
    groups = [frozenset((index,)) for index in given.changeable] + _touching(given)
    near = [{t.name: t for index in group for t in given.around.get(index, ())}.values() for group in groups]
    improved = True
    while improved:
        improved = False
        for group, tensors in zip(groups, near, strict=True):
            cost = given.cost(blocked, tensors)
            for candidate in (blocked ^ group, blocked | group, blocked - group):
                found = given.cost(candidate, tensors)
                if found < cost:
                    blocked, cost, improved = candidate, found, True
    return blocked


def _touching(given: Problem) -> list[frozenset[int]]:
    """Groups of changeable places that are connected through tensors."""
    group = {index: index for index in given.changeable}

    def root(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for tensor in given.tensors.values():
        ends = [end[0] for end in (*tensor.readers, *([tensor.maker] if tensor.maker else []))]
        ends = [index for index in ends if index in group]
        for index in ends[1:]:
            group[root(index)] = root(ends[0])
    found: dict[int, set[int]] = {}
    for index in group:
        found.setdefault(root(index), set()).add(index)
    return [frozenset(members) for members in found.values() if len(members) > 1]
