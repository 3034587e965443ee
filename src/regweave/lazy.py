"""Packages whose names load their modules when they are first used.

    __getattr__ = lazy_names(__name__, calls=["cascade"], products=["gemm"])

`from package import gemm` then imports `package.products`, and nothing else of the package. A process that
finds its machine code on disk needs a fifth of the library's modules; loading the others would take longer
than all that it does.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

#: When this process began to load regweave, in nanoseconds since 1970.
LOADED_AT = time.time_ns()


def lazy_names(package: str, **modules: Iterable[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `modules` maps the names of its modules to the public names in them.

    AttributeError for other names.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    assert homes.keys().isdisjoint(modules), "a module, once loaded, would stand in place of its namesake"

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
