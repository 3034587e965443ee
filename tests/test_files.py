"""Files appear whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from regweave.errors import InputError
from regweave.files import file_failure, folder_failure, nearest_beside, path_of, read_file, write_file
from regweave.graphs import read_model


def test_a_file_is_replaced_with_its_mode_and_through_links(tmp_path):
    path, link = tmp_path / "a.h", tmp_path / "link.h"
    write_file(path, "one\n")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, "zwei: \u2192\n")
    assert link.is_symlink()
    assert path.read_bytes() == "zwei: \u2192\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.h", "link.h"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.h"
    write_file(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "after \ud800")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.h"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing.a\.h"):
        write_file(tmp_path / "missing" / "a.h", "")


def test_a_pipe_is_written_to():
    code = "import pathlib, regweave.files as f; f.write_file(pathlib.Path('/dev/stdout'), 'x')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "x"


def test_no_more_is_read_than_wanted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abc\u2192")
    assert read_file(path, 6) == "abc\u2192"
    with pytest.raises(InputError, match=r"too large a file .*at most 5 bytes"):
        read_file(path, 5)
    with pytest.raises(InputError, match="too large a file"):
        read_file(Path("/dev/zero"), 1000)
    for name in ("a\0b", "a\ud800\udfff"):
        with pytest.raises(InputError, match="names no file"):
            read_file(tmp_path / name, 9)


@pytest.mark.parametrize("place", [None, 3, b"a", "a\0b", "a\ud800", ["a"]])
def test_what_names_no_place(place, tmp_path):
    assert path_of(str(tmp_path)) == path_of(tmp_path) == tmp_path
    with pytest.raises(InputError, match="names no place for files"):
        path_of(place)


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000 + "/y.onnx", "y/" * 3000])
def test_names_of_more_letters_than_the_system_knows(name):
    with pytest.raises(InputError, match="a file's name is too long"):
        path_of(name)
    with pytest.raises(InputError, match="a file's name is too long"):
        read_model(name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_device_is_named():
    with pytest.raises(OSError, match="/dev/full"):
        write_file(Path("/dev/full"), "x" * 100)


def test_names_beside_a_file_are_not_its_own(tmp_path):
    for name in ("photo.png", "phoot.onnx", "other.txt"):
        (tmp_path / name).touch()
    (tmp_path / "photos.png").symlink_to("nowhere")
    assert nearest_beside(tmp_path / "photos.png")[0] == "photo.png"
    assert "photos.png" not in nearest_beside(tmp_path / "photos.png")
    assert nearest_beside(tmp_path / "photo.onnx", ".onnx") == ("phoot.onnx",)
    assert nearest_beside(tmp_path / "nowhere" / "photo.png") == ()
    assert nearest_beside(tmp_path / "scene.png") == ()  # the ending alone is nothing in common


def failure_of(path, task):
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        task(path)
    return file_failure(caught.value)


def test_what_the_system_says_becomes_a_way_out(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    failure = failure_of(tmp_path / "folder", lambda path: read_file(path, 9))
    assert (failure.what, failure.fix) == ("a folder, not a file", "name a file in it")
    failure = failure_of(tmp_path / "fiel", lambda path: read_file(path, 9))
    assert (failure.what, failure.nearest) == ("No such file or directory", ("file",))
    for task in (lambda path: read_file(path, 9), lambda path: write_file(path, "")):
        failure = failure_of(tmp_path / "file" / "a" / "b", task)
        assert failure.what == f"'{tmp_path / 'file'}' is a file, not a folder"
        failure = failure_of(tmp_path / "foldr" / "b", task)
        assert failure.what == f"the folder '{tmp_path / 'foldr'}' does not exist"
        assert failure.nearest == ("folder",)
    full = file_failure(OSError(errno.ENOSPC, "No space left on device", "a"))
    assert full.fix == "make room, or name a place on another disk"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "a"):
        with pytest.raises(OSError, match=r"\[Errno") as caught:
            place.mkdir(parents=True, exist_ok=True)
        failure = folder_failure(caught.value, place)
        assert failure.what == f"cannot write there: '{tmp_path / 'file'}' is a file, not a folder"
        assert (failure.where, failure.fix) == (str(place), "name another folder")
