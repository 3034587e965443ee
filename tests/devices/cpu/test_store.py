"""Machine code on disk: found again, never believed when damaged or foreign, bounded, shared by processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import warnings

import pytest

from regweave import settings
from regweave.assembly import Builder
from regweave.devices import cpu
from regweave.devices.cpu import functions, keys, llvm, store, symbols
from regweave.errors import AssemblyError, InputError
from regweave.machines.x86 import AVX2, supports

pytestmark = pytest.mark.skipif(not supports(AVX2), reason="needs AVX2")
HEAD = ".intel_syntax noprefix\n.globl f\n"
KEY = bytes(range(32))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of machine code, not made yet; LLVM is there, whose symbols would be kept too."""
    cpu.assemble(f"{HEAD}f: ret\n")
    monkeypatch.setenv(settings.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(settings.CODE_VARIABLE, "on")
    return tmp_path / "code"


@pytest.fixture
def assembled(monkeypatch):
    """The texts that were assembled."""
    texts = []
    true = cpu.assemble

    def watch(text, **rest):
        texts.append(text)
        return true(text, **rest)

    monkeypatch.setattr("regweave.devices.cpu.assembler.assemble", watch)
    return texts


def adder(number=1):
    b = Builder(AVX2, name="adder", arguments=("x",))
    b.emit("lea", b.general("result", pin="rax"), b.at("x", number))
    return b.finish()


def test_the_second_load_assembles_nothing(folder, assembled):
    assert [cpu.load(adder())(2) for _ in range(3)] == [3, 3, 3]
    assert len(assembled) == 1
    assert cpu.load(adder(5))(2) == 7
    assert len(assembled) == 2


def test_a_library_is_found_too(folder, assembled):
    text = HEAD + ".globl g\nf: mov eax, 1\nret\ng: mov eax, [rip+c]\nret\n.section .rodata\nc: .long 7\n"
    for _ in range(2):
        library = cpu.load_text(text, ("f", "g"))
        assert library.address("g") - library.address("f") == 6
    assert len(assembled) == 1


def test_the_folder_is_the_users_alone(folder):
    cpu.load(adder())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (entry,) = folder.iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_everything_counts_in_a_key(monkeypatch):
    found = {
        keys.text_key("ret", ("f",)),
        keys.text_key("ret\n", ("f",)),
        keys.text_key("ret", ("f", "g")),
        keys.text_key("ret", ("f",), ("avx2",)),
        keys.text_key("ret", ("f", "avx2")),
        keys.source_key("ret", "avx2"),
        keys.source_key("ret", "avx512"),
    }
    monkeypatch.setattr(keys, "_assembler", lambda: (1, 2))
    found |= {keys.text_key("ret", ("f",)), keys.source_key("ret", "avx2")}
    monkeypatch.setattr(keys, "FORMAT", 0)
    found |= {keys.text_key("ret", ("f",)), keys.source_key("ret", "avx2")}
    monkeypatch.setattr(keys, "_sources", lambda: "others")
    found.add(keys.source_key("ret", "avx2"))
    assert None not in found
    assert len(found) == 12
    monkeypatch.setattr(keys, "_assembler", lambda: None)
    assert keys.text_key("ret", ("f",)) is None
    assert keys.source_key("ret", "avx2") is None


def test_sources_that_changed_since_they_were_loaded_give_no_key(monkeypatch):
    assert keys._sources() is not None
    monkeypatch.setattr("regweave.lazy.LOADED_AT", 0)
    assert keys._sources.__wrapped__() is None
    monkeypatch.undo()
    monkeypatch.setattr(keys, "_FOLDERS", ("nowhere",))
    assert keys._sources.__wrapped__() is None


def test_sources_in_folders_inside_count(tmp_path, monkeypatch):
    deep = tmp_path / "kernels" / "convolution" / "deep"
    for folder in (*keys._ALONE, *keys._FOLDERS, deep):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr("regweave.lazy.__file__", str(tmp_path / "lazy.py"))
    monkeypatch.setattr("regweave.lazy.LOADED_AT", float("inf"))
    before = keys._sources.__wrapped__()
    (deep / "generator.py").write_text("")
    assert keys._sources.__wrapped__() != before


def test_sources_that_change_meanwhile_keep_nothing_under_their_structure(folder, monkeypatch):
    assert keys.sources_unchanged()
    monkeypatch.setattr(keys, "_FOLDERS", ("machines",))
    assert not keys.sources_unchanged()
    for count in (1, 2):
        made = []
        cpu.load_made(lambda made=made: made.append(1) or adder(), "adder 1", AVX2)
        assert made == [1]
        assert len(list(folder.iterdir())) == 1, f"the text alone, at load {count}"


def test_a_made_listing_is_written_only_if_its_code_is_missing(folder, assembled):
    made = []

    def make():
        made.append(1)
        return adder()

    first = cpu.load_made(make, "adder 1", AVX2)
    assert (first(2), len(made), len(assembled)) == (3, 1, 1)
    second = cpu.load_made(make, "adder 1", AVX2)
    assert (second.name, len(made), len(assembled)) == ("adder", 1, 1)
    assert second.listing.text == first.listing.text
    assert (second(2), len(made)) == (3, 2)
    cpu.load_made(make, "adder one", AVX2)
    assert (len(made), len(assembled)) == (3, 1), "the text is on disk under its own key"
    largest = max(folder.iterdir(), key=lambda entry: entry.stat().st_size)
    largest.unlink()
    assert cpu.load_made(make, "adder one", AVX2)(2) == 3
    assert (len(made), len(assembled)) == (4, 2), "the way to the code leads nowhere"


def test_a_bad_listing_is_never_kept(folder, assembled):
    for text in ("f: bad", "f: jmp nowhere", "g: ret", ".data\nf: ret", ""):
        for _ in range(2):
            with pytest.raises(AssemblyError):
                cpu.load_text(HEAD + text, ("f",))
    assert len(assembled) == 10
    assert not folder.exists()


def damaged(content):
    yield b""
    yield b"anything"
    for length in (7, 20, 40, len(content) - 1):
        yield content[:length]
    yield content + b"x"
    for place in (0, 8, 39, 40, len(content) // 2, len(content) - 1):
        yield content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_damaged_entries_are_made_anew(folder, assembled):
    cpu.load(adder())
    (entry,) = folder.iterdir()
    content = entry.read_bytes()
    for count, wrong in enumerate(damaged(content)):
        entry.write_bytes(wrong)
        assert cpu.load(adder())(2) == 3
        assert len(assembled) == count + 2
        assert entry.read_bytes() == content


def test_an_entry_under_another_name_is_not_believed(folder):
    store.keep(KEY, b"image")
    (entry,) = folder.iterdir()
    entry.rename(folder / (bytes(32).hex() + ".code"))
    assert store.find(bytes(32)) is None
    assert list(folder.iterdir()) == []


def test_links_and_files_that_others_can_write_are_not_read(folder, tmp_path):
    store.keep(KEY, b"image")
    (entry,) = folder.iterdir()
    entry.chmod(0o620)
    assert store.find(KEY) is None
    store.keep(KEY, b"image")
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert store.find(KEY) is None
    store.keep(KEY, b"image")
    assert store.find(KEY) == b"image"
    assert not entry.is_symlink()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_ignored_with_one_warning(folder, assembled, mode):
    cpu.load(adder())
    folder.chmod(mode)
    before = list(folder.iterdir())
    with pytest.warns(RuntimeWarning, match="can be written by others") as caught:
        assert [cpu.load(adder(2))(2), cpu.load(adder())(2)] == [4, 3]
    assert len(caught) == 1
    assert len(assembled) == 3
    assert list(folder.iterdir()) == before
    folder.chmod(0o755)
    assert cpu.load(adder())(2) == 3
    assert len(assembled) == 3


def test_a_folder_of_somebody_else_is_ignored(folder, assembled, monkeypatch):
    cpu.load(adder())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        cpu.load(adder())
    assert len(assembled) == 2


def test_a_folder_that_is_a_link_is_ignored(folder, assembled, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    assert [cpu.load(adder())(2) for _ in range(2)] == [3, 3]
    assert len(assembled) == 2
    assert list((tmp_path / "real").iterdir()) == []


def test_without_a_place_to_write_everything_works(folder, assembled, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(settings.CACHE_VARIABLE, str(tmp_path / "file" / "below"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [cpu.load(adder())(2) for _ in range(2)] == [3, 3]
    assert len(assembled) == 2
    monkeypatch.setenv(settings.CACHE_VARIABLE, str(tmp_path))

    def refuse(*arguments, **rest):
        raise PermissionError

    for function in ("mkdir", "open", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, refuse)
            store.keep(KEY, b"image")
            assert store.find(KEY) is None
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, content: 1)  # the disk is full
        store.keep(KEY, b"image")
    assert list(folder.iterdir()) == []


def test_no_home_is_no_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(settings.CODE_VARIABLE, "on")
    monkeypatch.setenv(settings.CACHE_VARIABLE, "~nobody_of_this_name/cache")
    assert settings.code_folder() is None
    assert store.used() == (None, 0, 0)
    with pytest.raises(InputError, match="no home folder"):
        settings.cache_folder()
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_turned_off(folder, assembled, monkeypatch):
    cpu.load(adder())
    monkeypatch.setenv(settings.CODE_VARIABLE, "off")
    cpu.load(adder())
    assert len(assembled) == 2
    assert store.used() == (None, 0, 0)
    monkeypatch.setenv(settings.CODE_VARIABLE, "of")
    with pytest.raises(InputError, match="unknown word 'of'"):
        cpu.load(adder())


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    monkeypatch.setattr(store, "MOST_BYTES", 10 * 4096)
    monkeypatch.setattr(store, "_LOOK_AFTER", 0)
    size = 4096 - len(store._MAGIC) - 32
    names = [bytes([number]) * 32 for number in range(13)]
    now = time.time()
    for number, name in enumerate(names):
        store.keep(name, bytes(size))
        os.utime(folder / (name.hex() + ".code"), (now - 1000 + number,) * 2)
    left = [number for number, name in enumerate(names) if store.find(name) is not None]
    assert left == [4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert store.used() == (str(folder), 9, 9 * 4096)


def test_a_folder_that_is_only_readable_serves(folder, monkeypatch):
    store.keep(KEY, b"image")
    (entry,) = folder.iterdir()
    os.utime(entry, (1e9, 1e9))

    def refuse(*arguments, **rest):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    assert store.find(KEY) == b"image"


def test_use_counts_and_what_was_left_behind_goes(folder, monkeypatch):
    monkeypatch.setattr(store, "_LOOK_AFTER", 0)
    store.keep(KEY, b"image")
    (entry,) = folder.iterdir()
    os.utime(entry, (1e9, 1e9))
    assert store.find(KEY) == b"image"
    assert time.time() - entry.stat().st_mtime < 60
    for name, age in (("old.new", 1e9), ("young.new", time.time())):
        (folder / name).touch()
        os.utime(folder / name, (age, age))
    store.keep(bytes(32), b"image")
    assert not (folder / "old.new").exists()
    assert (folder / "young.new").exists()
    assert store.used()[1:] == (2, 2 * 4096)


def test_symbols_are_looked_up_once(folder, monkeypatch):
    path, names = llvm.library_path(), ("LLVMContextCreate", "LLVMSetTarget")
    assert path is not None
    searched = []
    true = symbols.symbol_values

    def watch(*arguments, **rest):
        searched.append(1)
        return true(*arguments, **rest)

    monkeypatch.setattr(symbols, "symbol_values", watch)
    values = true(path, names)
    assert [symbols._kept_values(path, names) for _ in range(3)] == [values] * 3
    assert len(searched) == 1
    assert symbols._kept_values(path, names[:1]) == {names[0]: values[names[0]]}
    assert symbols._kept_values(path, ("LLVMNowhere",)) == {}
    assert len(list(folder.iterdir())) == 2


WRITERS = """
import sys
from regweave.devices.cpu import store
for turn in range(60):
    for number in range(4):
        key = bytes([number]) * 32
        store.keep(key, key * 2000)
        found = store.find(key)
        if found is None or found != key * 2000:
            sys.exit(f"turn {turn}: {found and found[:8]}")
"""


def test_several_processes_write_the_same_entries(folder):
    running = [subprocess.Popen([sys.executable, "-c", WRITERS]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 4


LOADER = """
import sys
import numpy as np
import regweave
ones = np.ones((32, 32), np.float32)
layers = regweave.cascade([ones, ones], None, "relu", threads=1)
assert (layers(ones) == 1024).all()
heavy = ["llvmlite", "onnx", "onnxruntime", "rich", "rustworkx", "platformdirs", "subprocess"]
mine = ["regweave.assembly", "regweave.kernels.chains.rows", "regweave.cascades.costs"]
print(*[name for name in [*heavy, *mine] if name in sys.modules])
"""


def test_a_process_that_finds_its_code_loads_neither_assembler_nor_generators(folder, monkeypatch):
    monkeypatch.delenv(settings.ISA_VARIABLE, raising=False)
    shown = [
        subprocess.run([sys.executable, "-c", LOADER], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert shown[0].split() == ["regweave.assembly", "regweave.kernels.chains.rows"]
    assert shown[1].split() == []


def test_code_that_is_found_stays_pages_without_write_rights(folder, page_rights):
    for _ in range(2):
        function = cpu.load(adder())
        assert isinstance(function, functions.Function)
        assert page_rights(function.address) == "r-xp"
