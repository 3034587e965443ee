"""The packages of the extra `images`, imported when a picture is read or written."""

from __future__ import annotations

import importlib
from typing import Any

from regweave.errors import UnsupportedError


def optional_module(module: str, package: str) -> Any:
    """The module; UnsupportedError that says how to have it, if its package is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnsupportedError(
            f"pictures are read and written with {package}, which is not installed",
            where="images",
            fix="pip install 'regweave[images]'",
        ) from None
