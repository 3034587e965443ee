"""Threads that share a kernel's parts: `run(kernel, arguments, parts, threads)`.

Workers are native threads: they never touch the interpreter, so no lock of it is needed to start or end a
job. They are made at the first job that asks for them, sleep while there is no work, and are kept for the
process's life.

    >>> run(kernel.address, ctypes.addressof(arguments), parts=4, threads=2)

A job is run by the calling thread and threads - 1 workers. If a second Python thread comes while the
workers are busy, it runs its job alone rather than wait. After a fork the child makes its own workers at
need.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import operator
import os
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from regweave.cascades.crew import ANYWHERE, Block, Each
from regweave.errors import DeviceError, InputError

if TYPE_CHECKING:
    from regweave.assembly import Listing

#: A processor that the caller is never on, so that the first job tells the workers where they may run.
_NOWHERE = ANYWHERE - 1
#: Threads that are made if asked for, however few the processors; beyond the processors more gain nothing.
_ALWAYS = 4
#: How often one job may find its caller on another processor before that is no longer minded.
_MOST_MOVES = 4


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: int | None, where: str = "threads") -> int:
    """A valid number of threads; None means all usable processors. Errors: InputError."""
    if threads is None:
        return usable_processors()
    try:
        if isinstance(threads, bool):
            raise TypeError
        count = operator.index(threads)
    except TypeError:
        raise InputError(
            f"{threads!r} is not a number of threads", where=where, expected="an int, 1 or more"
        ) from None
    if count < 1:
        raise InputError(f"{count} threads", where=where, expected="1 or more", fix="leave it out for all")
    return count


@cache
def _native(name: str) -> Any:
    """A function of `crewcode`, loaded. Kept for good: workers run in it until the process ends."""
    from regweave.devices import cpu
    from regweave.machines.x86 import detect

    machine = detect()
    if machine is None:
        raise DeviceError("this processor has no native kernels", fix="use the portable device")

    def make() -> Listing:
        from regweave.cascades import crewcode

        return getattr(crewcode, f"{name}_listing")(machine)

    function = cpu.load_made(make, name, machine)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return function


class _Crew:
    """`helpers` native workers around one block. Neither is ever freed.

    The workers are kept off the processor that the caller last ran on: some schedulers pack threads that were
    idle onto a busy processor, where a worker would wait behind its caller for milliseconds.
    """

    def __init__(self, helpers: int) -> None:
        memory = mmap.mmap(-1, ctypes.sizeof(Block) + 8 * helpers)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        self._block = Block.from_buffer(memory)
        self.block = ctypes.addressof(self._block)
        self.helpers = helpers
        self.busy = threading.Lock()
        self._usable = os.sched_getaffinity(0)
        self._dispatch = _native("dispatch").typed(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
        )
        worker = _native("worker").address
        import signal  # its many names take as long to load as a small kernel: only crews need it

        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for count in range(helpers):
                try:
                    _start_thread(worker, self.block)
                except DeviceError:
                    if not count:
                        raise
                    self.helpers = count  # the system gives no more: these will do
                    break
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        while self._block.started < self.helpers:
            time.sleep(1e-4)
        self._block.beside = _NOWHERE

    def run(self, kernel: int, arguments: int, parts: int) -> None:
        """One job. The caller holds `busy`."""
        for _ in range(_MOST_MOVES):
            processor = self._dispatch(self.block, kernel, arguments, parts)
            if processor < 0:
                return
            self._stay_off(processor)
        self._block.beside = ANYWHERE  # moved about all the time: do without
        self._dispatch(self.block, kernel, arguments, parts)

    def _stay_off(self, processor: int) -> None:
        """Leave `processor` to the caller, if there are others for the workers."""
        others = self._usable - {processor}
        self._block.beside = processor if self.helpers <= len(others) else ANYWHERE
        if self._block.beside == processor:
            for thread in (ctypes.c_uint64 * self.helpers).from_address(self.block + ctypes.sizeof(Block)):
                with contextlib.suppress(OSError):  # a preference, never a need
                    os.sched_setaffinity(thread, others)


def _start_thread(function: int, argument: int) -> None:
    """A detached native thread that runs `function(argument)`."""
    libc = ctypes.CDLL(None)
    handle = ctypes.c_ulong()
    failed = libc.pthread_create(
        ctypes.byref(handle), None, ctypes.c_void_p(function), ctypes.c_void_p(argument)
    )
    if failed:
        raise DeviceError(
            f"a thread could not be started: {os.strerror(failed)}", fix="ask for fewer threads"
        )
    libc.pthread_detach(handle)


_crews: dict[int, _Crew] = {}
_making = threading.Lock()


def _crew(threads: int) -> _Crew:
    crew = _crews.get(threads)
    if crew is None:
        with _making:
            crew = _crews.get(threads)
            if crew is None:
                most = min(threads, max(usable_processors(), _ALWAYS))
                crew = _crews[threads] = _crews.get(most) or _Crew(most - 1)
                _crews[most] = crew
    return crew


def _after_fork() -> None:
    """The child has none of the workers, and locks may have been held by threads that it does not have."""
    global _making
    _crews.clear()
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _serial() -> Any:
    return _native("serial").typed(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def run(kernel: int, arguments: int, parts: int, threads: int) -> None:
    """Call `kernel(arguments, part)` for part 0 .. parts - 1 and return when all are done.

    `kernel` and `arguments` are addresses; the interpreter's lock is released meanwhile.
    """
    if parts > 1 and threads > 1:
        crew = _crew(threads)
        if crew.busy.acquire(blocking=False):
            try:
                crew.run(kernel, arguments, parts)
            finally:
                crew.busy.release()
            return
    _serial()(kernel, arguments, parts)


def run_each(function: int, blocks: ctypes.Array[Any], threads: int) -> None:
    """Call `function(address of block)` for each block of an array, on up to `threads` threads."""
    each = Each(function, ctypes.addressof(blocks), ctypes.sizeof(type(blocks)) // max(len(blocks), 1))
    run(_native("each").address, ctypes.addressof(each), len(blocks), threads)
