"""Where regweave keeps files, and the environment variables that change it.

| variable | meaning | default |
|---|---|---|
| `REGWEAVE_CACHE` | folder for downloaded models and built libraries | the user's, `~/.cache/regweave` |

The folder may be deleted at any time: everything in it is made anew when needed.
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "REGWEAVE_CACHE"


def cache_folder(*parts: str) -> Path:
    """The cache folder, or a folder of that name below it, made if it is missing."""
    from platformdirs import user_cache_path

    named = os.environ.get(CACHE_VARIABLE)
    root = Path(named).expanduser() if named else user_cache_path("regweave")
    folder = root.joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
