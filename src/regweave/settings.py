"""Where regweave keeps files, and the environment variables that change what it does.

    REGWEAVE_CACHE   folder for downloaded models and built libraries; default: the user's, ~/.cache/regweave
    REGWEAVE_ISA     kernels to build: avx512, avx2 or portable (NumPy, slow); default: the best there is

The folder may be deleted at any time: everything in it is made anew when needed.
"""

from __future__ import annotations

import os
from pathlib import Path

from regweave.errors import InputError, nearest_names

CACHE_VARIABLE = "REGWEAVE_CACHE"
ISA_VARIABLE = "REGWEAVE_ISA"
#: What `REGWEAVE_ISA` and every `isa=` parameter may name, best first.
ISAS = ("avx512", "avx2", "portable")


def cache_folder(*parts: str) -> Path:
    """The cache folder, or a folder of that name below it, made if it is missing.

    InputError if it cannot be made.
    """
    from platformdirs import user_cache_path

    named = os.environ.get(CACHE_VARIABLE)
    root = Path(named).expanduser() if named else user_cache_path("regweave")
    folder = root.joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the cache folder cannot be made: {error.strerror}",
            where=str(folder),
            fix=f"name one that can be written in {CACHE_VARIABLE}",
        ) from error
    return folder


def forced_isa(given: str | None = None) -> str | None:
    """The instruction set asked for: `given` if it is one, else the variable's value; None if nobody asks.

    InputError for anything but one of `ISAS`.
    """
    named, where = (
        (given, "isa") if given is not None else (os.environ.get(ISA_VARIABLE) or None, ISA_VARIABLE)
    )
    if named is not None and named not in ISAS:
        raise InputError(
            f"unknown instruction set {named!r}",
            where=where,
            expected=" or ".join(ISAS),
            nearest=nearest_names(named, ISAS),
        )
    return named
