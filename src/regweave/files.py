"""Files appear whole or not at all.

    >>> write_file(Path("plan.h"), text)

A reader never sees half a header, and a write that fails (a full disk, an interrupt) leaves what was there
before.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_file(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path` in one step, keeping the mode of a file that is replaced.

    What is no regular file (a pipe, /dev/stdout) is written to as it is. Raises OSError naming the file.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(beside, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
        os.replace(beside, path)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
