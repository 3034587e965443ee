"""Compiled kernels on disk: loaded by the next process, compiled by several, made anew where damaged."""

import zlib

import numpy as np
import pytest

from regweave import settings
from regweave.devices.cpu import store
from regweave.devices.opencl import build_kept, compile_all, kept
from regweave.errors import DeviceError

TEXT = "kernel void add(global uint *x) {{ x[get_global_id(0)] += {}u; }}"
FAULTY = "kernel void add("


@pytest.fixture
def folder(tmp_path, monkeypatch, device):
    monkeypatch.setenv(settings.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(settings.CODE_VARIABLE, "on")
    return tmp_path / "code"


@pytest.fixture
def compiled(monkeypatch):
    """The texts that this process compiled."""
    texts, true = [], kept.build

    def watched(text, **rest):
        texts.append(text)
        return true(text, **rest)

    monkeypatch.setattr(kept, "build", watched)
    return texts


def added(number, library):
    (found,) = library.kernel("add").run(np.arange(4, dtype=np.uint32), groups=1, items=4)
    return np.array_equal(found, np.arange(4) + number)


def test_the_second_build_compiles_nothing(folder, compiled):
    assert all(added(1, build_kept(TEXT.format(1))) for _ in range(3))
    assert added(2, build_kept(TEXT.format(2)))
    assert compiled == [TEXT.format(1), TEXT.format(2)]


def test_nothing_is_kept_where_that_is_off(folder, compiled, monkeypatch):
    monkeypatch.setenv(settings.CODE_VARIABLE, "off")
    said = []
    compile_all([TEXT.format(1)], say=said.append)
    assert [added(1, build_kept(TEXT.format(1))) for _ in range(2)] == [True, True]
    assert len(compiled) == 2
    assert not said
    assert not folder.exists()


@pytest.mark.parametrize("image", [b"nonsense", zlib.compress(b"nonsense"), b""])
def test_what_the_driver_does_not_load_is_compiled_anew(folder, compiled, image, device):
    build_kept(TEXT.format(1))
    store.keep(kept._key(TEXT.format(1), device), image)
    assert added(1, build_kept(TEXT.format(1)))
    assert added(1, build_kept(TEXT.format(1)))
    assert len(compiled) == 2


def test_several_processes_compile_what_is_missing(folder, compiled):
    build_kept(TEXT.format(0))
    said = []
    texts = [FAULTY, *(TEXT.format(number) for number in (0, 1, 2, 2, 3))]
    compile_all(texts, processes=2, say=said.append)
    assert compiled == [TEXT.format(0)]
    assert said[-1] == "4 of 4 texts compiled, 0 s left"
    assert all(added(number, build_kept(TEXT.format(number))) for number in range(4))
    assert len(compiled) == 1
    with pytest.raises(DeviceError, match="expected parameter declarator"):
        build_kept(FAULTY)
    compile_all(texts[1:], say=said.append)
    assert len(said) == 4  # nothing was left to do


def test_a_process_that_ends_leaves_its_text_to_others(folder, monkeypatch):
    monkeypatch.setattr(kept, "_CHILD", "import sys; sys.stdin.buffer.read(1)")
    said = []
    compile_all([TEXT.format(1), TEXT.format(2)], processes=2, say=said.append)
    assert not said
    assert added(1, build_kept(TEXT.format(1)))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s left"), (89, "89 s left"), (100, "2 min left"), (7800, "2 h 10 min left")]
)
def test_the_time_left_in_words(seconds, words):
    assert kept.time_left(seconds) == words
