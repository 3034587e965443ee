"""Work during which Python looks for no circles of garbage.

    @uncollected()
    def plan(...): ...

A planner makes many small values that live until it has chosen and refer to one another in no circle.
Python's collector goes through all of them again and again and finds nothing: a third of the time of a large
plan. What is no longer referred to is freed at once all the same; circles are found after the work.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection within; then as before. It stays off where the caller had it off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
