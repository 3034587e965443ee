"""The targets that NVIDIA's compilers know, in the order of their generations, and how tables name them.

Support is written as a word per level, the targets without `sm_`:

    >>> support(native="80 86 89", emulated="90a")
    {'sm_80': 'native', 'sm_86': 'native', 'sm_89': 'native', 'sm_90a': 'emulated'}

A target that no level names lacks the instruction. The levels were read from SASS: native is one opcode of
the instruction's own shape, emulated a call, a conversion or several smaller products. sm_120a is the
same chip as sm_120, compiled with the features that no later target promises to keep.
"""

from __future__ import annotations

from regweave.errors import InputError
from regweave.machines.gpu import SUPPORT

TARGETS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120", "sm_120a")

#: The targets from Ampere on.
AMPERE = "80 86 89 90a 100a 120 120a"
#: The targets from Turing on.
TURING = "75 " + AMPERE


def support(**levels: str) -> dict[str, str]:
    """What each target does with an instruction, from `level="targets"`.

    Raises InputError for a level or a target that does not exist, or a target on two levels.
    """
    found: dict[str, str] = {}
    for level, targets in levels.items():
        if level not in SUPPORT:
            raise InputError(f"support {level!r}", expected=", ".join(SUPPORT))
        for target in (f"sm_{text}" for text in targets.split()):
            if target not in TARGETS or target in found:
                raise InputError(f"support of target {target!r}", expected="each target at most once")
            found[target] = level
    return {target: found[target] for target in TARGETS if target in found}
