"""The native side of operators that are prepared by size, in the notation of `glue`; r14 is the ImageSize.

find the input's shape among those prepared; for a new one call `prepare`
output, scratch, addresses into a copy of the arguments; run; look at the flags, and run the fallback
"""

_FIND = """
    cmpq  $RANK, =rank
    jne   rw_wrong
    movq  =dimensions, %r8
    movq  8+=dimensions, %r9
    movq  16+=dimensions, %r10
    movq  24+=dimensions, %r11
    movq  @sizes, %rdx
    movq  @size_count, %rcx
rw_size:
    testq %rcx, %rcx
    jz    rw_new
    movq  (%rdx), %r14
    addq  $8, %rdx
    decq  %rcx
    cmpq  %r11, 24(%r14)
    jne   rw_size
    cmpq  %r10, 16(%r14)
    jne   rw_size
    cmpq  %r9, 8(%r14)
    jne   rw_size
    cmpq  %r8, (%r14)
    jne   rw_size
    jmp   rw_found
rw_new:
    leaq  =dimensions, %rdi
    call  *@prepare
    testq %rax, %rax
    jz    rw_wrong
    movq  %rax, %r14
rw_found:
    movq  %r12, %rdi
    xorl  %esi, %esi
    leaq  OUT_DIMS(%r14), %rdx
    movl  $RANK, %ecx
    leaq  =value, %r8
    !KernelContext_GetOutput
    movq  =value, %rdi
    leaq  =batch, %rsi
    !GetTensorMutableData
    movq  %r12, %rdi
    xorl  %esi, %esi
    leaq  =value, %rdx
    !KernelContext_GetInput
    movq  =value, %rdi
    leaq  =count, %rsi
    !GetTensorMutableData
    cmpq  $0, &parts                      # an empty result
    je    rw_done
"""

_START = """
rw_start:
    movq  %r13, %rdi
    movq  &arguments, %rsi
    movq  @arguments_size, %rcx
    cld
    rep movsb
    movq  =count, %rax
    movq  &x_place, %rcx
    movq  %rax, (%r13,%rcx)
    movq  =batch, %rax
    movq  &y_place, %rcx
    movq  %rax, (%r13,%rcx)
    movq  $0, =slot                       # scratch: this size's own, or onnxruntime's where that is in use
    movl  $1, %ecx
    xorl  %eax, %eax
    lock cmpxchgq %rcx, FREE(%r14)
    jne   rw_none
    leaq  FREE(%r14), %rax
    movq  %rax, =slot
    movq  OWN_MEMORY(%r14), %rax
    jmp   rw_aligned
rw_none:
    movq  &scratch_size, %rdx
    ?borrow
rw_aligned:
    movq  %rax, %r15
    movq  &flags_place, %rcx
    movq  %rax, (%r13,%rcx)
    addq  &strips_offset, %rax
    movq  &scratch_place, %rcx
    movq  %rax, (%r13,%rcx)
"""

_RUN = """
    movq  $0, =value
    cmpq  $1, &parts
    jne   rw_parallel
    movq  %r13, %rdi
    xorl  %esi, %esi
    call  *&kernel
    jmp   rw_ran
rw_parallel:
    movq  %r12, %rdi
    movq  &kernel, %rsi
    movq  &parts, %rdx
    xorl  %ecx, %ecx
    movq  %r13, %r8
    call  *@KernelContext_ParallelFor
    movq  %rax, =value
rw_ran:
    movq  =value, %rax
    movl  $1, %r9d                        # r9: the result may stay
    cmpq  $0, &fallback
    je    rw_free
    testq %rax, %rax
    jnz   rw_free
    movq  &flags_size, %rcx
rw_flag:
    movl  -4(%r15,%rcx), %edx
    andl  $0x7fffffff, %edx
    cmpl  $0x7f800000, %edx
    ja    rw_refused
    subq  $4, %rcx
    jnz   rw_flag
    jmp   rw_free
rw_refused:
    xorl  %r9d, %r9d
rw_free:
    movq  =slot, %rdx
    testq %rdx, %rdx
    jz    rw_freed
    movq  $0, (%rdx)
rw_freed:
    testl %r9d, %r9d
    jnz   rw_leave
    movq  &fallback, %r14
    jmp   rw_start
"""

CONVOLVE = (_FIND, _START, _RUN)
"""The function's parts between those that it shares with other operators."""
