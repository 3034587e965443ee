"""A C compiler, the system's or ziglang's, for exported files; without one those tests are skipped."""

import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import pytest


@cache
def compiler():
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


@pytest.fixture(scope="session")
def run_c():
    """A function that compiles C files strictly, runs them and returns (exit code, what was printed)."""
    if compiler() is None:
        pytest.skip("no C compiler: neither cc nor the extra amdgpu")

    def run(folder, *files):
        program = folder / "program"
        flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        subprocess.run(
            [*compiler(), *flags, *map(str, files), "-lm", "-o", str(program)], check=True, cwd=folder
        )
        ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout

    return run
