"""The native side of operators that are prepared by size, in the notation of `glue`.

find the inputs' shapes among those prepared; for new ones call `prepare`      r14: the ImageSize
outputs, and memory that the session's operators share
for each step: addresses into a copy of its arguments; run; look at the flags  r14: the StepBlock
where a flag is NaN: give the memory back, and begin anew with the size's `exact`
"""

_FIND = """
    lock incq @running
    xorl  %r15d, %r15d                    # dimensions and address of every input
rw_input:
    movq  %r12, %rdi
    movq  %r15, %rsi
    leaq  =value, %rdx
    !KernelContext_GetInput
    movq  =value, %rdi
    leaq  =info, %rsi
    !GetTensorTypeAndShape
    movq  =info, %rdi
    leaq  =rank, %rsi
    !GetDimensionsCount
    cmpq  $RANK, =rank
    ja    rw_wrong_rank
    imulq $IMAGE, %r15, %rsi
    leaq  IMAGES(%rbp,%rsi), %rsi
    movl  $RANK, %ecx
rw_absent:
    movq  $ABSENT, -8(%rsi,%rcx,8)
    decl  %ecx
    jnz   rw_absent
    movq  =info, %rdi
    movq  =rank, %rdx
    !GetDimensions
    movq  =info, %rdi
    call  *@ReleaseTensorTypeAndShapeInfo
    movq  =value, %rdi
    leaq  =found, %rsi
    !GetTensorMutableData
    movq  =found, %rax
    movq  %rax, PLACES(%rbp,%r15,8)
    incq  %r15
    cmpq  @inputs, %r15
    jb    rw_input
    movq  @sizes, %rdx
    movq  @size_count, %r8
    cld
rw_size:
    testq %r8, %r8
    jz    rw_new
    movq  (%rdx), %r14
    addq  $8, %rdx
    decq  %r8
    leaq  IMAGES(%rbp), %rsi
    movq  %r14, %rdi
    imulq $RANK, %r15, %rcx
    repe cmpsq
    jne   rw_size
    jmp   rw_found
rw_new:
    leaq  IMAGES(%rbp), %rdi
    xorl  %esi, %esi
    call  *@prepare
    testq %rax, %rax
    jz    rw_wrong
    movq  %rax, %r14
rw_found:
    movq  $1, &used
    movq  %r14, =size
    xorl  %r15d, %r15d
rw_output:
    imulq $RESULT, %r15, %rcx
    movq  %r12, %rdi
    movq  %r15, %rsi
    leaq  RESULT_DIMS(%r14,%rcx), %rdx
    movq  RESULT_RANK(%r14,%rcx), %rcx
    leaq  =value, %r8
    !KernelContext_GetOutput
    movq  =value, %rdi
    leaq  =found, %rsi
    !GetTensorMutableData
    movq  =found, %rax
    movq  %rax, OUTPUT(%rbp,%r15,8)
    incq  %r15
    cmpq  @outputs, %r15
    jb    rw_output
    cmpq  $0, &first                      # nothing but empty results
    je    rw_done
"""

_MEMORY = """
rw_memory:
    movq  $0, =slot                       # the slot's memory, or onnxruntime's where that is in use
    movl  $1, %ecx
    xorl  %eax, %eax
    movq  &slot, %rdx
    lock cmpxchgq %rcx, (%rdx)
    jne   rw_none
    movq  %rdx, =slot
    movq  SLOT_MEMORY(%rdx), %rax
    jmp   rw_aligned
rw_none:
    movq  &memory_size, %rdx
    ?borrow
rw_aligned:
    movq  %rax, WORK(%rbp)
    movq  &first, %r14
"""

_STEP = """
rw_step:
    movq  %r13, %rdi
    movq  ~arguments, %rsi
    movq  ~arguments_size, %rcx
    cld
    rep movsb
    movq  ~patches, %rsi
    movq  ~patch_count, %rcx
rw_patch:
    testq %rcx, %rcx
    jz    rw_patched
    movq  PATCH_SOURCE(%rsi), %rdx
    movq  PLACES(%rbp,%rdx,8), %rdx
    addq  PATCH_OFFSET(%rsi), %rdx
    movq  PATCH_PLACE(%rsi), %rax
    movq  %rdx, (%r13,%rax)
    addq  $PATCH, %rsi
    decq  %rcx
    jmp   rw_patch
rw_patched:
    movq  $0, =value
    cmpq  $1, ~parts
    jne   rw_parallel
    movq  %r13, %rdi
    xorl  %esi, %esi
    call  *~kernel
    jmp   rw_ran
rw_parallel:
    movq  %r12, %rdi
    movq  ~kernel, %rsi
    movq  ~parts, %rdx
    xorl  %ecx, %ecx
    movq  %r13, %r8
    call  *@KernelContext_ParallelFor
    movq  %rax, =value
rw_ran:
    cmpq  $0, =value
    jne   rw_free
    movq  WORK(%rbp), %rdx
    movq  ~flags_size, %rcx
    testq %rcx, %rcx
    jz    rw_following
rw_flag:
    movl  -4(%rdx,%rcx), %eax
    andl  $0x7fffffff, %eax
    cmpl  $0x7f800000, %eax
    ja    rw_refused
    subq  $4, %rcx
    jnz   rw_flag
rw_following:
    movq  ~next, %r14
    testq %r14, %r14
    jnz   rw_step
rw_free:
    movq  =slot, %rdx
    testq %rdx, %rdx
    jz    rw_freed
    movq  $0, (%rdx)
rw_freed:
    movq  =value, %rax
    jmp   rw_leave
rw_refused:
    movq  =slot, %rdx
    testq %rdx, %rdx
    jz    rw_returned
    movq  $0, (%rdx)
rw_returned:
    movq  =size, %r14
    movq  &exact, %rax
    testq %rax, %rax
    jnz   rw_exact
    leaq  IMAGES(%rbp), %rdi
    movl  $1, %esi
    call  *@prepare
    testq %rax, %rax
    jz    rw_wrong
rw_exact:
    movq  %rax, %r14
    jmp   rw_memory
"""

CONVOLVE = (_FIND, _MEMORY, _STEP)
"""The function's parts between those that it shares with other operators."""
