"""The native side of operators that count their positions at each call, in the notation of `glue`.

    a copy of the arguments; the shape of input 0; batch and count from it
    the output's shape by its rules, its memory; every input: its number of elements, its address
    parts; scratch memory from a slot of the session's; run

Of images the batch is what stands before the axis of the channels and the count what is behind it; of rows
the count is all elements over the channels.
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

COMPUTE = (_TEMPLATE, _SHAPE, _POSITIONS, _RESULT, _OUTPUT, _INPUTS, _DIVIDE, _SCRATCH, _RUN)
"""In this order; what is before and behind them is in `glue`."""
