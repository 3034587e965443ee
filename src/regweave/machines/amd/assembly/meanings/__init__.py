"""What the instructions of AMD's GCN and CDNA processors compute, beside the table of what they touch."""

from __future__ import annotations

from functools import lru_cache

from regweave.machines.amd.assembly.meanings.meaning import Meaning

__all__ = ["Meaning", "all_meanings"]


@lru_cache
def all_meanings() -> dict[str, Meaning]:
    """The meanings of scalar and vector instructions by name."""
    from regweave.machines.amd.assembly.meanings import (
        conversions,
        division,
        floats,
        integers,
        packed,
        scalars,
    )

    found: dict[str, Meaning] = {}
    for module in (scalars, integers, floats, division, conversions, packed):
        overlap = found.keys() & module.MEANINGS.keys()
        assert not overlap, f"two meanings of {overlap}"
        found |= module.MEANINGS
    return found
