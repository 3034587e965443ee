"""Machines that kernels are written for in assembly: what the assembly builder asks of any of them.

Beside registers and instructions these are the reserved keywords of the calling convention and a few texts:
an address, a function's head, its frame. A new family subclasses `AssemblyMachine` and writes those; builder,
analysis and allocation stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from regweave.machines.machine import Machine
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.machines.table import Table


@frozen(eq=False)
class AssemblyMachine(Machine):
    """A machine with an instruction table, which `make_table` makes when it is first asked for.

    `views[v][register]` is the register's name under view v. `arguments` are the registers of a function's
    arguments, in order: the reserved keywords. `mask_class` is the class that holds lane masks. `repeats` is
    how many copies of a constant the pool holds (1 where instructions repeat one element themselves).
    `frame_register` is the general register that a function with a stack gives up, `result` the one that a C
    function returns an integer in."""

    make_table: Callable[[], Table] = field(kw_only=True, repr=False)
    views: Mapping[str, Mapping[str, str]] = field(kw_only=True, repr=False)
    arguments: tuple[str, ...] = field(kw_only=True)
    mask_class: str = field(kw_only=True)
    repeats: int = field(kw_only=True)
    frame_register: str = field(kw_only=True)
    result: str = field(kw_only=True)

    @cached_property
    def spellings(self) -> Mapping[str, str]:
        """Every name that a register has in a text, and the register."""
        whole = {register: register for known in self.classes for register in known.registers}
        return whole | {shown: register for view in self.views.values() for register, shown in view.items()}

    @property
    def unnamable(self) -> Mapping[str, str]:
        """Registers and instructions that a template must not name, and why."""
        return {}

    def destroyed(self, mnemonic: str, operands: int) -> Sequence[str]:
        """The registers that an instruction of so many operands changes although none says so."""
        return ()

    def changes_flags(self, mnemonic: str) -> bool:
        """Whether an instruction in a text may change the condition flags."""
        return False

    @cached_property
    def table(self) -> Table:
        """The instructions by name."""
        return self.make_table()

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register; also its natural alignment in memory."""
        return 4 * self.lanes

    def address(self, base: str, index: str | None, scale: int, offset: int) -> str:
        """The text of the memory operand at base + index * scale + offset."""
        raise NotImplementedError

    def run(self, registers: Sequence[str]) -> str:
        """The text of consecutive registers as one operand; by default the first one's name, as on x86."""
        return registers[0]

    def data_base(self, symbol: str) -> str:
        """The base of an address of read-only data under `symbol`."""
        raise NotImplementedError

    def head(self, name: str) -> Sequence[str]:
        """The lines before a function's first instruction, its symbol included."""
        raise NotImplementedError

    def frame(
        self, saved: Sequence[str], stack_bytes: int | None, vectors: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        """The lines that enter a function and those before it returns.

        `saved` registers are kept, `stack_bytes` (None: no stack) reserved, `vectors` tells whether it uses
        any.
        """
        raise NotImplementedError
