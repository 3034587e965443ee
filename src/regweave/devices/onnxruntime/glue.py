"""The native side of a custom operator: from onnxruntime's call to our kernel without a step through Python.

onnxruntime calls `compute(block, context)`. The glue asks it for the input's shape, checks it against the
plan, gets the addresses of inputs, output and scratch, writes them into a copy of the kernel's arguments on
the stack, and lets onnxruntime's own threads run `kernel(arguments, part)` for every part:

    dimensions [2, 96, 40, 40], channels at 1  ->  batch 2, count 1600, arguments {x, y, pitches, ...}

It costs about a microsecond a call; the same through ctypes callbacks costs ten to twenty, as much as a small
convolution. What differs between operators is data in their `OperatorBlock`, so one listing serves all.

Scratch memory comes from slots that all operators of a session share: one call's scratch is the next one's,
still in the cache. Memory from onnxruntime's arena would do, but disturbs how it plans its own: on a
recogniser the large output was then mapped anew in every run, 500 page faults.

Registers are fixed by hand, because every call clobbers the rest: rbx the block, r12 the context, r13 the
arguments, r15 the input's number, rbp the frame. A status from onnxruntime that is not null is returned as it
is.

In the text below, `@name` is the block's field `name`, `&name` one of the ImageSize in r14, `~name` one of
the StepBlock there, `=name` a word of the frame, `!Function` calls onnxruntime and leaves with its status
unless that is null, and `@name <- %reg` stores into the arguments at the place that the field names.
`?borrow` makes rax the address of rdx bytes, `?left` stands where a call ends.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from regweave.devices.onnxruntime.blocks import (
    ABSENT,
    FIXED,
    MOST_DIMENSIONS,
    MOST_IMAGES,
    OUTPUT_PLACE,
    PLACES,
    RANK,
    WORK_PLACE,
    ImageSize,
    InputRule,
    OperatorBlock,
    OutputRule,
    Patch,
    Result,
    ScratchSlot,
    StepBlock,
    offset,
)
from regweave.devices.onnxruntime.counted_glue import COMPUTE
from regweave.devices.onnxruntime.sized_glue import CONVOLVE

ENTRIES = (
    "rw_name", "rw_inputs", "rw_outputs", "rw_zero", "rw_one", "rw_any", "rw_create", "rw_compute",
    "rw_convolve",
)  # fmt: skip
"""The listing's functions: `rw_compute` of operators that count at each call (counted_glue), `rw_convolve` of
those prepared by size (sized_glue); the others answer onnxruntime's questions."""

_SAVED = 5 * 8
_FRAME = {"value": -48, "info": -56, "rank": -64, "batch": -72, "count": -80, "found": -88, "parts": -96}
_FRAME["slot"], _FRAME["size"] = -104, -112
_FRAME["dimensions"] = -112 - 8 * MOST_DIMENSIONS
_FRAME["result"] = _FRAME["dimensions"] - 8 * MOST_DIMENSIONS
_FRAME["places"] = _FRAME["result"] - 8 * PLACES
_FRAME["images"] = _FRAME["places"] - 8 * RANK * MOST_IMAGES

_ANSWERS = f"""
rw_name:   movq {offset("name")}(%rdi), %rax
           ret
rw_inputs: movq {offset("inputs")}(%rdi), %rax
           ret
rw_outputs: movq {offset("outputs")}(%rdi), %rax
           ret
rw_zero:   xorl %eax, %eax
           ret
rw_one:    movl $1, %eax
           ret
rw_any:    movl $0x7fffffff, %eax
           ret
rw_create: movq %rdi, (%rcx)
           xorl %eax, %eax
           ret
"""

_ENTER = """
.p2align 4
rw_compute:
    pushq %rbp
    movq  %rsp, %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq  %rdi, %rbx
    movq  %rsi, %r12
    subq  $FRAME, %rsp
    subq  @arguments_size, %rsp
    andq  $-64, %rsp
    movq  %rsp, %r13
"""

_BORROW = """
    addq  $63, %rdx                       # rax: memory of rdx bytes from onnxruntime, at a cache line
    movq  %r12, %rdi
    movq  @memory, %rsi
    leaq  =found, %rcx
    !KernelContext_GetScratchBuffer
    movq  =found, %rax
    addq  $63, %rax
    andq  $-64, %rax
"""

_LEAVE = """
rw_wrong_rank:
    movq  =info, %rdi
    call  *@ReleaseTensorTypeAndShapeInfo
rw_wrong:
    movl  $INVALID_ARGUMENT, %edi
    movq  @shape_words, %rsi
    call  *@CreateStatus
    jmp   rw_leave
rw_done:
    xorl  %eax, %eax
rw_leave:
    ?left
    leaq  -SAVED(%rbp), %rsp
    popq  %r15
    popq  %r14
    popq  %r13
    popq  %r12
    popq  %rbx
    popq  %rbp
    ret
"""

_RULES = offset("rules")
_NUMBERS = {
    "RULE_PER_POSITION": _RULES + InputRule.per_position.offset,
    "RULE_PER_IMAGE": _RULES + InputRule.per_image.offset,
    "RULE_PLACE": _RULES + InputRule.place.offset,
    "RULE": ctypes.sizeof(InputRule),
    "OUTPUT_AXIS": offset("output_rules") + OutputRule.axis.offset,
    "OUTPUT_VALUE": offset("output_rules") + OutputRule.value.offset,
    "SLOT": ctypes.sizeof(ScratchSlot),
    "SLOT_MEMORY": ScratchSlot.memory.offset,
    "FIXED": FIXED,
    "FRAME": -_FRAME["images"] - _SAVED,
    "SAVED": _SAVED,
    "MOST_DIMENSIONS": MOST_DIMENSIONS,
    "INVALID_ARGUMENT": 2,
    "RANK": RANK,
    "ABSENT": ABSENT,
    "RESULT": ctypes.sizeof(Result),
    "RESULT_RANK": offset("results", ImageSize) + Result.rank.offset,
    "RESULT_DIMS": offset("results", ImageSize) + Result.dims.offset,
    "IMAGE": 8 * RANK,
    "IMAGES": _FRAME["images"],
    "PLACES": _FRAME["places"],
    "OUTPUT": _FRAME["places"] + 8 * OUTPUT_PLACE,
    "WORK": _FRAME["places"] + 8 * WORK_PLACE,
    "PATCH": ctypes.sizeof(Patch),
    "PATCH_PLACE": Patch.place.offset,
    "PATCH_SOURCE": Patch.source.offset,
    "PATCH_OFFSET": Patch.offset.offset,
}


def glue_text() -> str:
    """The listing, in AT&T syntax for x86-64; independent of any vector extension."""
    assert OperatorBlock.table.offset == 0, "callbacks that get the operator's address get the block's"
    assert ctypes.sizeof(OutputRule) == 16, "the shift above"
    exported = "".join(f".globl {name}\n" for name in ENTRIES)
    convolve = _written((_ENTER, *CONVOLVE, _LEAVE), "convolve", left="lock decq @running")
    return exported + _ANSWERS + _written((_ENTER, *COMPUTE, _LEAVE), "compute") + convolve


def _written(parts: Sequence[str], name: str, left: str = "") -> str:
    """The function `rw_<name>` of these parts, with labels of its own."""
    body = "".join(parts).replace("?borrow", _BORROW).replace("?left", left)
    body = re.sub(r"!(\w+)", r"call  *@\1\n    testq %rax, %rax\n    jnz   rw_leave", body)
    body = re.sub(r"@(\w+) <- (%\w+)", r"movq  @\1, %rcx\n    movq  \2, (%r13,%rcx)", body)
    body = re.sub(r"@(\w+)", lambda match: f"{offset(match[1])}(%rbx)", body)
    body = re.sub(r"&(\w+)", lambda match: f"{offset(match[1], ImageSize)}(%r14)", body)
    body = re.sub(r"~(\w+)", lambda match: f"{offset(match[1], StepBlock)}(%r14)", body)
    body = re.sub(r"=([a-z]+)", lambda match: f"{_FRAME[match[1]]}(%rbp)", body)
    body = re.sub(r"\b([A-Z][A-Z_]+)\b", lambda match: str(_NUMBERS[match[1]]), body)
    body = re.sub(r" *#.*", "", body)
    return re.sub(r"\brw_(\w+)", rf"rw_{name}_\1", body).replace(f"rw_{name}_compute", f"rw_{name}")
