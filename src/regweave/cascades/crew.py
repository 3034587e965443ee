"""The native side of the threads: what a worker runs, and how work reaches it.

Everything about a job fits in one 64-bit *ticket* so that it changes hands with single atomic instructions:

    ticket = generation << 32 | parts not yet taken

The caller writes function and arguments into the block, then publishes a ticket with a new generation.
Caller and workers then all do the same: read the ticket, take its last part by compare-and-swap (ticket -
1), run it, count it as done. A swap only succeeds while the ticket is the one that was read, and function
and arguments only change when every part of a job is done; so whoever takes a part holds that job's
function, however late it woke up.

A worker that finds nothing looks again for some pauses (some tens of microseconds, so that jobs which
follow each other closely start at once) and then sleeps in the kernel (futex) on the generation. The caller
never waits for a worker to wake: parts that nobody else takes it runs itself, and at the end waits only for
those under way.

Worked example, 3 parts, one worker asleep: the caller publishes (8, 3), wakes the worker, takes part 2; the
worker takes part 1 some microseconds later; the caller part 0; done when the count of unfinished parts is
0.
"""

from __future__ import annotations

import ctypes

#: `Block.beside` where the caller's processor does not matter; Linux keeps the memory node above these bits.
ANYWHERE = PROCESSOR_MASK = 0xFFF


class Block(ctypes.Structure):
    """What caller and workers share; each group of fields that one side writes has cache lines of its own."""

    _fields_ = (
        ("ticket", ctypes.c_uint64),
        ("_after_ticket", ctypes.c_uint64 * 15),
        ("function", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64),
        ("_after_job", ctypes.c_uint64 * 14),
        ("unfinished", ctypes.c_uint64),
        ("_after_unfinished", ctypes.c_uint64 * 15),
        ("sleepers", ctypes.c_uint64),
        ("_after_sleepers", ctypes.c_uint64 * 15),
        ("started", ctypes.c_uint64),
        ("beside", ctypes.c_uint64),  # the workers' thread ids follow the block
    )


class Each(ctypes.Structure):
    """Arguments of `each`: `function` is called with `first + part * step`."""

    _fields_ = (("function", ctypes.c_uint64), ("first", ctypes.c_uint64), ("step", ctypes.c_uint64))
