"""What the instructions of AMD's GCN and CDNA processors compute, beside the table of what they touch."""

from __future__ import annotations

from functools import lru_cache

from regweave.machines.amd.assembly.meanings.meaning import Meaning

__all__ = ["WITHOUT", "Meaning", "all_meanings"]


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


#: Instructions whose effect is not modelled, and why.
WITHOUT = {
    "s_getreg_b32": "hardware registers are not modelled",
    "s_setreg_b32": "modes of rounding and denormal numbers are those that kernels start in",
    "s_setreg_imm32_b32": "modes of rounding and denormal numbers are those that kernels start in",
    "s_getpc_b64": "instructions have no addresses",
    "s_sendmsg": "there is nobody to send a message to",
    "s_memtime": "time is not modelled",
    "s_memrealtime": "time is not modelled",
    "v_cvt_pk_u8_f32": "the manuals do not say how it rounds",
}
