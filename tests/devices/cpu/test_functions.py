"""Loaded functions: calls, constants, lifetimes, memory rights, machines that cannot run it."""

from __future__ import annotations

import ctypes
import gc
import struct
import types
import weakref

import pytest

from regweave.assembly import Builder
from regweave.devices.cpu import Function, Library, load, load_text, objects
from regweave.errors import AssemblyError, DeviceError, InputError
from regweave.machines.x86 import AVX2, AVX512, supports

pytestmark = pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")
HEAD = ".intel_syntax noprefix\n.text\n"


def sum_of(count):
    b = Builder(AVX2, name="sum_of", arguments=tuple(f"a{i}" for i in range(count)))
    total = b.general("total", pin="rax")
    b.emit("mov", total, 0)
    for i in range(count):
        b.emit("add", total, f"a{i}")
    return load(b.finish())


def test_arguments_and_the_result():
    assert sum_of(6)(1, 2, 3, 4, 5, -20) == -5
    assert sum_of(0)() == 0
    assert sum_of(1).typed(ctypes.c_uint8, ctypes.c_uint64)(0x1FF) == 0xFF


def test_what_a_function_tells():
    function = sum_of(2)
    assert isinstance(function, Function)
    assert function.name == "sum_of"
    assert function.address % 64 == 0
    assert 5 < function.code_bytes < 50
    assert 0 < function.seconds < 5
    assert function.listing is not None


def test_a_typed_callable_keeps_the_code_alive():
    typed = sum_of(2).typed(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    gc.collect()
    assert typed(40, 2) == 42


def test_memory_goes_with_the_function(page_rights):
    function = sum_of(1)
    gone = weakref.ref(function.image)
    address = function.address
    assert page_rights(address) == "r-xp"
    del function
    gc.collect()
    assert gone() is None


def test_no_page_is_writable_and_executable(page_rights):
    b = Builder(AVX2, name="constants", arguments=("out",))
    v = b.vector()
    b.emit("broadcast", v, b.constant(2.5))
    b.emit("store", b.at("out"), v)
    function = load(b.finish())
    out = (ctypes.c_float * 8)()
    function(ctypes.addressof(out))
    assert list(out) == [2.5] * 8
    assert page_rights(function.address) == "r-xp"
    assert page_rights(function.address + 4096) == "r--p"


def test_a_library_of_several_functions():
    text = f"{HEAD}.globl one\none: mov eax, 1\nret\n.globl two\ntwo: call one\nadd eax, eax\nret\n"
    library = load_text(text, ("one", "two"))
    assert isinstance(library, Library)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(library.address("two"))() == 2
    with pytest.raises(InputError, match="nearest: two"):
        library.address("twoo")
    with pytest.raises(AssemblyError, match=r"does not define 'three'.*\.globl three"):
        load_text(text, ("one", "three"))


def test_references_of_all_kinds():
    text = f"""{HEAD}.globl f
f: lea rdx, [rip+table]
mov rax, [rdx]
mov eax, [rax]
add eax, [rip+word]
ret
.section .rodata
.balign 8
table: .quad word
word: .long 21
"""
    assert ctypes.CFUNCTYPE(ctypes.c_int)(load_text(text, ("f",)).address("f"))() == 42


def test_absolute_references_are_refused():
    with pytest.raises(AssemblyError, match="relative to rip"):
        load_text(f"{HEAD}.globl f\nf: mov eax, [word]\nret\nword: .long 1\n", ("f",))


def test_code_without_a_section_is_refused():
    with pytest.raises(AssemblyError, match="has no code"):
        load_text(HEAD, ())


def test_a_processor_without_the_machine_is_refused_before_anything_runs(monkeypatch):
    b = Builder(AVX512, name="wide")
    b.emit("zero", b.vector())
    listing = b.finish()
    monkeypatch.setattr("regweave.devices.cpu.functions.supports", lambda machine: False)
    with pytest.raises(DeviceError, match=r"cannot run avx512 code.*portable"):
        load(listing)


def test_an_operating_system_that_refuses_is_a_device_error(monkeypatch):
    monkeypatch.setattr(objects, "_libc", lambda: types.SimpleNamespace(mprotect=lambda *arguments: -1))
    with pytest.raises(DeviceError, match="refuses executable memory"):
        load_text(f"{HEAD}.globl f\nf: ret\n", ("f",))


def test_c_calls_from_a_stub():
    """A native stub calls back into C: arguments in order, an aligned stack, values kept across the call."""
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    def callback(a, b, pointer):
        seen.append((a, b, ctypes.string_at(pointer, 8)))
        return a * b

    b = Builder(AVX2, name="stub", arguments=("function", "x", "y"))
    function, x, y = b.general("f"), b.general("x'"), b.general("y'")
    for copy, argument in ((function, "function"), (x, "x"), (y, "y")):
        b.emit("mov", copy, argument)
    slot = b.stack(8)
    b.emit("mov", slot, y)
    product = b.general("product")
    b.call_pointer(function, y, x, slot, result=product)
    b.emit("add", x, product)
    b.call_pointer(function, x, 3, slot, result=product)
    back = b.general("back", pin="rax")
    b.emit("lea", back, b.at(product, index=y, scale=8))
    stub = load(b.finish())
    assert stub(ctypes.cast(callback, ctypes.c_void_p), 5, 7) == (5 + 35) * 3 + 56
    assert seen == [(7, 5, struct.pack("<q", 7)), (40, 3, struct.pack("<q", 7))]
