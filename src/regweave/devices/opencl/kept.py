"""Compiled kernels kept on disk beside other machine code: the next process finds what this one compiled.

    >>> library = build_kept(text)              # seconds the first time, milliseconds in any later process
    >>> compile_all(texts, processes=2, say=print)
    12 of 426 texts compiled, 9 min left

A key is made of the text and of all that decides what becomes of it: the device, its driver, the processor's
features. What the driver does not load again is compiled anew. Intel's compiler works on one text at a time
in a process, so `compile_all` starts several; they hand over what they made through `devices/cpu/store.py`.
Where nothing is kept (REGWEAVE_CODE_CACHE=off), nothing is compiled ahead.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from threading import Lock
from typing import Any

from regweave.devices.cpu import store
from regweave.devices.opencl.kernels import Library, build
from regweave.devices.opencl.runtime import Runtime, open_gpu, open_runtime
from regweave.errors import RegweaveError
from regweave.machines.x86.features import processor_features

#: Changes with what is kept.
_FORMAT = 1
_CHILD = "from regweave.devices.opencl import kept; kept.compile_what_is_sent()"


def build_kept(text: str, runtime: Runtime | None = None) -> Library:
    """`build`, or what an earlier process has built of this text for this device. Errors as `build`."""
    import pyopencl

    runtime = open_runtime() if runtime is None else runtime
    if not store.is_on():
        return build(text, runtime=runtime)
    key = _key(text, runtime)
    found = store.find(key)
    if found is not None:
        try:
            binary = zlib.decompress(found)
            program = pyopencl.Program(runtime.context, [runtime.device], [binary])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the driver's remarks on a binary that it accepts
                return Library(program.build(), runtime)
        except (pyopencl.Error, zlib.error):
            pass  # another driver of the same name: made anew below
    library = build(text, runtime=runtime)
    binaries = library.program.get_info(pyopencl.program_info.BINARIES)
    store.keep(key, zlib.compress(binaries[0], 1))
    return library


def compile_all(
    texts: Iterable[str],
    runtime: Runtime | None = None,
    *,
    processes: int = 1,
    say: Callable[[str], None] = lambda message: None,
) -> None:
    """Compile and keep what is not kept yet, in so many processes.

    A text that cannot be compiled is left for `build_kept`, which says why. DeviceError without a runtime.
    """
    runtime = open_runtime() if runtime is None else runtime
    missing = [text for text in dict.fromkeys(texts) if store.is_on() and not _is_kept(text, runtime)]
    if not missing:
        return
    gpu = open_gpu()
    kind = "gpu" if gpu is not None and gpu.device == runtime.device else "processor"
    waiting, lock = iter(missing), Lock()
    children = [_child(kind) for _ in range(min(processes, len(missing)))]
    start, done = time.monotonic(), 0

    def feed(child: subprocess.Popen[bytes]) -> None:
        nonlocal done
        assert child.stdin, "a pipe"
        assert child.stdout, "a pipe"
        while True:
            with lock:
                text = next(waiting, None)
            if text is None:
                return
            try:
                pickle.dump(text, child.stdin)
                child.stdin.flush()
            except BrokenPipeError:
                return
            if not child.stdout.read(1):
                return  # its compiler ended it: the others go on
            with lock:
                done += 1
                left = (time.monotonic() - start) / done * (len(missing) - done)
                say(f"{done} of {len(missing)} texts compiled, {time_left(left)}")

    with ThreadPoolExecutor(len(children)) as pool:
        try:
            for future in as_completed([pool.submit(feed, child) for child in children]):
                future.result()
        finally:
            for child in children:
                child.kill()
                child.wait()


def compile_what_is_sent() -> None:
    """The other end of `compile_all`: pickled texts on stdin, a byte on stdout for each that is done."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    runtime: Any = open_gpu() if sys.argv[1] == "gpu" else open_runtime()
    while True:
        try:
            text = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        with suppress(RegweaveError):  # said where the text is loaded
            build_kept(text, runtime)
        answers.write(b".")
        answers.flush()


def time_left(seconds: float) -> str:
    """`40 s left`, `9 min left`, `2 h 10 min left`."""
    if seconds < 90:
        return f"{seconds:.0f} s left"
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min left"


def _child(kind: str) -> subprocess.Popen[bytes]:
    pipe, command = subprocess.PIPE, [sys.executable, "-c", _CHILD, kind]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


def _is_kept(text: str, runtime: Runtime) -> bool:
    return store.find(_key(text, runtime)) is not None


def _key(text: str, runtime: Runtime) -> bytes:
    device = runtime.device
    made_by = device.name, device.version, device.driver_version, sorted(processor_features())
    found = hashlib.sha256(repr((_FORMAT, "opencl", *made_by)).encode())
    found.update(text.encode())
    return found.digest()
