"""What x86 instructions do that their operands do not say: registers that they change, flags.

Templates written as text are checked with this; the entries of the table declare theirs.

Facts: Intel's manual, volume 2, for each of the instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

#: Names that a template must not use, and why.
UNNAMABLE: Mapping[str, str] = {
    "k0": "as a mask it means that there is none",
    **dict.fromkeys(("rsp", "esp", "sp", "spl"), "the stack belongs to the function's frame"),
}
_GENERAL: Mapping[str, tuple[str, ...]] = {
    "syscall": ("rax", "rcx", "r11"),
    "cpuid": ("rax", "rbx", "rcx", "rdx"),
    "rdtsc": ("rax", "rdx"),
    "rdtscp": ("rax", "rcx", "rdx"),
    "xgetbv": ("rax", "rdx"),
    **dict.fromkeys(("mul", "div", "idiv"), ("rax", "rdx")),
    **dict.fromkeys(("cdq", "cqo"), ("rdx",)),
    **dict.fromkeys(("rep", "repne", "repe"), ("rcx", "rsi", "rdi")),
}
_VECTORS = ("vzeroupper", "vzeroall")
# vector, mask and moving instructions leave the flags alone, with few exceptions
_KEEPING = re.compile(
    r"(?!v(u?comis[sdh]|ptest|testp[sd])|k(or)?test)"
    r"(v\w+|k\w+|mov\w*|cmov\w+|set\w+|lea|push|pop|xchg|bswap|not|prefetch\w+|nop|pause|[lsm]fence"
    r"|rorx|sarx|shlx|shrx|mulx|pdep|pext|cdqe?|cqo|rdtscp?|cpuid|cld|lddqu|clflush\w*)\Z"
)


def destroyed_by(mnemonic: str, vectors: Sequence[str]) -> Sequence[str]:
    """The registers that `mnemonic` changes without naming them; `vectors` are the machine's."""
    return vectors if mnemonic in _VECTORS else _GENERAL.get(mnemonic, ())


def may_change_flags(mnemonic: str) -> bool:
    """Whether `mnemonic` is not known to leave the flags alone."""
    return _KEEPING.match(mnemonic) is None
