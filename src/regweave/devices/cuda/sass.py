"""Read what nvdisasm prints: SASS, one instruction per line, a section for each kernel.

    .text.trial:
            /*0090*/              @!P0 SHFL.IDX PT, R7, R6, R0, 0x1f ;

Behind the end of every kernel stand a jump to itself and padding, which are left out.
"""

from __future__ import annotations

import re

from regweave.devices.compiled_code import CompiledCode, classified
from regweave.errors import DeviceError

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)")
_PATTERNS = {
    "exchange": r"(SHFL|MOVM)(\..*)?",
    "select": r"(SEL|FSEL|USEL)(\..*)?",
    "byte_permute": r"U?PRMT(\..*)?",
    "convert": r"(F2FP|F2F|F2I|I2F|I2IP|I2I|F2IP)(\..*)?",
    "shared_store": r"(STS|STSM)(\..*)?",
    "shared_load": r"(LDS|LDSM)(\..*)?",
    "barrier": r"(BAR|WARPSYNC)(\..*)?",
    "local": r"(STL|LDL)(\..*)?",
    "matrix": r"[HIDQBO]G?MMA(\..*)?",
}


def read_sass(text: str, name: str) -> CompiledCode:
    """The instructions of kernel `name`, with their modifiers. DeviceError if the text has no such kernel."""
    body = re.search(rf"^\.text\.{re.escape(name)}:$(.*?)(?=^//-----|\Z)", text, re.DOTALL | re.MULTILINE)
    if body is None:
        raise DeviceError(f"the disassembly has no kernel {name!r}", where="cuda")
    found = [mnemonic for mnemonic in _INSTRUCTION.findall(body[1]) if mnemonic != "NOP"]
    if found and found[-1] == "BRA":
        found.pop()
    return classified(found, _PATTERNS)
