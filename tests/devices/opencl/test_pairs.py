"""Every pair of layouts that the catalogue can form within a machine, run in every way that applies.

By default only a few pairs of some machines are. `-m slow` runs a sample that has every layout and every
form, `-m exhaustive` all of them; both on all processors at once.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pair_sweep import MACHINES, Sweep, catalogue_pairs, distinct_among

from regweave.machines.catalogue import find_machine

SHARES = max(2, os.cpu_count() or 1)
FORMS = {
    *("identity", "fold", "exchange (direct)", "exchange (lean)", "exchange (steps)"),
    *("shared (whole-warp)", "shared (grouped)", "shared (single-lane)"),
}


@pytest.mark.parametrize("name", ["sm_80", "sm_120", "gfx942", "gfx950", "gfx1100", "gfx1200_w64"])
def test_a_sample_of_pairs(name, device):
    machine, sweep = find_machine(name), Sweep()
    pairs = list(catalogue_pairs(machine))
    random.Random(name).shuffle(pairs)
    for source, destination in pairs:
        for related in distinct_among([(source, destination)], machine):
            sweep.add(*related[:2], machine)
        if sweep.planned == 15:
            break
    sweep.run()
    assert sweep.planned == 15
    assert sweep.faults == []


@pytest.mark.parametrize(
    "which",
    [pytest.param("sample", marks=pytest.mark.slow), pytest.param("all", marks=pytest.mark.exhaustive)],
)
def test_pairs_of_every_machine(which, device, capsys):
    def swept(share):
        script = Path(__file__).with_name("pair_sweep.py")
        command = [sys.executable, str(script), which, str(share), str(SHARES), *MACHINES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    totals, forms, faults = {name: Counter() for name in MACHINES}, Counter(), []
    with ThreadPoolExecutor(SHARES) as pool:
        for found in pool.map(swept, range(SHARES)):
            for line in found:
                faults += line.pop("faults")
                forms.update(line.pop("forms"))
                totals[line.pop("machine")].update(line)
    with capsys.disabled():
        for name, counts in [*totals.items(), ("programs", forms)]:
            print(f"\n{name}: " + ", ".join(f"{count} {what}" for what, count in counts.items()), end="")
    assert faults == []
    assert all(counts["planned"] > 0 for counts in totals.values())
    assert set(forms) >= FORMS
