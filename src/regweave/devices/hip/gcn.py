"""Read the assembly that clang writes for AMD's GPUs, from gfx9 to gfx12: one instruction per line.

    kernel:                                 ; @kernel
            ds_bpermute_b32 v2, v2, v1
            s_endpgm

LDS instructions are called `ds_read` and `ds_write` up to gfx10 and `ds_load` and `ds_store` from gfx11 on.
"""

from __future__ import annotations

import re

from regweave.devices.compiled_code import CompiledCode, classified
from regweave.errors import DeviceError

# two vector instructions that are issued together stand on one line of gfx11 and later
_INSTRUCTION = re.compile(r"(?:^\s+|:: )([a-z][a-z0-9_]*)", re.MULTILINE)
# hints about the instructions that follow
_FILLING = ("s_delay_alu", "s_clause")
_PATTERNS = {
    "exchange": r"ds_bpermute_b32|ds_permute_b32|ds_swizzle_b32|v_permlane\w+|v_readlane_b32|\w+_dpp",
    "select": r"v_(dual_)?cndmask_b32\w*|s_cselect_b32",
    "byte_permute": r"v_perm_b32|v_alignbyte_b32|v_bfi_b32",
    "convert": r"v_cvt_\w+|v_pack_b32_f16",
    "shared_store": r"ds_(write|store)\w*",
    "shared_load": r"ds_(read|load)\w*",
    "barrier": r"s_barrier\w*",
    "local": r"scratch_\w+|buffer_(load|store)_\w+",
    "matrix": r"v_(mfma|wmma|dot)\w+",
}


def read_gcn(text: str, name: str) -> CompiledCode:
    """The instructions of kernel `name`, up to its end. DeviceError if the text has no such kernel."""
    body = re.search(rf"^{re.escape(name)}:.*?^\s+s_endpgm\b", text, re.DOTALL | re.MULTILINE)
    if body is None:
        raise DeviceError(f"the assembly has no kernel {name!r}", where="hip")
    found = _INSTRUCTION.findall(body[0])
    return classified([name for name in found if name not in _FILLING], _PATTERNS)
