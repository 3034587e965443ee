"""What x86 instructions do that their operands do not say: registers that they change, flags.

Templates written as text are checked with this; the entries of the table declare theirs.

Facts: Intel's manual, volume 2, for each of the instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_STACK = "the stack belongs to the function's frame"
_CONTROL = "where it leads is not known: use the builder's jumps, calls and returns"
_READS = "it reads registers that it does not name"
_JUMPS = (
    "a ae b be c e g ge l le mp na nae nb nbe nc ne ng nge nl nle no np ns nz o p pe po s z cxz ecxz rcxz"
)
#: Names that a template must not use, and why.
UNNAMABLE: Mapping[str, str] = {
    "k0": "as a mask it means that there is none",
    "std": "code behind it expects the direction flag to be clear",
    **dict.fromkeys(("rsp", "esp", "sp", "spl"), _STACK),
    **dict.fromkeys(("push", "pop", "pushf", "popf", "pushfq", "popfq", "enter", "leave"), _STACK),
    **dict.fromkeys(("ret", "loop", "loope", "loopne", "loopz", "loopnz"), _CONTROL),
    **dict.fromkeys((f"j{ending}" for ending in _JUMPS.split()), _CONTROL),
    **dict.fromkeys(("mulx", "xlat", "xlatb", "vmaskmovdqu", "maskmovdqu", "maskmovq", "sahf"), _READS),
    **dict.fromkeys(("xsave", "xsaveopt", "xsavec", "xrstor"), _READS),
}
_GENERAL: Mapping[str, tuple[str, ...]] = {
    "syscall": ("rax", "rcx", "r11"),
    "call": ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"),
    "cpuid": ("rax", "rbx", "rcx", "rdx"),
    "rdtsc": ("rax", "rdx"),
    "rdtscp": ("rax", "rcx", "rdx"),
    "xgetbv": ("rax", "rdx"),
    **dict.fromkeys(("mul", "div", "idiv", "cmpxchg8b", "cmpxchg16b", "rdpmc", "rdpkru"), ("rax", "rdx")),
    **dict.fromkeys(("cdq", "cqo", "cwd"), ("rdx",)),
    **dict.fromkeys(("cbw", "cwde", "cdqe", "lahf", "cmpxchg"), ("rax",)),
    **dict.fromkeys(("rep", "repne", "repe", "repz", "repnz"), ("rcx", "rsi", "rdi")),
    **dict.fromkeys(("lodsb", "lodsw", "lodsd", "lodsq"), ("rax", "rsi")),
    **dict.fromkeys(("stosb", "stosw", "stosd", "stosq", "scasb", "scasw", "scasd", "scasq"), ("rdi",)),
    **dict.fromkeys(("movsb", "movsw", "movsq", "cmpsb", "cmpsw", "cmpsq"), ("rsi", "rdi")),
    **dict.fromkeys(("vpcmpestri", "vpcmpistri", "pcmpestri", "pcmpistri"), ("rcx",)),
    **dict.fromkeys(("vpcmpestrm", "vpcmpistrm", "pcmpestrm", "pcmpistrm"), ("zmm0",)),
}
_VECTORS = ("vzeroupper", "vzeroall")
# vector, mask and moving instructions leave the flags alone, with few exceptions
_KEEPING = re.compile(
    r"(?!v(u?comis[sdh]|ptest|testp[sd])|k(or)?test)"
    r"(v\w+|k\w+|mov\w*|cmov\w+|set\w+|lea|push|pop|xchg|bswap|not|prefetch\w+|nop|pause|[lsm]fence"
    r"|rorx|sarx|shlx|shrx|mulx|pdep|pext|cdqe?|cqo|rdtscp?|cpuid|cld|lddqu|clflush\w*)\Z"
)


def destroyed_by(mnemonic: str, operands: int, vectors: Sequence[str]) -> Sequence[str]:
    """The registers that `mnemonic` with so many operands changes without naming them; `vectors` are the
    machine's."""
    if mnemonic == "imul" and operands == 1:
        mnemonic = "mul"
    found = vectors if mnemonic in _VECTORS else _GENERAL.get(mnemonic, ())
    return [vectors[0] if register == "zmm0" else register for register in found]


def may_change_flags(mnemonic: str) -> bool:
    """Whether `mnemonic` is not known to leave the flags alone."""
    return _KEEPING.match(mnemonic) is None
