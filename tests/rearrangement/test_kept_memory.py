"""Memory that large plans use again: pages that tables touch are given to the process once."""

import platform
import subprocess
import sys

import pytest

from regweave.rearrangement.kept_memory import keep_freed_memory

_ROUNDS = """
import resource, sys
import numpy as np
from regweave.rearrangement.kept_memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(9):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tables = [np.ones(3 << 20, dtype=np.uint8) for _ in range(4)]
    del tables
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _touched_last(how: str) -> int:
    """Pages given to a process in the last of several rounds with twelve megabytes of tables."""
    run = subprocess.run([sys.executable, "-c", _ROUNDS, how], capture_output=True, text=True, check=True)
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other thresholds")
def test_tables_that_are_freed_give_their_pages_to_the_next() -> None:
    assert 8 * _touched_last("kept") < _touched_last("as it was")


def test_it_is_done_once_and_gives_nothing() -> None:
    assert keep_freed_memory() is None
    before = keep_freed_memory.cache_info().hits
    keep_freed_memory()
    assert keep_freed_memory.cache_info().hits == before + 1
