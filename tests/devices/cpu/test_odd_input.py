"""What must not end or hang the process: strange text, wrong calls, forks, a careless caller's registers."""

import ctypes
import os
import signal
import threading

import numpy as np
import pytest

from regweave.assembly import Builder
from regweave.devices import cpu
from regweave.errors import AssemblyError, DeviceError, InputError
from regweave.machines.x86 import AVX2, AVX512, supports

pytestmark = pytest.mark.skipif(not supports(AVX2), reason="this processor has no AVX2")
HEAD = ".intel_syntax noprefix\n.globl f\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("f: ret\0", r"holds the character '\\x00'"),
        ("f: ret # \udc80", r"holds the character '\\udc80'"),
        (".data\nv: .long 1\n.text\nf: mov dword ptr [rip+v], 5\nret", "wants writable data"),
        (".p2align 16\nf: ret", "wants an alignment of 65536 bytes; expected .* 4096"),
        ("# one\x0btwo\u2028three\nf: bad", "`f: bad`"),
        ("g: ret", "does not define 'f'"),
        ("", "has no code"),
    ],
)
def test_text_that_cannot_run(text, complaint):
    with pytest.raises(AssemblyError, match=complaint):
        cpu.load_text(HEAD + text, ("f",))


def adder(machine=AVX2):
    b = Builder(machine, name="adder", arguments=("x", "y"))
    b.emit("lea", b.variable("result", "general", pin="rax"), b.at("x", index="y"))
    return b.finish()


def test_calls_with_wrong_arguments():
    add = cpu.load(adder())
    assert add(2, 3) == 5
    with pytest.raises(InputError, match=r"adder is called with 1 arguments; expected \(x, y\)"):
        add(2)
    with pytest.raises(InputError, match="expected ints and ctypes pointers"):
        add(np.zeros(3), 1)


def test_code_for_another_processor_is_refused(monkeypatch):
    listing = adder(AVX512)
    monkeypatch.setattr("regweave.machines.x86.features.processor_features", lambda: frozenset(AVX2.features))
    with pytest.raises(DeviceError, match="this processor cannot run avx512 code"):
        cpu.load(listing)
    assert cpu.load(adder(AVX2))(1, 1) == 2


def test_a_fork_waits_for_the_assembler():
    listing, stop = adder(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            cpu.load(listing)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                os._exit(cpu.load(listing)(3, 4) != 7)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("machine", [m for m in (AVX512, AVX2) if supports(m)], ids=lambda m: m.name)
def test_what_a_caller_keeps_is_kept(machine):
    """Many registers, a C call and a stack: callee-saved registers survive, the call is aligned."""
    b = Builder(machine, name="busy", arguments=("callee", "out"))
    callee, out = b.general("callee'"), b.general("out'")
    b.emit("mov", callee, "callee")
    b.emit("mov", out, "out")
    slot = b.stack(8)
    kept = [b.general(f"g{i}") for i in range(12)]
    for number, one in enumerate(kept):
        b.emit("mov", one, number)
    for one in kept[1:]:
        b.emit("add", kept[0], one)
    b.emit("mov", slot, kept[0])
    b.call_pointer(callee, out)
    b.emit("mov", kept[0], slot)
    b.emit("mov", b.at(out), kept[0])
    busy = cpu.load(b.finish())
    saved = ("rbx", "rbp", "r12", "r13", "r14", "r15")
    # f(busy, callee, out): 0 if the saved registers and the stack pointer are back; g(out): out[1] = rsp & 15
    lines = [f"push {r}" for r in saved] + ["sub rsp, 8"]
    lines += [f"mov {r}, {1000 + i}" for i, r in enumerate(saved)]
    lines += ["mov rax, rdi", "mov rdi, rsi", "mov rsi, rdx", "mov [rsp], rsp", "call rax", "mov rax, rsp"]
    lines += ["sub rax, [rsp]"]
    lines += [line for i, r in enumerate(saved) for line in (f"sub {r}, {1000 + i}", f"or rax, {r}")]
    lines += ["add rsp, 8"] + [f"pop {r}" for r in reversed(saved)] + ["ret"]
    callee_lines = ["mov rax, rsp", "and rax, 15", "mov [rdi+8], rax", "mov eax, -1"]
    callee_lines += [f"mov {r}, rax" for r in ("rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")] + [
        "ret"
    ]
    text = "f:\n" + "\n".join(lines) + "\n.globl g\ng:\n" + "\n".join(callee_lines) + "\n"
    library = cpu.load_text(HEAD + text, ("f", "g"))
    caller = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(library.address("f"))
    out_words = np.full(2, -1, np.int64)
    assert caller(busy.address, library.address("g"), out_words.ctypes.data) == 0
    assert out_words.tolist() == [sum(range(12)), 8]


def test_buffers_of_odd_shapes():
    assert cpu.aligned_empty(np.int64(3)).shape == (3,)
    assert cpu.aligned_empty((0, 4)).shape == (0, 4)
    with pytest.raises(InputError, match="an array of shape"):
        cpu.aligned_empty((-1, 3))
