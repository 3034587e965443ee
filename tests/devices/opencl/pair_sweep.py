"""Every pair of layouts that the catalogue can form within a machine, run in every way that applies.

    $ python pair_sweep.py all 0 8 gfx906 sm_90a     # the first of eight shares of the pairs of two machines

A pair is a result or a layout of a load, as it is, narrowed or transposed, and any operand or layout that it
can become. Equal layouts have many names, and equal programs come of many pairs: each is run once. Pairs are
shared out by their relation, so that what several machines have in common meets in one share. Compiling takes
most of the time, and is done for many programs at once. A `sample` has every layout on both sides, as it is,
narrowed, transposed, and both, where a pair has.
"""

import hashlib
import json
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from regweave import rearrange
from regweave.devices import opencl
from regweave.errors import RegweaveError, UnsupportedError
from regweave.machines.catalogue import find_layout, find_machine, fragment_names, machine_names
from regweave.rearrangement.proof import probes
from regweave.rearrangement.relation import in_words, relate
from regweave.rearrangement.request import read_request
from regweave.rearrangement.slots import used_bits

MACHINES = [name for name in machine_names() if find_machine(name).family in ("nvidia", "amd")]
STEPS = 8000  # of the programs that are compiled together


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


def relation_key(relation):
    """What relations have in common that move alike: u8 as s8 does, bf16 as f16."""
    digest = hashlib.sha256(repr(relation.packing).encode())
    for side in (relation.source, relation.destination):
        digest.update(repr((side.shape, side.axes, side.element_type.bits, side.table.shape)).encode())
        digest.update(side.table.tobytes())
    return digest.hexdigest()


def distinct_among(pairs, machine):
    """The pairs that can be related, one for each relation, and the relation's key."""
    known = set()
    for source, destination in pairs:
        try:
            request = read_request(source, destination, machine, None)
            key = relation_key(relate(request.source, request.destination))
        except RegweaveError:
            continue  # of different sizes or types, or larger than the registers
        if key not in known:
            known.add(key)
            yield source, destination, key


def covering(related):
    """Of pairs with their keys, in the keys' order, those with a layout in a way that it was not met in."""
    met = set()
    for source, destination, key in sorted(related, key=itemgetter(2)):
        name, change = re.fullmatch(r"([^@^]*)(.*)", source).groups()
        way = "@" in change, "^T" in change
        fresh = {("from", name, way), ("to", destination, way)} - met
        if fresh:
            met |= fresh
            yield source, destination, key


def runs_of(plan):
    """All candidates that apply: name, program, words, what must come of them, and the bits that count.

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
        yield candidate.name, candidate.program, padded.reshape(-1, threads, words.shape[2]), wanted, cares


@dataclass
class Sweep:
    """Programs that wait to be compiled together, those that were run by form, and what was wrong."""

    faults: list = field(default_factory=list)
    seen: set = field(default_factory=set)
    forms: Counter = field(default_factory=Counter)
    waiting: list = field(default_factory=list)
    planned: int = 0

    def add(self, source, destination, machine):
        """Plan a pair, and run it in every way that applies."""
        pair = f"{machine.name}: {source} -> {destination}"
        try:
            plan = rearrange(source, destination, machine=machine)
            runs = [run for run in runs_of(plan) if self._new(run[1])]
        except UnsupportedError:
            return  # a conversion that the machine lacks
        except RegweaveError as error:
            self.faults.append(f"{pair}: {error}")
            return
        self.planned += 1
        self.forms.update(run[0] for run in runs)
        self.waiting += [(pair, *run) for run in runs]
        if sum(sum(1 for _ in run[2].walk()) for run in self.waiting) >= STEPS:
            self.run()

    def run(self):
        """Run what waits, and compare what counts."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        try:
            results = opencl.execute_all([(program, words) for _, _, program, words, _, _ in waiting])
        except RegweaveError as error:
            self.faults.append(f"{waiting[0][0]} and those after it: {error}")
            return
        for (pair, _, program, _, wanted, cares), found in zip(waiting, results, strict=True):
            lanes = found.reshape(len(wanted), -1, found.shape[-1])[:, : wanted.shape[1]]
            if np.any((lanes ^ wanted) & cares):
                self.faults.append(f"{pair}, {program.name}: wrong words\n{program}")

    def _new(self, program):
        digest = hashlib.sha256(str(program).encode()).digest()
        return digest not in self.seen and not self.seen.add(digest)


def main(which, share, shares, *names):
    """One share of all of the machines' pairs, or of the sample; a line of JSON per machine."""
    sweep = Sweep()
    for name in names:
        machine, start = find_machine(name), time.monotonic()
        sweep.faults, sweep.forms, sweep.planned, pairs = [], Counter(), 0, 0
        related = distinct_among(catalogue_pairs(machine), machine)
        for source, destination, key in related if which == "all" else covering(related):
            if int(key[:8], 16) % int(shares) == int(share):
                pairs += 1
                sweep.add(source, destination, machine)
        sweep.run()
        found = {"machine": name, "pairs": pairs, "planned": sweep.planned, "forms": sweep.forms,
                 "seconds": round(time.monotonic() - start), "faults": sweep.faults}  # fmt: skip
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
