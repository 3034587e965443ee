"""The cache folder follows its variable."""

import pytest

from regweave.errors import InputError
from regweave.settings import CACHE_VARIABLE, cache_folder


def test_the_variable_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    assert cache_folder("models", "a").is_dir()


def test_without_it_the_users_cache_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in cache_folder().parents


def test_a_folder_that_cannot_be_made_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "below"))
    with pytest.raises(InputError, match=f"cannot be made.*name one that can be written in {CACHE_VARIABLE}"):
        cache_folder()
