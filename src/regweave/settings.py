"""Where regweave keeps files, and the environment variables that change what it does.

    REGWEAVE_CACHE       folder for downloaded models and machine code; default: the user's, ~/.cache/regweave
    REGWEAVE_CODE_CACHE  on, or off: assemble every kernel anew in every process; default: on
    REGWEAVE_ISA         kernels to build: avx512, avx2 or portable (NumPy, slow); default: the best there is

The folder may be deleted at any time: everything in it is made anew when needed.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from regweave.errors import InputError, unknown_name

if TYPE_CHECKING:
    from pathlib import Path

CACHE_VARIABLE = "REGWEAVE_CACHE"
CODE_VARIABLE = "REGWEAVE_CODE_CACHE"
ISA_VARIABLE = "REGWEAVE_ISA"
#: What `REGWEAVE_ISA` and every `isa=` parameter may name, best first.
ISAS = ("avx512", "avx2", "portable")


def cache_folder(*parts: str) -> Path:
    """The cache folder, or a folder of that name below it, made if it is missing.

    InputError if it cannot be made.
    """
    from pathlib import Path

    root = _root()
    folder = Path(root, *parts)
    try:
        if root[0] == "~":
            raise OSError(errno.ENOENT, "there is no home folder")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the cache folder cannot be made: {error.strerror}",
            where=str(folder),
            fix=f"name one that can be written in {CACHE_VARIABLE}",
        ) from error
    return folder


def code_folder() -> str | None:
    """The folder for machine code, which may be missing; None if none is kept, for want of wish or place.

    InputError for a word that is neither on nor off.
    """
    word = os.environ.get(CODE_VARIABLE) or "on"
    if word not in ("on", "off"):
        raise InputError(f"unknown word {word!r}", where=CODE_VARIABLE, expected="on or off")
    root = _root()
    return os.path.join(root, "code") if word == "on" and root[0] != "~" else None


def _root() -> str:
    """The cache folder's path; it starts with a tilde if a home folder is needed and there is none."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return os.path.expanduser(named)
    if sys.platform == "linux":  # the same as below, without an import that takes longer than a cascade
        base = os.environ.get("XDG_CACHE_HOME", "")
        return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "regweave")
    from platformdirs import user_cache_dir

    return user_cache_dir("regweave")


def forced_isa(given: str | None = None) -> str | None:
    """The instruction set asked for: `given` if it is one, else the variable's value; None if nobody asks.

    InputError for anything but one of `ISAS`.
    """
    named, where = (
        (given, "isa") if given is not None else (os.environ.get(ISA_VARIABLE) or None, ISA_VARIABLE)
    )
    if named is not None and named not in ISAS:
        raise unknown_name("instruction set", named, ISAS, where=where)
    return named
