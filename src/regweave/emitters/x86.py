"""A rearrangement of vector registers as an x86-64 function: load, pick, store, every register assigned.

    >>> print(x86_listing(plan.chosen.program).text)
    ...
    vmovups ymm0, ymmword ptr [rdi]
    vmovups ymm1, ymmword ptr [rdi+32]
    vunpcklps ymm2, ymm0, ymm1
    ...

The function takes a pointer to the source's registers, one vector after the other, and one to the
destination's. Registers that have nothing to do with one another are finished one group at a time, so that
few are live; a group that has too many all the same is done in parts, which load its source again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import rustworkx

from regweave.assembly import Builder, Listing, Variable
from regweave.errors import RegisterError, UnsupportedError
from regweave.machines.picks import Picks
from regweave.machines.x86.machine import AVX2, AVX512, AVX512_VBMI, VectorMachine
from regweave.machines.x86.picks import AVX2_PICKS, AVX512_PICKS, AVX512_VBMI_PICKS
from regweave.programs import Program, Step, Value

# pieces of 32, 16 and 8 bits: the entry that picks any of them, and how an index is written
_ENTRIES = {1: ("pick", "I"), 2: ("pick_halves", "H"), 4: ("pick_bytes", "B")}


# into how many parts a group of registers is split if too many would be live
_SPLITS = (1, 2, 4)


def x86_listing(program: Program) -> Listing:
    """The function `program.name(source, destination)` for the machine whose vectors have as many lanes.

    Addresses need no alignment; source and destination must not overlap. Raises UnsupportedError for other
    lanes and steps that are no picks, RegisterError if more registers are live than there are.
    """
    machine, picks = _target(program)
    needs = _Needs(program)
    for parts in _SPLITS:
        builder = Builder(machine, name=program.name, arguments=("source", "destination"))
        for group in _groups(program):
            for places in needs.split(group, parts):
                _Writer(builder, program, picks).write(places, needs.of(places))
        try:
            return builder.finish()
        except RegisterError:
            if parts == _SPLITS[-1]:
                raise
    raise AssertionError("the last split returns or raises")


def _target(program: Program) -> tuple[VectorMachine, Picks]:
    bytes_move = any(len(step.numbers) == 4 * program.lanes for step, _ in program.walk())
    if program.lanes == AVX512.lanes:
        return (AVX512_VBMI, AVX512_VBMI_PICKS) if bytes_move else (AVX512, AVX512_PICKS)
    if program.lanes == AVX2.lanes:
        return AVX2, AVX2_PICKS
    raise UnsupportedError(
        f"x86 vectors have no {program.lanes} lanes", where=program.name, fix="plan for avx2 or avx512"
    )


def _groups(program: Program) -> list[list[int]]:
    """The places of the results that share steps, group by group."""
    graph = rustworkx.PyGraph(multigraph=False)
    nodes: dict[int, int] = {}
    for step, _ in program.walk():
        node = graph.add_node(None)
        nodes.update((result.number, node) for result in step.results)
        graph.add_edges_from_no_data([(nodes[operand.number], node) for operand in step.operands])
    group_of = {node: at for at, part in enumerate(rustworkx.connected_components(graph)) for node in part}
    groups: dict[int, list[int]] = {}
    for place, value in enumerate(program.results):
        groups.setdefault(group_of[nodes[value.number]], []).append(place)
    return list(groups.values())


class _Needs:
    """Which values each result is made from."""

    def __init__(self, program: Program) -> None:
        self._results = program.results
        self._of: dict[int, frozenset[int]] = {}
        for step, _ in program.walk():
            below = frozenset().union(*(self._of[operand.number] for operand in step.operands))
            for result in step.results:
                self._of[result.number] = below | {result.number}

    def of(self, places: Sequence[int]) -> frozenset[int]:
        """The values that these results are made from, themselves included."""
        return frozenset().union(*(self._of[self._results[place].number] for place in places))

    def split(self, places: list[int], parts: int) -> list[list[int]]:
        """The results in parts that share few values: what they share is computed for each."""
        if parts == 1 or len(places) < 2:
            return [places]
        bits = range((len(places) - 1).bit_length())
        ways = [([], []) for _ in bits]
        for bit, way in zip(bits, ways, strict=True):
            for number, place in enumerate(places):
                way[number >> bit & 1].append(place)
        halves = min(ways, key=lambda way: sum(len(self.of(half)) for half in way))
        return [part for half in halves for part in self.split(half, parts // 2)]


class _Writer:
    """Emits what some results need, in the order of the program; words are loaded when they are used."""

    def __init__(self, builder: Builder, program: Program, picks: Picks) -> None:
        self.builder, self._program, self._picks = builder, program, picks
        self._vectors: dict[int, Variable] = {}
        self._steps = {value.number: step for step, _ in program.walk() for value in step.results}

    def write(self, places: Sequence[int], needed: frozenset[int]) -> None:
        """Load what these results need, compute and store them."""
        for step, _ in self._program.walk():
            if step.opcode == "pick" and step.result.number in needed:
                self._pick(step)
            elif step.opcode not in ("pick", "word", "bits", "number"):
                raise UnsupportedError(
                    f"x86 has no word for {step.opcode}", where=str(step), fix="plan for avx2 or avx512"
                )
        for place in places:
            target = self.builder.at("destination", place * self.builder.machine.vector_bytes)
            self.builder.emit("store", target, self._vector(self._program.results[place]))

    def _vector(self, value: Value) -> Variable:
        """The register of a value, loaded now if it is a word of the source."""
        step = self._steps[value.number]
        while step.opcode in ("bits", "number"):
            step = self._steps[step.operands[0].number]
        number = step.result.number
        if number not in self._vectors:
            b, word = self.builder, step.numbers[0]
            self._vectors[number] = b.vector(f"s{word}")
            b.emit("load", self._vectors[number], b.at("source", word * b.machine.vector_bytes))
        return self._vectors[number]

    def _pick(self, step: Step) -> None:
        b, table = self.builder, step.numbers
        low, high = (self._vector(operand) for operand in step.operands)
        target = self._vectors[step.result.number] = b.vector(f"v{step.result.number}")
        fixed = self._picks.find(table, one=low is high)
        if fixed is not None:
            numbers = () if fixed.immediate is None else (fixed.immediate,)
            vectors = (low,) if fixed.entry == "permute_pairs" else (low, high)
            b.emit(fixed.entry, target, *vectors, *numbers)
            return
        entry, letter = _ENTRIES[len(table) // b.machine.lanes]
        index = b.vector("index")
        b.emit("load", index, b.data(struct.pack(f"<{len(table)}{letter}", *table)))
        if low is high and letter == "I":
            b.emit("permute", target, index, low)
        else:
            b.emit(entry, target, low, index, high)
