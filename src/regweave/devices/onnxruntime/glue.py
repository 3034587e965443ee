"""The native side of a custom operator: from onnxruntime's call to our kernel without passing through Python.

onnxruntime calls `compute(block, context)`. The glue asks it for the input's shape, checks it against the
plan, gets the addresses of inputs, output and scratch, writes them into a copy of the kernel's arguments on
the stack, and lets onnxruntime's own threads run `kernel(arguments, part)` for every part:

    dimensions [2, 96, 40, 40], channels second   ->   batch 2, count 1600, arguments {x, y, pitches, count,
    batch, ...}

It costs about a microsecond a call; the same through ctypes callbacks costs ten to twenty, as much as a small
convolution. What differs between operators is data in their `OperatorBlock`, so one listing serves all.

Registers are fixed by hand, because every call clobbers the rest: rbx the block, r12 the context, r13 the
arguments, r14 the address of the channel dimension, r15 the input's number; rbp the frame. A non-null status
from onnxruntime is returned as it is.
"""

from __future__ import annotations

from regweave.devices.onnxruntime.blocks import MOST_DIMENSIONS, InputRule, OperatorBlock, offset

ENTRIES = ("rw_name", "rw_inputs", "rw_zero", "rw_one", "rw_any", "rw_create", "rw_compute")
"""The listing's functions; `rw_compute` is the one above, the others answer onnxruntime's questions."""

_FRAME = {"value": -48, "info": -56, "rank": -64, "batch": -72, "count": -80, "found": -88, "parts": -96}
_DIMENSIONS = -96 - 8 * MOST_DIMENSIONS
_FRAME_SIZE = -_DIMENSIONS - 40
_INVALID_ARGUMENT = 2


def glue_text() -> str:
    """The listing, in AT&T syntax for x86-64; independent of any vector extension."""
    lines = [f".globl {name}" for name in ENTRIES]
    lines += [".p2align 4"]
    lines += ["rw_name:", f"movq {offset('name')}(%rdi), %rax", "ret"]
    lines += ["rw_inputs:", f"movq {offset('inputs')}(%rdi), %rax", "ret"]
    lines += ["rw_zero:", "xorl %eax, %eax", "ret", "rw_one:", "movl $1, %eax", "ret"]
    lines += ["rw_any:", "movl $0x7fffffff, %eax", "ret"]
    lines += ["rw_create:", "movq %rdi, (%rcx)", "xorl %eax, %eax", "ret", ".p2align 4", "rw_compute:"]
    for step in (_enter, _shape, _positions, _output, _inputs, _divide, _scratch, _run, _leave):
        lines += step()
    return "\n".join(lines) + "\n"


def _local(name: str) -> str:
    return f"{_FRAME[name]}(%rbp)"


def _block(field: str) -> str:
    return f"{offset(field)}(%rbx)"


def _call(function: str) -> list[str]:
    return [f"call *{_block(function)}", "testq %rax, %rax", "jnz rw_leave"]


def _put(register: str, place: str) -> list[str]:
    """arguments[place] = register."""
    return [f"movq {_block(place)}, %rcx", f"movq {register}, (%r13,%rcx)"]


def _enter() -> list[str]:
    """Save registers; copy the template of the arguments to the stack."""
    saved = [f"pushq %{name}" for name in ("rbx", "r12", "r13", "r14", "r15")]
    return [
        "pushq %rbp", "movq %rsp, %rbp", *saved, "movq %rdi, %rbx", "movq %rsi, %r12",
        f"subq ${_FRAME_SIZE}, %rsp", f"subq {_block('arguments_size')}, %rsp", "andq $-64, %rsp",
        "movq %rsp, %r13", "movq %rsp, %rdi", f"movq {_block('arguments')}, %rsi",
        f"movq {_block('arguments_size')}, %rcx", "cld", "rep movsb",
    ]  # fmt: skip


def _shape() -> list[str]:
    """dimensions and rank of input 0."""
    return [
        "movq %r12, %rdi", "xorl %esi, %esi", f"leaq {_local('value')}, %rdx",
        *_call("KernelContext_GetInput"),
        f"movq {_local('value')}, %rdi", f"leaq {_local('info')}, %rsi", *_call("GetTensorTypeAndShape"),
        f"movq {_local('info')}, %rdi", f"leaq {_local('rank')}, %rsi", *_call("GetDimensionsCount"),
        f"cmpq ${MOST_DIMENSIONS}, {_local('rank')}", "ja rw_wrong_rank",
        f"movq {_local('info')}, %rdi", f"leaq {_DIMENSIONS}(%rbp), %rsi", f"movq {_local('rank')}, %rdx",
        *_call("GetDimensions"),
        f"movq {_local('info')}, %rdi", f"call *{_block('ReleaseTensorTypeAndShapeInfo')}",
    ]  # fmt: skip


def _positions() -> list[str]:
    """batch and count from the dimensions; r14 = address of the channel dimension, checked."""
    return [
        f"leaq {_DIMENSIONS}(%rbp), %rsi", f"movq {_local('rank')}, %rcx", "movl $1, %eax", "movl $1, %edx",
        f"cmpq $0, {_block('channels_last')}", "je rw_second",
        "testq %rcx, %rcx", "jz rw_wrong", "decq %rcx", "leaq (%rsi,%rcx,8), %r14", "jmp rw_product",
        "rw_second:", "cmpq $2, %rcx", "jb rw_wrong", "movq (%rsi), %rdx", "leaq 8(%rsi), %r14",
        "addq $16, %rsi", "subq $2, %rcx",
        "rw_product:", "testq %rcx, %rcx", "jz rw_counted", "imulq -8(%rsi,%rcx,8), %rax", "decq %rcx",
        "jmp rw_product",
        "rw_counted:", f"movq %rax, {_local('count')}", f"movq %rdx, {_local('batch')}",
        *_put("%rax", "count_place"), *_put("%rdx", "batch_place"),
        f"movq {_block('channels_in')}, %rax", "cmpq %rax, (%r14)", "jne rw_wrong",
        *_pitch("x"), *_pitch("y"),
    ]  # fmt: skip


def _pitch(which: str) -> list[str]:
    return [
        f"movq {_block(which + '_pitch_count')}, %rax", f"imulq {_local('count')}, %rax",
        f"addq {_block(which + '_pitch_fixed')}, %rax", *_put("%rax", f"{which}_pitch_place"),
    ]  # fmt: skip


def _output() -> list[str]:
    """Output 0 with the input's dimensions but its own channels."""
    return [
        f"movq {_block('channels_out')}, %rax", "movq %rax, (%r14)",
        "movq %r12, %rdi", "xorl %esi, %esi", f"leaq {_DIMENSIONS}(%rbp), %rdx", f"movq {_local('rank')},
        %rcx",
        f"leaq {_local('value')}, %r8", *_call("KernelContext_GetOutput"),
        f"movq {_local('value')}, %rdi", f"leaq {_local('found')}, %rsi", *_call("GetTensorMutableData"),
        f"movq {_local('found')}, %rax", *_put("%rax", "y_place"),
    ]  # fmt: skip


def _inputs() -> list[str]:
    """Every input's element count is checked, its address goes to its place."""
    rule = offset("rules")
    place, position, image = (
        rule + getattr(InputRule, name).offset for name in ("place", "per_position", "per_image")
    )
    size = _rule_size()
    return [
        "xorl %r15d, %r15d",
        "rw_next:",
        "movq %r12, %rdi", "movq %r15, %rsi", f"leaq {_local('value')}, %rdx",
        *_call("KernelContext_GetInput"),
        f"movq {_local('value')}, %rdi", f"leaq {_local('info')}, %rsi", *_call("GetTensorTypeAndShape"),
        f"movq {_local('info')}, %rdi", f"leaq {_local('found')}, %rsi", *_call("GetTensorShapeElementCount"),
        f"movq {_local('info')}, %rdi", f"call *{_block('ReleaseTensorTypeAndShapeInfo')}",
        f"imulq ${size}, %r15, %rdx",
        f"movq {position}(%rbx,%rdx), %rax", f"imulq {_local('count')}, %rax", f"addq {image}(%rbx,%rdx),
        %rax",
        f"imulq {_local('batch')}, %rax", f"cmpq {_local('found')}, %rax", "jne rw_wrong",
        f"movq {_local('value')}, %rdi", f"leaq {_local('found')}, %rsi", *_call("GetTensorMutableData"),
        f"imulq ${size}, %r15, %rdx", f"movq {place}(%rbx,%rdx), %rcx", f"movq {_local('found')}, %rax",
        "movq %rax, (%r13,%rcx)",
        "incq %r15", f"cmpq {_block('inputs')}, %r15", "jb rw_next",
    ]  # fmt: skip


def _rule_size() -> int:
    import ctypes

    return ctypes.sizeof(InputRule)


def _divide() -> list[str]:
    """parts = positions / unit, between 1 and the most; nothing to do for an empty tensor."""
    return [
        f"movq {_local('count')}, %rax", f"imulq {_local('batch')}, %rax", "testq %rax, %rax", "jz rw_done",
        "xorl %edx, %edx", f"divq {_block('unit')}", "movl $1, %ecx", "cmpq %rcx, %rax", "cmovbq %rcx, %rax",
        f"movq {_block('parts')}, %rcx", "cmpq %rcx, %rax", "cmovaq %rcx, %rax", f"movq %rax,
        {_local('parts')}",
        *_put("%rax", "parts_place"),
    ]  # fmt: skip


def _scratch() -> list[str]:
    """Scratch of all parts from onnxruntime's arena, aligned to 64 bytes; it is freed after this call."""
    return [
        f"movq {_block('scratch_size')}, %rdx", "testq %rdx, %rdx", "jz rw_run",
        f"imulq {_local('parts')}, %rdx", "addq $63, %rdx", "movq %r12, %rdi", f"movq {_block('memory')},
        %rsi",
        f"leaq {_local('found')}, %rcx", *_call("KernelContext_GetScratchBuffer"),
        f"movq {_local('found')}, %rax", "addq $63, %rax", "andq $-64, %rax", *_put("%rax", "scratch_place"),
    ]  # fmt: skip


def _run() -> list[str]:
    """kernel(arguments, part) for every part: here for one, on onnxruntime's threads for more."""
    return [
        "rw_run:",
        f"cmpq $1, {_local('parts')}", "jne rw_parallel",
        "movq %r13, %rdi", "xorl %esi, %esi", f"call *{_block('kernel')}",
        "rw_done:", "xorl %eax, %eax", "jmp rw_leave",
        "rw_parallel:", "movq %r12, %rdi", f"movq {_block('kernel')}, %rsi", f"movq {_local('parts')}, %rdx",
        "xorl %ecx, %ecx", "movq %r13, %r8", f"call *{_block('KernelContext_ParallelFor')}", "jmp rw_leave",
    ]  # fmt: skip


def _leave() -> list[str]:
    """The two faults of a shape, and the way out with the status in rax."""
    restored = [f"popq %{name}" for name in ("r15", "r14", "r13", "r12", "rbx", "rbp")]
    return [
        "rw_wrong_rank:", f"movq {_local('info')}, %rdi", f"call *{_block('ReleaseTensorTypeAndShapeInfo')}",
        "rw_wrong:", f"movl ${_INVALID_ARGUMENT}, %edi", f"movq {_block('shape_words')}, %rsi",
        f"call *{_block('CreateStatus')}",
        "rw_leave:", "leaq -40(%rbp), %rsp", *restored, "ret",
    ]  # fmt: skip


assert OperatorBlock.table.offset == 0, "callbacks that get the operator's address get the block's"
