"""Assembly errors are exceptions that show the line, in this process and where LLVM would end it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest

from regweave.devices.cpu import assemble, assembler, llvm, load_text, objects, symbols
from regweave.errors import AssemblyError

HEAD = ".intel_syntax noprefix\n.globl f\nf:\n"
BAD = {
    "vfmadd231pz zmm0, zmm1, zmm2": "invalid instruction mnemonic 'vfmadd231pz'",
    "vaddps zmm0, zmm1, eax": "invalid operand for instruction",
    "mov rax, [rbx+rcx*3]": "scale factor in address must be 1, 2, 4 or 8",
    "f:": "symbol 'f' is already defined",
    "vaddps zmm0, zmm1": "invalid operand for instruction",
    ".balign 3": "alignment must be a power of 2",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_an_error_that_shows_it(line):
    with pytest.raises(AssemblyError) as caught:
        assemble(f"{HEAD}ret\n{line}\nret\n", name="kernel")
    assert caught.value.what == f"{BAD[line]}: `{line}`"
    assert caught.value.where == "kernel, line 5"


def test_the_first_of_several_errors_is_shown():
    with pytest.raises(AssemblyError, match=r"'foo': `foo` \(and 2 more\)"):
        assemble(f"{HEAD}foo\nbar\nbaz\n")
    assert len(assemble(f"{HEAD}ret\n")) > 100, "the next text is not tainted by the last one's errors"


def test_errors_without_a_line_are_shown_too():
    with pytest.raises(AssemblyError, match=r"unmatched \.ifs"):
        assemble(f"{HEAD}.if 1\n")


def test_undefined_symbols_are_errors_at_loading():
    with pytest.raises(AssemblyError, match="f refers to nowhere, there, which it does not define"):
        load_text(f"{HEAD}call nowhere\njmp there\njmp nowhere\n", ("f",))


@pytest.mark.parametrize("handled", [True, False], ids=["handler", "no handler"])
def test_no_bad_line_ends_the_process(handled):
    """Also where the handler cannot be installed: then a child process takes the fall."""
    code = f"""
from regweave.devices.cpu import assembler, load_text
from regweave.errors import AssemblyError
if not {handled}:
    assembler.open_assembler = lambda: None
head = {HEAD!r}
for line in {list(BAD)!r}:
    try:
        load_text(head + line + "\\nret\\n", ("f",))
        print("loaded", line)
    except AssemblyError as error:
        print(error.what)
try:
    load_text(head + "call nowhere\\n", ("f",))
except AssemblyError as error:
    print(error.what)
print(load_text(head + "ret\\n", ("f",)).address("f") != 0)
"""
    if not handled:
        code = code.replace(repr(list(BAD)), repr(list(BAD)[:2]))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    shown = [f"{BAD[line]}: `{line}`" for line in (BAD if handled else list(BAD)[:2])]
    assert run.stdout.splitlines() == [*shown, "f refers to nowhere, which it does not define", "True"]


def test_the_unguarded_assembler_does_end_the_process():
    """Why all this is needed; if LLVM ever stops doing it, the child process can go."""
    code = f"""
from regweave.devices.cpu import assembler
assembler.emit_unguarded({HEAD + "foo"!r})
print("alive")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "alive" not in run.stdout
    assert "invalid instruction mnemonic" in run.stderr


def test_threads_do_not_mix_their_errors():
    wrong: list[object] = []

    def work(number: int) -> None:
        for _ in range(20):
            try:
                assemble(f"{HEAD}mnemonic{number}\n")
            except AssemblyError as error:
                if f"mnemonic{number}" not in error.what:
                    wrong.append(error)
            assemble(f"{HEAD}ret\n")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_both_ways_to_llvm_give_the_same_code():
    text = f"{HEAD}vaddps zmm0, zmm1, zmmword ptr [rip+c]\n.balign 32\nret\n.section .rodata\nc: .float 1\n"
    images = [objects.place(way(text)) for way in (assemble, assembler.emit_unguarded)]
    assert images[0].memory[:] == images[1].memory[:]


def test_a_library_without_symbols_gives_no_assembler(tmp_path, monkeypatch):
    text = tmp_path / "text.so"
    text.write_bytes(b"not an object file at all")
    assert symbols.symbol_values(str(text), ("a",)) == {}
    for path in (str(text), None):
        monkeypatch.setattr(llvm, "library_path", lambda path=path: path)
        assert llvm.open_assembler() is None
    assert assembler.assemble is assemble


def test_symbols_in_order_and_out_of_order_are_found():
    """Against the library's own addresses; names that no symbol has are left out."""
    path = llvm.library_path()
    assert path is not None
    library = ctypes.CDLL(path)
    exported = ("LLVMPY_InitializeNativeTarget", "LLVMPY_GetGlobalContext", "LLVMPY_AddSymbol")
    place = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in exported}
    for dynamic in (False, True):
        values = symbols.symbol_values(path, (*exported, "LLVMPY_Nowhere"), exported=dynamic)
        assert sorted(values) == sorted(exported)
        assert len({place[name] - values[name] for name in exported}) == 1


def test_functions_come_from_the_symbol_table_only_if_they_are_not_exported():
    path = llvm.library_path()
    assert path is not None
    library = ctypes.CDLL(path)
    anchor = "LLVMPY_GetGlobalContext"
    known = ctypes.cast(getattr(library, anchor), ctypes.c_void_p).value
    assert symbols.function_addresses(library, (anchor,), "none") == {anchor: known}
    assert symbols.function_addresses(library, (anchor, "LLVMNowhere"), anchor) is None
    assert symbols.function_addresses(library, ("LLVMContextCreate",), "none") is None
    assert symbols.function_addresses(library, ("LLVMContextCreate",), anchor)
