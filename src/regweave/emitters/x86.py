"""A rearrangement of vector registers as an x86-64 function: load, pick, store, every register assigned.

    >>> print(x86_listing(plan.chosen.program).text)
    ...
    vmovups ymm0, ymmword ptr [rdi]
    vmovups ymm1, ymmword ptr [rdi+32]
    vunpcklps ymm2, ymm0, ymm1
    ...

The function takes a pointer to the source's registers, one vector after the other, and one to the
destination's. Registers that have nothing to do with one another are finished one group at a time, so that
few are live.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import rustworkx

from regweave.assembly import Builder, Listing, Variable
from regweave.errors import UnsupportedError
from regweave.machines.picks import Picks
from regweave.machines.x86.machine import AVX2, AVX512, AVX512_VBMI, VectorMachine
from regweave.machines.x86.picks import AVX2_PICKS, AVX512_PICKS, AVX512_VBMI_PICKS
from regweave.programs import Program, Step

# pieces of 32, 16 and 8 bits: the entry that picks any of them, and how an index is written
_ENTRIES = {1: ("pick", "I"), 2: ("pick_halves", "H"), 4: ("pick_bytes", "B")}


def x86_listing(program: Program) -> Listing:
    """The function `program.name(source, destination)` for the machine whose vectors have as many lanes.

    Addresses need no alignment. Raises UnsupportedError for other lanes and steps that are no picks,
    RegisterError if more registers are live than there are.
    """
    machine, picks = _target(program)
    writer = _Writer(Builder(machine, name=program.name, arguments=("source", "destination")), program, picks)
    for results in _groups(program):
        writer.write(results)
    return writer.builder.finish()


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


class _Writer:
    """Emits what a group of results needs, in the order of the program."""

    def __init__(self, builder: Builder, program: Program, picks: Picks) -> None:
        self.builder, self._program, self._picks = builder, program, picks
        self._vectors: dict[int, Variable] = {}
        self._steps = {value.number: step for step, _ in program.walk() for value in step.results}

    def write(self, places: Sequence[int]) -> None:
        """Load what these results need, compute and store them."""
        results = [self._program.results[place] for place in places]
        needed, waiting = set(), [value.number for value in results]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                waiting += [operand.number for operand in self._steps[number].operands]
        for step, _ in self._program.walk():
            if step.results and step.results[0].number in needed:
                self._step(step)
        bytes = self.builder.machine.vector_bytes
        for place, value in zip(places, results, strict=True):
            target = self.builder.at("destination", place * bytes)
            self.builder.emit("store", target, self._vectors[value.number])

    def _step(self, step: Step) -> None:
        b, number = self.builder, step.result.number
        if step.opcode in ("bits", "number"):
            self._vectors[number] = self._vectors[step.operands[0].number]
        elif step.opcode == "word":
            self._vectors[number] = b.vector(f"s{step.numbers[0]}")
            place = b.at("source", step.numbers[0] * b.machine.vector_bytes)
            b.emit("load", self._vectors[number], place)
        elif step.opcode == "pick":
            self._vectors[number] = b.vector(f"v{number}")
            self._pick(step)
        else:
            raise UnsupportedError(
                f"x86 has no word for {step.opcode}", where=str(step), fix="plan for avx2 or avx512"
            )

    def _pick(self, step: Step) -> None:
        b, table = self.builder, step.numbers
        low, high = (self._vectors[operand.number] for operand in step.operands)
        target = self._vectors[step.result.number]
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
