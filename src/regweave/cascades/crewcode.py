"""The code of the threads: what a worker runs, and how a job is given to workers, as `crew` describes it.

Each function writes one listing. They are loaded under their names (`rw_worker`, ...), from disk where an
earlier process left their code.
"""

from __future__ import annotations

import ctypes
from typing import Any

from regweave.assembly import Builder, Listing
from regweave.cascades.crew import ANYWHERE, PROCESSOR_MASK, Block, Each
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine

#: How often a worker looks for work before it sleeps, and a caller for the end before it yields: each look is
#: a pause of 20 to 50 ns.
SPINS = 6000

_FUTEX, _SCHED_YIELD, _GETTID = 202, 24, 186
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129


def _offset(field: str) -> int:
    return getattr(Block, field).offset


class _Code:
    """A builder of functions over the block: the few instructions that kernels never need."""

    def __init__(self, machine: VectorMachine, name: str, arguments: tuple[str, ...]) -> None:
        self.b = Builder(machine, name=name, arguments=arguments)
        self.b.stack(8)  # calls need an aligned stack
        # arguments arrive in registers that every call destroys
        self.given = {argument: self.b.general(f"{argument}_kept") for argument in arguments}
        for argument, kept in self.given.items():
            self.b.emit("mov", kept, argument)
        vectors = machine.register_class("vector").registers
        masks = machine.register_class(machine.mask_class).registers
        saved = tuple(dict.fromkeys((*machine.caller_saved, *vectors, *masks)))
        self._call = Pattern(
            "function:r arguments:r part:r",
            ("mov rdi, %1", "mov rsi, %2", "call %0"),
            clobbers=saved,
            flags="lost",
        )
        self._system = Pattern(
            "number:i address:r operation:i value:r",
            ("mov rdi, %1", "mov edx, %3:d", "mov esi, %2", "xor r10d, r10d", "mov eax, %0", "syscall"),
            clobbers=("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"),
            flags="lost",
        )

    def call(self, function: object, arguments: object, part: object) -> None:
        """function(arguments, part)."""
        self.b.emit_template(self._call, function, arguments, part)

    def futex(self, address: object, operation: int, value: object) -> None:
        """futex(address, operation, value, no timeout)."""
        self.b.emit_template(self._system, _FUTEX, address, operation, value)

    def simple_call(self, number: int) -> Any:
        """A system call without arguments; returns the variable that holds its result."""
        pattern = Pattern(
            "result:r number:i",
            ("mov eax, %1", "syscall", "mov %=0, rax"),
            clobbers=("rax", "rcx", "r11"),
            flags="lost",
        )
        result = self.b.general("result")
        self.b.emit_template(pattern, result, number)
        return result

    def processor(self) -> Any:
        """The number of the processor that runs this."""
        pattern = Pattern(
            "result:r",
            ("rdtscp", "mov %=0:d, ecx", f"and %+0:d, {PROCESSOR_MASK}"),
            clobbers=("rax", "rcx", "rdx"),
            flags="lost",
        )
        result = self.b.general("processor")
        self.b.emit_template(pattern, result)
        return result

    def pause(self) -> None:
        """Tell the core that this is a waiting loop."""
        self.b.emit_template(Pattern("", "pause"))

    def count(self, step: str, field: str) -> None:
        """Atomically add or take one ("inc", "dec")."""
        self.b.emit_template(Pattern("to:q", f"lock {step} %0", flags="lost"), self.field(field))

    def field(self, name: str) -> object:
        """A field of the block as a memory operand."""
        return self.b.at(self.given["block"], _offset(name))

    def take_part(self, done: str, again: str) -> None:
        """Take and run one part of the current job, then go to `again`; go to `done` if none is left.

        Reads and runs a job by the rules of the module's docstring.
        """
        b = self.b
        ticket, left, less, function, arguments = (
            b.general(name) for name in ("ticket", "left", "less", "function", "arguments")
        )
        b.emit("mov", ticket, self.field("ticket"))
        b.emit("mov32", left, ticket)
        b.emit("test", left, left)
        b.emit("jump_zero", done)
        b.emit("mov", function, self.field("function"))
        b.emit("mov", arguments, self.field("arguments"))
        b.emit("lea", less, b.at(ticket, -1))
        swap = Pattern(
            "to:q old:r new:r",
            ("mov rax, %1", "lock cmpxchg %0, %2", "cmp rax, %1"),
            clobbers=("rax",),
            flags="set",
        )
        b.emit_template(swap, self.field("ticket"), ticket, less)
        b.emit("jump_not_equal", again)
        b.emit("dec", left)
        self.call(function, arguments, left)
        self.count("dec", "unfinished")
        b.emit("jump", again)


def worker_listing(machine: VectorMachine) -> Listing:
    """`void *worker(Block *block)`: notes its thread id, then takes parts for ever; sleeps between jobs."""
    code = _Code(machine, "rw_worker", ("block",))
    b = code.b
    spins, ticket, left, generation, address = (
        b.general(name) for name in ("spins", "seen", "seen_left", "generation", "address")
    )
    thread, number = code.simple_call(_GETTID), b.general("number")
    b.emit("mov", number, 1)
    b.emit_template(Pattern("to:q value:r", "lock xadd %0, %+1", flags="lost"), code.field("started"), number)
    b.emit("mov", b.at(code.given["block"], ctypes.sizeof(Block), index=number, scale=8), thread)
    b.label("work")
    b.emit("mov", spins, SPINS)
    b.label("look")
    code.take_part("idle", "work")
    b.label("idle")
    code.pause()
    b.emit("dec", spins)
    b.emit("jump_nonzero", "look")
    code.count("inc", "sleepers")
    b.emit("mov", ticket, code.field("ticket"))
    b.emit("mov32", left, ticket)
    b.emit("test", left, left)
    b.emit("jump_nonzero", "wake")
    b.emit("mov", generation, ticket)
    b.emit("shr", generation, 32)
    b.emit("lea", address, b.at(code.given["block"], _offset("ticket") + 4))
    code.futex(address, _WAIT_PRIVATE, generation)
    b.label("wake")
    code.count("dec", "sleepers")
    b.emit("jump", "work")
    return b.finish()


def dispatch_listing(machine: VectorMachine) -> Listing:
    """`int dispatch(Block *block, function, arguments, size_t parts)`: runs a job, returns when it is done.

    If the caller is not on the processor `beside` that the workers were told to leave to it, nothing is run
    and the result is that processor's number; otherwise it is -1.
    """
    code = _Code(machine, "rw_dispatch", ("block", "function", "arguments", "parts"))
    b = code.b
    ticket, helpers, asleep, address, spins, left = (
        b.general(name) for name in ("ticket", "helpers", "asleep", "address", "spins", "left")
    )
    result = b.general("returned", pin="rax")
    processor, beside = code.processor(), b.general("beside")
    b.emit("mov", beside, code.field("beside"))
    b.emit("cmp", beside, ANYWHERE)
    b.emit("jump_equal", "publish")
    b.emit("cmp", beside, processor)
    b.emit("jump_equal", "publish")
    b.emit("mov", result, processor)
    b.emit("return")
    b.label("publish")
    b.emit("mov", code.field("function"), code.given["function"])
    b.emit("mov", code.field("arguments"), code.given["arguments"])
    b.emit("mov", code.field("unfinished"), code.given["parts"])
    b.emit("mov", ticket, code.field("ticket"))
    b.emit("shr", ticket, 32)
    b.emit("inc", ticket)
    b.emit("shl", ticket, 32)
    b.emit("or", ticket, code.given["parts"])
    b.emit_template(Pattern("to:q value:r", "xchg %0, %+1"), code.field("ticket"), ticket)
    b.emit("mov", asleep, code.field("sleepers"))
    b.emit("test", asleep, asleep)
    b.emit("jump_zero", "mine")
    b.emit("lea", helpers, b.at(code.given["parts"], -1))
    b.emit("lea", address, b.at(code.given["block"], _offset("ticket") + 4))
    code.futex(address, _WAKE_PRIVATE, helpers)
    b.label("mine")
    code.take_part("wait", "mine")
    b.label("wait")
    b.emit("mov", spins, SPINS)
    b.label("finish")
    b.emit("mov", left, code.field("unfinished"))
    b.emit("test", left, left)
    b.emit("jump_zero", "done")
    code.pause()
    b.emit("dec", spins)
    b.emit("jump_nonzero", "finish")
    code.simple_call(_SCHED_YIELD)
    b.emit("jump", "wait")
    b.label("done")
    b.emit("mov", result, -1)
    b.emit("return")
    return b.finish()


def serial_listing(machine: VectorMachine) -> Listing:
    """`void serial(function, arguments, size_t parts)`: the same job by the caller alone."""
    code = _Code(machine, "rw_serial", ("function", "arguments", "parts"))
    b = code.b
    part = b.general("part")
    b.emit("zero", part)
    b.label("next")
    b.emit("cmp", part, code.given["parts"])
    b.emit("jump_above_equal", "done")
    code.call(code.given["function"], code.given["arguments"], part)
    b.emit("inc", part)
    b.emit("jump", "next")
    b.label("done")
    b.emit("return")
    return b.finish()


def each_listing(machine: VectorMachine) -> Listing:
    """`void each(const Each *, size_t part)`: lets functions of one argument be the parts of a job."""
    code = _Code(machine, "rw_each", ("each", "part"))
    b = code.b
    function, address = b.general("function"), b.general("address")
    each = code.given["each"]
    b.emit("mov", address, b.at(each, Each.step.offset))
    b.emit("imul", address, code.given["part"])
    b.emit("add", address, b.at(each, Each.first.offset))
    b.emit("mov", function, b.at(each, Each.function.offset))
    code.call(function, address, code.given["part"])
    b.emit("return")
    return b.finish()
