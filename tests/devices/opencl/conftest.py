"""Tests here need the extra opencl; without it they are skipped with the reason."""

import pytest

from regweave.devices import opencl


@pytest.fixture(scope="session")
def device():
    """The open runtime."""
    reason = opencl.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    return opencl.open_runtime()
