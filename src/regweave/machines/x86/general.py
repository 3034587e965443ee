"""General-register entries: addresses, counters, branches, calls. The same for every x86-64 machine.

`r` is a 64-bit general register. Two-operand entries read and write the first operand, as the processor does
(`add n, 1` is n += 1). Memory is 64 bits wide except in entries whose name ends in 32.
"""

from __future__ import annotations

from regweave.machines.instructions import Instruction, Pattern

#: Condition name -> x86 suffix. `less`, `greater` compare signed, `below`, `above` unsigned.
CONDITIONS = {
    "zero": "e",
    "nonzero": "ne",
    "equal": "e",
    "not_equal": "ne",
    "less": "l",
    "less_equal": "le",
    "greater": "g",
    "greater_equal": "ge",
    "below": "b",
    "below_equal": "be",
    "above": "a",
    "above_equal": "ae",
    "negative": "s",
    "not_negative": "ns",
}


def _two(name: str, mnemonic: str, help: str, flags: str = "set") -> Instruction:
    """`d = d op source`, source a register, memory or an immediate."""
    return Instruction(
        name, (Pattern("d:r source:r|q|i", f"{mnemonic} %+0, %1", flags=flags, latency=1),), help=help
    )


def _shift(name: str, mnemonic: str, help: str) -> Instruction:
    """Shifts by an immediate, or by a register without touching the flags."""
    return Instruction(
        name,
        (
            Pattern("d:r count:i<64", f"{mnemonic} %+0, %1", flags="lost", latency=1),
            Pattern("d:r count:r", f"{mnemonic}x %+0, %+0, %1", latency=1),
        ),
        help=help,
    )


#: Patterns that join a vector entry of the same name (`add n, 1` beside `add d, a, b`).
SHARED: dict[str, Instruction] = {
    entry.name: entry
    for entry in (
        _two("add", "add", "d += source"),
        _two("sub", "sub", "d -= source"),
        _two("and", "and", "d &= source"),
        _two("or", "or", "d |= source"),
        _two("xor", "xor", "d ^= source"),
        Instruction(
            "min",
            (Pattern("d:r source:r", ("cmp %1, %0", "cmovl %+0, %1"), flags="lost"),),
            help="d = the smaller, signed",
        ),
        Instruction(
            "max",
            (Pattern("d:r source:r", ("cmp %1, %0", "cmovg %+0, %1"), flags="lost"),),
            help="d = the larger, signed",
        ),
        Instruction("zero", (Pattern("d:r", "xor %=0:d, %=0:d", flags="lost"),), help="d = 0"),
        Instruction("move", (Pattern("d:r source:r", "mov %=0, %1", latency=1),), help="d = source"),
    )
}

GENERAL: tuple[Instruction, ...] = (
    Instruction(
        "mov",
        (
            Pattern("d:r source:r", "mov %=0, %1", latency=1),
            Pattern("d:r source:q", "mov %=0, %1", latency=4),
            Pattern("d:r source:i", "mov %=0, %1", latency=1),
            Pattern("d:q source:r|i", "mov %0, %1"),
        ),
        help="copy 64 bits: to a register from a register, memory or an immediate; to memory from the others",
    ),
    Instruction(
        "mov32",
        (
            Pattern("d:r source:s", "mov %=0:d, %1", latency=4),
            Pattern("d:r source:r", "mov %=0:d, %1:d", latency=1),
            Pattern("d:s source:r", "mov %0, %1:d"),
            Pattern("d:s source:i", "mov %0, %1"),
        ),
        help="copy 32 bits; the upper half of a register becomes zero",
    ),
    Instruction("lea", (Pattern("d:r address:a", "lea %=0, %1", latency=1),), help="d = the address itself"),
    Instruction(
        "imul",
        (
            Pattern("d:r source:r|q", "imul %+0, %1", flags="lost", latency=3),
            Pattern("d:r source:r|q factor:i", "imul %=0, %1, %2", flags="lost", latency=3),
        ),
        help="d *= source, or d = source * factor",
    ),
    Instruction(
        "divide_unsigned",
        (
            Pattern(
                "d:r a:r b:r",
                ("mov rax, %1", "xor edx, edx", "div %2", "mov %=0, rax"),
                clobbers=("rax", "rdx"),
                flags="lost",
                latency=20,
            ),
        ),
        help="d = a / b, unsigned, rounded down",
    ),
    Instruction("neg", (Pattern("d:r", "neg %+0", flags="set"),), help="d = -d"),
    Instruction("not", (Pattern("d:r", "not %+0"),), help="d = ~d"),
    Instruction("inc", (Pattern("d:r", "inc %+0", flags="set"),), help="d += 1"),
    Instruction("dec", (Pattern("d:r", "dec %+0", flags="set"),), help="d -= 1"),
    _shift("shl", "shl", "d <<= count"),
    _shift("shr", "shr", "d >>= count, filling with zeros"),
    _shift("sar", "sar", "d >>= count, filling with the sign"),
    Instruction(
        "cmp",
        (
            Pattern("a:r b:r|q|i", "cmp %0, %1", flags="set"),
            Pattern("a:q b:r|i", "cmp %0, %1", flags="set"),
        ),
        help="set the flags from a - b",
    ),
    Instruction("test", (Pattern("a:r b:r|i", "test %0, %1", flags="set"),), help="set the flags from a & b"),
    *(
        Instruction(
            f"mov_if_{condition}",
            (Pattern("d:r source:r|q", f"cmov{suffix} %+0, %1", flags="read"),),
            help=f"d = source if the flags say {condition.replace('_', ' ')}",
        )
        for condition, suffix in CONDITIONS.items()
    ),
    Instruction("jump", (Pattern("to:l", "jmp %0", control="jump"),), help="go on at a label"),
    *(
        Instruction(
            f"jump_{condition}",
            (Pattern("to:l", f"j{suffix} %0", control="branch", flags="read"),),
            help=f"go on at a label if the flags say {condition.replace('_', ' ')}",
        )
        for condition, suffix in CONDITIONS.items()
    ),
    Instruction(
        "call", (Pattern("to:l", "call %0", control="call", flags="lost"),), help="run a local routine"
    ),
    Instruction("ret", (Pattern("", "ret", control="return"),), help="end a local routine"),
    Instruction("return", (Pattern("", "ret", control="leave"),), help="leave the function"),
    Instruction(
        "prefetch", (Pattern("address:a", "prefetcht0 %0"),), help="bring a line into the first-level cache"
    ),
    Instruction(
        "prefetch_l2",
        (Pattern("address:a", "prefetcht1 %0"),),
        help="bring a line into the second-level cache",
    ),
    Instruction(
        "prefetch_write", (Pattern("address:a", "prefetchw %0"),), help="bring a line in to be written"
    ),
    Instruction("fence_stores", (Pattern("", "sfence"),), help="order streaming stores before what follows"),
    Instruction(
        "align", (Pattern("boundary:i<4097", ".balign %0"),), help="continue at a multiple of this many bytes"
    ),
)
