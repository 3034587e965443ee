"""Vector entries (32-bit floats unless said otherwise), for AVX-512 and AVX2+FMA under the same names.

Only three things differ between the two: the width, how lanes are masked (entries of that kind stand in
`avx512_entries` and `avx2_entries`), and whether one element in memory can be repeated to all lanes inside an
instruction. On AVX2 a repeated operand costs a scratch register and a `vbroadcastss`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regweave.machines.instructions import Instruction, Pattern
from regweave.machines.x86 import meanings
from regweave.machines.x86.avx2_entries import AVX2_ENTRIES
from regweave.machines.x86.avx512_entries import AVX512_ENTRIES


def _meaning(name: str) -> Callable[..., Any]:
    """The function of that name; `and` and `or` are Python's words, so theirs end in an underscore."""
    return getattr(meanings, name, None) or getattr(meanings, f"{name}_")


def vector_table(wide: bool) -> tuple[Instruction, ...]:
    """The entries for AVX-512 (`wide`) or AVX2."""

    def last(operands: str, line: str, latency: float = 0, throughput: float = 0) -> tuple[Pattern, ...]:
        """Patterns whose last operand `b` is a register, memory, or one repeated element."""

        def pattern(operands: str, lines: str | tuple[str, ...]) -> Pattern:
            return Pattern(operands, lines, latency=latency, throughput=throughput)

        if wide:
            return (pattern(f"{operands} b:v|m|b", line),)
        count = len(operands.split())
        repeat = f"vbroadcastss %={count + 1}, %{count}"
        repeated = pattern(f"{operands} b:b ~t:v", (repeat, line.replace(f"%{count}", f"%{count + 1}")))
        return (pattern(f"{operands} b:v|m", line), repeated)

    def three(
        name: str, mnemonic: str, help: str, latency: float = 4, throughput: float = 0.5
    ) -> Instruction:
        """`d = a op b`."""
        patterns = last("d:v a:v", f"{mnemonic} %=0, %1, %2", latency=latency, throughput=throughput)
        return Instruction(name, patterns, _meaning(name), help)

    def accumulate(name: str, mnemonic: str, help: str) -> Instruction:
        """`d = f(d, a, b)` with a fused multiply-add."""
        patterns = last("d:v a:v", f"{mnemonic} %+0, %1, %2", latency=4, throughput=0.5)
        return Instruction(name, patterns, _meaning(name), help)

    def unary(name: str, line: str, help: str, latency: float = 4) -> Instruction:
        """`d = f(a)`, a register only."""
        return Instruction(name, (Pattern("d:v a:v", line, latency=latency),), _meaning(name), help)

    def rounding(name: str, mode: int, help: str) -> Instruction:
        mnemonic = "vrndscaleps" if wide else "vroundps"
        patterns = last("d:v", f"{mnemonic} %=0, %1, {mode}", latency=8)
        return Instruction(name, patterns, _meaning(name), help)

    def compare(name: str, predicate: int, help: str) -> Instruction:
        mask = "k" if wide else "v"
        patterns = last(f"d:{mask} a:v", f"vcmpps %=0, %1, %2, {predicate}", latency=4)
        return Instruction(name, patterns, _meaning(name), help)

    def integer(name: str, mnemonic: str, help: str) -> Instruction:
        patterns = last("d:v a:v", f"{mnemonic} %=0, %1, %2", latency=1)
        return Instruction(name, patterns, _meaning(name), help)

    return (
        Instruction(
            "load", (Pattern("d:v from:m", "vmovups %=0, %1", latency=7),), meanings.move, "d = memory"
        ),
        Instruction("store", (Pattern("to:m a:v", "vmovups %0, %1"),), meanings.move, "memory = a"),
        Instruction(
            "store_stream",
            (Pattern("to:m a:v", "vmovntps %0, %1"),),
            meanings.move,
            "memory = a, past the caches; the address must be a multiple of the vector's bytes",
        ),
        Instruction(
            "load_first", (Pattern("d:v from:s", "vmovss %=0:x, %1"),), None, "lane 0 = memory, others 0"
        ),
        Instruction("store_first", (Pattern("to:s a:v", "vmovss %0, %1:x"),), None, "memory = lane 0 of a"),
        Instruction(
            "broadcast",
            (
                Pattern("d:v from:s", "vbroadcastss %=0, %1", latency=7, throughput=0.5),
                Pattern("d:v from:v", "vbroadcastss %=0, %1:x", latency=3),
                Pattern("d:v from:r", ("vmovd %=0:x, %1:d", "vbroadcastss %=0, %+0:x"), latency=6),
            ),
            meanings.broadcast,
            "every lane = one element: of memory, lane 0 of a register, or a general register's low 32 bits",
        ),
        *(
            Instruction(
                name,
                (Pattern(f"d:v from:{letter}", f"{mnemonic} %=0, %1", latency=7, throughput=0.5),),
                None,
                f"{count} elements of memory, again and again",
            )
            for name, letter, mnemonic, count in (
                ("broadcast_2", "q", "vbroadcastsd", 2),
                ("broadcast_4", "d", "vbroadcastf32x4" if wide else "vbroadcastf128", 4),
                ("broadcast_8", "h", "vbroadcastf64x4" if wide else "vmovups", 8),
            )
        ),
        Instruction(
            "zero", (Pattern("d:v", "vxorps %=0:x, %=0:x, %=0:x", latency=0),), meanings.zero, "d = 0"
        ),
        Instruction("move", (Pattern("d:v a:v", "vmovaps %=0, %1", latency=1),), meanings.move, "d = a"),
        three("add", "vaddps", "d = a + b"),
        three("sub", "vsubps", "d = a - b"),
        three("mul", "vmulps", "d = a * b"),
        three("div", "vdivps", "d = a / b", 11, 5),
        three("max", "vmaxps", "d = a if a > b else b (so b where either is NaN)"),
        three("min", "vminps", "d = a if a < b else b (so b where either is NaN)"),
        three("max_nan", "vmaxps", "d = max(a, b) where a is a limit: NaN where b is NaN"),
        three("min_nan", "vminps", "d = min(a, b) where a is a limit: NaN where b is NaN"),
        accumulate("fma", "vfmadd231ps", "d = a * b + d, one rounding"),
        accumulate("fnma", "vfnmadd231ps", "d = d - a * b, one rounding"),
        accumulate("fms", "vfmsub231ps", "d = a * b - d, one rounding"),
        accumulate("mul_add", "vfmadd213ps", "d = d * a + b, one rounding (Horner's step)"),
        Instruction(
            "fma_to",
            (Pattern("d:v a:v b:v c:v", ("vmovaps %=0, %3", "vfmadd231ps %+0, %1, %2"), latency=4),),
            meanings.fma_to,
            "d = a * b + c, one rounding",
        ),
        Instruction(
            "sqrt", last("d:v", "vsqrtps %=0, %1", latency=18), meanings.sqrt, "d = square root of a"
        ),
        unary("abs", "vandps %=0, %1, %#7fffffff", "d = |a|", 1),
        unary("negate", "vxorps %=0, %1, %#80000000", "d = -a", 1),
        three("and", "vandps", "d = a & b, bitwise", 1),
        three("or", "vorps", "d = a | b, bitwise", 1),
        three("xor", "vxorps", "d = a ^ b, bitwise", 1),
        three("andnot", "vandnps", "d = ~a & b, bitwise", 1),
        rounding("round_nearest", 8, "d = a rounded to an integer, ties to even"),
        rounding("floor", 9, "d = a rounded down"),
        rounding("ceil", 10, "d = a rounded up"),
        integer("add_int", "vpaddd", "d = a + b on 32-bit integers"),
        integer("sub_int", "vpsubd", "d = a - b on 32-bit integers"),
        Instruction(
            "shift_left_int",
            (Pattern("d:v a:v count:i<32", "vpslld %=0, %1, %2", latency=1),),
            meanings.shift_left_int,
            "d = a << count on 32-bit integers",
        ),
        unary("to_int", "vcvtps2dq %=0, %1", "d = a as 32-bit integers, ties to even"),
        unary("from_int", "vcvtdq2ps %=0, %1", "d = 32-bit integers as floats"),
        compare("compare_less", 17, "lanes where a < b (false where unordered)"),
        compare("compare_less_equal", 18, "lanes where a <= b (false where unordered)"),
        compare("compare_equal", 0, "lanes where a == b (false where unordered)"),
        compare("compare_unordered", 3, "lanes where a or b is NaN"),
        *(AVX512_ENTRIES if wide else AVX2_ENTRIES),
    )
