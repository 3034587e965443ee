"""Every pair of layouts that the catalogue can form within a machine, run in every way that applies.

A pair is a result or a layout of a load, as it is, narrowed or transposed, and any operand or layout that it
can become. Equal layouts have many names, and equal programs come of many pairs: each is run once.
By default only a few pairs are; `-m slow` runs the rest.
"""

import random
from itertools import islice

import numpy as np
import pytest

from regweave import rearrange
from regweave.devices import opencl
from regweave.errors import RegweaveError, UnsupportedError
from regweave.machines.catalogue import find_layout, find_machine, fragment_names, machine_names
from regweave.rearrangement.proof import probes
from regweave.rearrangement.relation import in_words, relate
from regweave.rearrangement.request import read_request
from regweave.rearrangement.slots import used_bits

MACHINES = [name for name in machine_names() if find_machine(name).family in ("nvidia", "amd")]
BATCH = 40
MOST = 1000


def distinct_layouts(machine):
    """One name for each layout of the machine, with its element type."""
    known = {}
    for name in fragment_names(machine):
        layout = find_layout(name, machine)
        key = layout.shape, layout.axes, layout.dtype, layout.table.shape, layout.table.tobytes()
        known.setdefault(key, (name, layout.dtype))
    return list(known.values())


def catalogue_pairs(machine):
    """All (source, destination) names that may make a plan."""
    layouts = distinct_layouts(machine)
    sources = [(name, dtype) for name, dtype in layouts if not name.endswith((":A", ":B"))]
    for source, held in sources:
        for destination, wanted in layouts:
            names = [source] if held == wanted else [source, f"{source}@{wanted}"]
            for name in names:
                yield name, destination
                yield f"{name}^T", destination


def distinct_among(pairs, machine):
    """The pairs that can be related, one for each relation: u8 moves as s8 does, bf16 as f16."""
    known = set()
    for source, destination in pairs:
        try:
            request = read_request(source, destination, machine, None)
            relation = relate(request.source, request.destination)
        except RegweaveError:
            continue  # of different sizes or types, or larger than the registers
        sides = relation.source, relation.destination
        key = relation.packing, *((s.shape, s.axes, s.element_type.bits, s.table.tobytes()) for s in sides)
        if key not in known:
            known.add(key)
            yield source, destination


def runs_of(plan):
    """The programs of all candidates that apply, with words, what must come of them, and the bits that count.

    Words are `[blocks of threads, threads, registers]`; lanes that the layouts do not use hold rubbish.
    """
    for candidate in plan.candidates:
        if candidate.program is None:
            continue
        relation = candidate.relation or plan.relation
        holds = None if candidate.fold is None else in_words(candidate.fold.destination(relation.destination))
        words, wanted = (np.stack(tables) for tables in zip(*probes(relation.in_words, holds), strict=True))
        threads = candidate.program.lanes * candidate.program.warps
        shape = len(words), -(-words.shape[1] // threads) * threads, words.shape[2]
        padded = np.full(shape, 0x5A5A5A5A, np.uint32)
        padded[:, : words.shape[1]] = words
        destination = holds or relation.in_words.destination
        cares = used_bits(destination.items, destination.element_type)
        yield candidate.program, padded.reshape(-1, threads, words.shape[2]), wanted, cares


def check(batch):
    """Run programs on the device and compare what counts."""
    results = opencl.execute_all([(program, words) for program, words, _, _ in batch])
    for (program, _, wanted, cares), found in zip(batch, results, strict=True):
        lanes = found.reshape(len(wanted), -1, found.shape[-1])[:, : wanted.shape[1]]
        assert not np.any((lanes ^ wanted) & cares), f"{program.name}\n{program}"


def sweep(pairs, machine):
    """Plan and run pairs in every way that applies; how many of them made a plan."""
    seen, batch, planned = set(), [], 0
    for source, destination in pairs:
        try:
            plan = rearrange(source, destination, machine=machine)
        except UnsupportedError:
            continue  # a conversion that the machine lacks
        planned += 1
        for run in runs_of(plan):
            text = str(run[0])
            if text not in seen:
                seen.add(text)
                batch.append(run)
        while len(batch) >= BATCH:
            check(batch[:BATCH])
            del batch[:BATCH]
    if batch:
        check(batch)
    return planned


@pytest.mark.parametrize("name", ["sm_80", "sm_120", "gfx942", "gfx950", "gfx1100", "gfx1200_w64"])
def test_a_sample_of_pairs(name, device):
    machine = find_machine(name)
    pairs = list(catalogue_pairs(machine))
    random.Random(name).shuffle(pairs)
    related = (pair for pair in pairs if list(distinct_among([pair], machine)))
    assert sweep(islice(related, 15), machine) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_every_pair(name, device):
    machine = find_machine(name)
    pairs = list(distinct_among(catalogue_pairs(machine), machine))
    # wgmma and tcgen05 have thousands that differ in their sizes alone: an even spread of those
    step = -(-len(pairs) // MOST)
    assert sweep(pairs[::step], machine) > 0
