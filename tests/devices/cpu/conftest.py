"""What the tests of loaded code share."""

import re
from pathlib import Path

import pytest


@pytest.fixture
def page_rights():
    """`page_rights(address)` -> "r-xp" and the like, or "none".

    The kernel shows neighbouring mappings of equal rights as one, so an address may lie inside a line.
    """

    def rights(address: int) -> str:
        for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line)
            if match and int(match[1], 16) <= address < int(match[2], 16):
                return match[3]
        return "none"

    return rights
