"""A device as a kernel of loops over memory sees it: registers of a thread, rows of storage, rates.

    >>> find_compute_machine("bifrost-g76").registers
    64

The other machine descriptions say what instructions hold and what moves cost; this one says how much work a
thread may keep in registers and how fast the device as a whole computes and reads. Rates are those of one
chip that is named; another with more units or memory is a `replace` away.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from regweave.errors import InputError
from regweave.values import frozen


@frozen
class VectorCore:
    """What a core makes of vectors that a compiler wrote, in multiply-adds of a vector; fitted to sweeps.

    `in_flight` are begun until the first one's sum can be added to. `weight_cost` could be done instead of
    reading a weight (0 where it is an operand in memory). Of `streams` rows the next lines are fetched in
    time, for one more `late` could be done. Up to `uncrowded` registers a compiler finds its way; each
    further one makes a tile longer by the share `crowded`.

    Sources: `regweave bench conv --opencl --sweep` on a Zen 4 (the defaults) and a Zen 3.
    """

    in_flight: float = 4.2
    weight_cost: float = 0.0
    streams: int = 18
    late: float = 19.0
    uncrowded: int = 19
    crowded: float = 0.016


@frozen
class ComputeMachine:
    """One device. `lanes` threads work in step; `width` words are one vector load of a thread.

    `registers` are those of 32 bits that a thread may have, `full_registers` those up to which as many
    threads stay resident as there can be (on a processor: vector registers, of which a thread is one
    position). `uniform` says whether what is the same for all threads stands elsewhere: in scalar registers,
    or in memory operands. `storage_row` is a cache line in bytes; `group` the threads of a work-group.
    Rates: `gflops` of f32 (an addition and a multiplication are two), `gb_per_s` of memory, `launch_us` for
    a kernel. `load_cost` is what a load of a thread costs in multiply-adds. `threads` are resident on the
    whole device. `kind` is how its code is written: for GPUs, for processors as vectors, or in assembly.
    `loads_ahead`: its compiler was seen to fill registers that are free with what a loop's body loads.
    `core` says how the vectors of a processor are executed.
    `chip` and `source` say whose rates these are and where the facts come from.
    """

    name: str
    title: str
    kind: Literal["gpu", "vectors", "assembly"]
    lanes: int
    width: int
    registers: int
    full_registers: int
    uniform: bool
    storage_row: int
    group: int
    threads: int
    gflops: float
    gb_per_s: float
    launch_us: float
    load_cost: float
    chip: str
    source: str
    loads_ahead: bool = False
    core: VectorCore = VectorCore()

    def __post_init__(self) -> None:
        for name in ("lanes", "width", "registers", "storage_row", "group", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", where=self.name, expected="at least 1")
        for name in ("gflops", "gb_per_s", "load_cost"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}", where=self.name, expected="more than 0")
        if self.launch_us < 0:
            raise InputError(f"launch_us is {self.launch_us}", where=self.name, expected="at least 0")
        if not 0 < self.full_registers <= self.registers:
            raise InputError(
                f"{self.full_registers} of {self.registers} registers at full occupancy", where=self.name
            )
        if self.storage_row & (self.storage_row - 1) or self.storage_row % (4 * self.width):
            raise InputError(
                f"a storage row of {self.storage_row} bytes",
                where=self.name,
                expected=f"a power of two, whole vectors of {4 * self.width}",
            )
        if self.group % self.lanes:
            raise InputError(
                f"groups of {self.group} threads", where=self.name, expected=f"whole warps of {self.lanes}"
            )


gpu_machine = partial(ComputeMachine, kind="gpu", width=4, load_cost=2.0)
"""A GPU: its threads load four words at a time."""
