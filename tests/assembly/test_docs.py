"""The page on assembly: its example runs and computes what it says."""

import re
import time
from pathlib import Path

import pytest

from regweave.assembly import Builder
from regweave.devices import cpu
from regweave.machines.x86 import AVX512, detect

PAGE = Path(__file__).parents[2] / "docs" / "assembly.md"


@pytest.mark.skipif(detect() is None, reason="needs AVX2")
def test_the_example_runs(capsys):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    names: dict = {}
    exec(code[1], names)
    expected = (names["x"].reshape(4, -1) ** 2).sum(0)
    assert (names["out"] == expected).all()
    assert "acc   vector" in capsys.readouterr().out


@pytest.mark.slow
def test_an_operation_costs_microseconds():
    """Emitting, analysis, allocation and printing: at most 15 us an operation; assembling: at most 4 us a
    line."""
    best = [1.0, 1.0]
    for _ in range(5):
        started = time.perf_counter()
        b = Builder(AVX512, name="k", arguments=("x",))
        for _ in range(100):
            made = b.vectors("v", 20)
            for i, v in enumerate(made):
                b.emit("load", v, b.at("x", 64 * i))
            for v in made[1:]:
                b.emit("mul_add", made[0], v, b.constant(0.5))
            b.emit("store", b.at("x"), made[0])
        listing = b.finish()
        built = time.perf_counter()
        cpu.assemble(listing.text)
        done = time.perf_counter()
        best = [
            min(best[0], (built - started) / listing.operations),
            min(best[1], (done - built) / listing.text.count("\n")),
        ]
    assert best[0] < 15e-6
    assert best[1] < 4e-6
