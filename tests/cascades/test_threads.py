"""The threads: every part runs once, whoever calls, after a fork, at the end of the process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from regweave.assembly import Builder
from regweave.cascades import threads, usable_processors
from regweave.cascades.threads import run, run_each, thread_count
from regweave.devices import cpu
from regweave.errors import DeviceError, InputError
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import detect

MACHINE = detect()
pytestmark = pytest.mark.skipif(MACHINE is None, reason="native threads serve native kernels")


@pytest.fixture(scope="module")
def kernel() -> cpu.Function:
    """Counts down from counts[0], then adds one to counts[1 + part]."""
    assert MACHINE is not None
    b = Builder(MACHINE, name="count_parts", arguments=("counts", "part"))
    left = b.general("left")
    b.emit("mov", left, b.at("counts"))
    b.label("wait")
    b.emit("dec", left)
    b.emit("jump_greater", "wait")
    step = Pattern("to:q", "lock inc %0", flags="lost")
    b.emit_template(step, b.at("counts", 8, index="part", scale=8))
    b.emit("return")
    return cpu.load(b.finish())


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_part_once(kernel: cpu.Function, parts: int, workers: int) -> None:
    counts = np.zeros(70, np.int64)
    counts[0] = 100
    for _ in range(200):
        run(kernel.address, counts.ctypes.data, parts, workers)
    assert (counts[1 : 1 + parts] == 200).all()
    assert not counts[1 + parts :].any()


def test_no_parts(kernel: cpu.Function) -> None:
    counts = np.zeros(3, np.int64)
    run(kernel.address, counts.ctypes.data, 0, 2)
    assert not counts.any()


def test_after_a_rest(kernel: cpu.Function) -> None:
    """Workers that went to sleep, or are about to, still come or are not waited for."""
    counts = np.zeros(10, np.int64)
    counts[0] = 1000
    for rest in np.geomspace(1e-5, 2e-3, 40):
        time.sleep(rest)
        run(kernel.address, counts.ctypes.data, 4, 2)
    assert (counts[1:5] == 40).all()


def test_from_several_python_threads(kernel: cpu.Function) -> None:
    """Each caller's parts run once, whether it got the workers or runs alone."""
    results: list[bool] = []

    def work() -> None:
        counts = np.zeros(10, np.int64)
        counts[0] = 2000
        for _ in range(300):
            run(kernel.address, counts.ctypes.data, 5, 2)
        results.append(bool((counts[1:6] == 300).all() and not counts[6:].any()))

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [True] * 4


def test_other_threads_run_meanwhile(kernel: cpu.Function) -> None:
    """The interpreter's lock is not held while a job runs."""
    counts = np.zeros(3, np.int64)
    counts[0] = 100_000_000
    seen: list[float] = []
    caller = threading.Thread(target=lambda: run(kernel.address, counts.ctypes.data, 1, 1))
    started = time.perf_counter()
    caller.start()
    while caller.is_alive():
        seen.append(time.perf_counter() - started)
        time.sleep(1e-4)
    assert len(seen) > 3


def test_workers_sleep_when_there_is_nothing_to_do(kernel: cpu.Function) -> None:
    counts = np.zeros(3, np.int64)
    run(kernel.address, counts.ctypes.data, 2, 2)
    time.sleep(0.02)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.05


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(kernel: cpu.Function) -> None:
    counts = np.zeros(10, np.int64)
    run(kernel.address, counts.ctypes.data, 4, 2)
    child = os.fork()
    if child == 0:
        for _ in range(5):
            run(kernel.address, counts.ctypes.data, 4, 2)
        os._exit(0 if (counts[1:5] == 6).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    run(kernel.address, counts.ctypes.data, 4, 2)
    assert (counts[1:5] == 2).all()


def test_the_process_ends_while_workers_spin_or_sleep() -> None:
    program = (
        "import numpy as np, regweave, sys, time\n"
        "f = lambda *s: np.ones(s, np.float32)\n"
        "c = regweave.cascade([f(64, 64), f(64, 64)], threads=3, isa=sys.argv[2])\n"
        "c(f(20000, 64)); time.sleep(float(sys.argv[1]))\n"
    )
    assert MACHINE is not None
    for rest in ("0", "0.05"):
        words = [sys.executable, "-c", program, rest, MACHINE.name]
        done = subprocess.run(words, capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")


def test_each_block_of_an_array() -> None:
    assert MACHINE is not None
    b = Builder(MACHINE, name="double_it", arguments=("block",))
    value = b.general("value")
    b.emit("mov", value, b.at("block"))
    b.emit("add", value, value)
    b.emit("mov", b.at("block", 8), value)
    b.emit("return")
    function = cpu.load(b.finish())

    class Pair(ctypes.Structure):
        _fields_ = (("given", ctypes.c_int64), ("result", ctypes.c_int64))

    for workers in (1, 2):
        blocks = (Pair * 9)(*(Pair(i, 0) for i in range(9)))
        run_each(function.address, blocks, workers)
        assert [block.result for block in blocks] == [2 * i for i in range(9)]


def test_thread_counts() -> None:
    assert thread_count(None) == usable_processors() >= 1
    assert thread_count(np.int64(3)) == 3
    for wrong in (0, -2, 1.0, "2", True):
        with pytest.raises(InputError):
            thread_count(wrong)  # type: ignore[arg-type]


def test_callers_that_move_about(kernel: cpu.Function) -> None:
    """Workers are told to stay off the caller's processor; a caller that changes it is followed."""
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        pytest.skip("one processor")
    counts = np.zeros(5, np.int64)
    counts[0] = 100
    try:
        for processor in [*usable, *usable]:
            os.sched_setaffinity(0, {processor})
            run(kernel.address, counts.ctypes.data, 3, 2)
    finally:
        os.sched_setaffinity(0, usable)
    assert (counts[1:4] == 2 * len(usable)).all()


def test_more_threads_than_make_sense(kernel: cpu.Function) -> None:
    counts = np.zeros(10, np.int64)
    before = len(os.listdir("/proc/self/task"))
    for many in (10**6, 10**30):
        run(kernel.address, counts.ctypes.data, 9, many)
    assert (counts[1:] == 2).all()
    assert len(os.listdir("/proc/self/task")) - before < max(usable_processors(), 4)


def test_fewer_threads_than_asked_for(kernel: cpu.Function, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threads._start_thread, []

    def start_one(*arguments: int) -> None:
        if started:
            raise DeviceError("no more")
        started.append(start(*arguments))

    monkeypatch.setattr(threads, "_start_thread", start_one)
    monkeypatch.setattr(threads, "_crews", {})
    counts = np.zeros(5, np.int64)
    run(kernel.address, counts.ctypes.data, 4, 4)
    assert (counts[1:] == 1).all()
    assert len(started) == 1


def test_more_threads_than_the_system_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        @staticmethod
        def pthread_create(*_: object) -> int:
            return 11

    monkeypatch.setattr(threads.ctypes, "CDLL", lambda _: Libc)
    with pytest.raises(DeviceError, match="could not be started"):
        threads._start_thread(0, 0)
