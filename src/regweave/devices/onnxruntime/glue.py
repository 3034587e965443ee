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
from regweave.devices.onnxruntime.sized_glue import CONVOLVE

ENTRIES = (
    "rw_name", "rw_inputs", "rw_outputs", "rw_zero", "rw_one", "rw_any", "rw_create", "rw_compute",
    "rw_convolve",
)  # fmt: skip
"""The listing's functions; `rw_compute` is the one above, `rw_convolve` that of operators prepared by size,
the others answer onnxruntime's questions."""

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

_TEMPLATE = """
    movq  %rsp, %rdi
    movq  @arguments, %rsi
    movq  @arguments_size, %rcx
    cld
    rep movsb
"""

_SHAPE = """
    movq  %r12, %rdi                      # dimensions and rank of input 0
    xorl  %esi, %esi
    leaq  =value, %rdx
    !KernelContext_GetInput
    movq  =value, %rdi
    leaq  =info, %rsi
    !GetTensorTypeAndShape
    movq  =info, %rdi
    leaq  =rank, %rsi
    !GetDimensionsCount
    cmpq  $MOST_DIMENSIONS, =rank
    ja    rw_wrong_rank
    movq  =info, %rdi
    leaq  =dimensions, %rsi
    movq  =rank, %rdx
    !GetDimensions
    movq  =info, %rdi
    call  *@ReleaseTensorTypeAndShapeInfo
"""

_POSITIONS = """
    leaq  =dimensions, %rsi               # batch (rdx) and count (rax): products of dimensions
    movq  =rank, %rcx
    movl  $1, %eax
    cmpq  $0, @rows
    je    rw_images
rw_elements:
    testq %rcx, %rcx
    jz    rw_divide
    imulq -8(%rsi,%rcx,8), %rax
    decq  %rcx
    jmp   rw_elements
rw_divide:
    xorl  %edx, %edx
    divq  @channels_in
    testq %rdx, %rdx
    jnz   rw_wrong
    movl  $1, %edx
    jmp   rw_counted
rw_images:
    movq  @axis, %r8
    cmpq  %rcx, %r8
    jae   rw_wrong
    movq  (%rsi,%r8,8), %r9
    cmpq  @channels_in, %r9
    jne   rw_wrong
rw_behind:
    decq  %rcx
    cmpq  %r8, %rcx
    je    rw_before
    imulq (%rsi,%rcx,8), %rax
    jmp   rw_behind
rw_before:
    movl  $1, %edx
rw_outer:
    testq %rcx, %rcx
    jz    rw_counted
    decq  %rcx
    imulq (%rsi,%rcx,8), %rdx
    jmp   rw_outer
rw_counted:
    movq  %rax, =count
    movq  %rdx, =batch
    @count_place <- %rax
    @batch_place <- %rdx
    movq  @x_pitch_count, %rax
    imulq =count, %rax
    addq  @x_pitch_fixed, %rax
    @x_pitch_place <- %rax
    movq  @y_pitch_count, %rax
    imulq =count, %rax
    addq  @y_pitch_fixed, %rax
    @y_pitch_place <- %rax
"""

_RESULT = """
    leaq  =dimensions, %rsi               # dimensions of the output; r8 their product, r10 which is left
    leaq  =result, %rdi
    xorl  %ecx, %ecx
    movl  $1, %r8d
    movq  $-1, %r10
rw_dimension:
    cmpq  @output_rank, %rcx
    je    rw_left
    movq  %rcx, %rdx
    shlq  $4, %rdx
    movq  OUTPUT_AXIS(%rbx,%rdx), %r9
    movq  OUTPUT_VALUE(%rbx,%rdx), %rax
    cmpq  $FIXED, %r9
    je    rw_known
    jl    rw_rest
    cmpq  =rank, %r9
    jae   rw_wrong
    movq  (%rsi,%r9,8), %rax
rw_known:
    movq  %rax, (%rdi,%rcx,8)
    imulq %rax, %r8
    incq  %rcx
    jmp   rw_dimension
rw_rest:
    movq  %rcx, %r10
    incq  %rcx
    jmp   rw_dimension
rw_left:
    movq  =batch, %r9
    imulq =count, %r9
    imulq @channels_out, %r9
    testq %r10, %r10
    js    rw_complete
    xorl  %eax, %eax
    testq %r8, %r8
    jz    rw_empty
    xorl  %edx, %edx
    movq  %r9, %rax
    divq  %r8
rw_empty:
    movq  %rax, (%rdi,%r10,8)
    imulq %rax, %r8
rw_complete:
    cmpq  %r8, %r9
    jne   rw_wrong
"""

_OUTPUT = """
    movq  %r12, %rdi
    xorl  %esi, %esi
    leaq  =result, %rdx
    movq  @output_rank, %rcx
    leaq  =value, %r8
    !KernelContext_GetOutput
    movq  =value, %rdi
    leaq  =found, %rsi
    !GetTensorMutableData
    movq  =found, %rax
    @y_place <- %rax
"""

_INPUTS = """
    xorl  %r15d, %r15d                    # every input: check its element count, store its address
rw_next:
    movq  %r12, %rdi
    movq  %r15, %rsi
    leaq  =value, %rdx
    !KernelContext_GetInput
    movq  =value, %rdi
    leaq  =info, %rsi
    !GetTensorTypeAndShape
    movq  =info, %rdi
    leaq  =found, %rsi
    !GetTensorShapeElementCount
    movq  =info, %rdi
    call  *@ReleaseTensorTypeAndShapeInfo
    imulq $RULE, %r15, %rdx
    movq  RULE_PER_POSITION(%rbx,%rdx), %rax
    imulq =count, %rax
    addq  RULE_PER_IMAGE(%rbx,%rdx), %rax
    imulq =batch, %rax
    cmpq  =found, %rax
    jne   rw_wrong
    movq  =value, %rdi
    leaq  =found, %rsi
    !GetTensorMutableData
    imulq $RULE, %r15, %rdx
    movq  RULE_PLACE(%rbx,%rdx), %rcx
    movq  =found, %rax
    movq  %rax, (%r13,%rcx)
    incq  %r15
    cmpq  @inputs, %r15
    jb    rw_next
"""

_DIVIDE = """
    movq  =count, %rax                    # parts = positions / unit, from 1 to the most; none when empty
    imulq =batch, %rax
    testq %rax, %rax
    jz    rw_done
    xorl  %edx, %edx
    divq  @unit
    movl  $1, %ecx
    cmpq  %rcx, %rax
    cmovbq %rcx, %rax
    movq  @parts, %rcx
    cmpq  %rcx, %rax
    cmovaq %rcx, %rax
    movq  %rax, =parts
    @parts_place <- %rax
"""

_SCRATCH = """
    movq  $0, =slot                       # scratch of all parts: a free slot of the session's
    cmpq  $0, @scratch_size
    je    rw_run
    movq  @slots, %rdx
    movq  @slot_count, %r8
    movl  $1, %ecx
rw_try:
    testq %r8, %r8
    jz    rw_none
    xorl  %eax, %eax
    lock cmpxchgq %rcx, (%rdx)
    je    rw_taken
    addq  $SLOT, %rdx
    decq  %r8
    jmp   rw_try
rw_taken:
    movq  %rdx, =slot
    movq  SLOT_MEMORY(%rdx), %rax
    jmp   rw_aligned
rw_none:
    movq  @scratch_size, %rdx             # more calls than slots: from onnxruntime
    imulq =parts, %rdx
    ?borrow
rw_aligned:
    @scratch_place <- %rax
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

_RUN = """
rw_run:
    cmpq  $1, =parts
    jne   rw_parallel
    movq  %r13, %rdi
    xorl  %esi, %esi
    call  *@kernel
    xorl  %eax, %eax
    jmp   rw_release
rw_parallel:
    movq  %r12, %rdi
    movq  @kernel, %rsi
    movq  =parts, %rdx
    xorl  %ecx, %ecx
    movq  %r13, %r8
    call  *@KernelContext_ParallelFor
rw_release:
    movq  =slot, %rdx
    testq %rdx, %rdx
    jz    rw_leave
    movq  $0, (%rdx)
    jmp   rw_leave
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
    compute = (
        _ENTER,
        _TEMPLATE,
        _SHAPE,
        _POSITIONS,
        _RESULT,
        _OUTPUT,
        _INPUTS,
        _DIVIDE,
        _SCRATCH,
        _RUN,
        _LEAVE,
    )
    convolve = _written((_ENTER, *CONVOLVE, _LEAVE), "convolve", left="lock decq @running")
    return exported + _ANSWERS + _written(compute) + convolve


def _written(parts: Sequence[str], name: str = "compute", left: str = "") -> str:
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
