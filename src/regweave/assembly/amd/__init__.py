"""Kernels for AMD's GCN and CDNA processors: a builder, and what it analyses, assigns and inserts.

A `kernel` collects instructions: `lines` takes a line apart, `operand_lookup` finds what its operands are in
the `registry` of variables, `shapes` says what it reads and writes (by `signatures`), `recording` keeps it.
When it is finished, `parts` and `lanes` say what is live, `assignment` chooses registers, `waits` and
`distances` what must stand between, `proof` checks. `finished` is the text, with the `descriptor` that a
loader reads.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.assembly.amd.finished import FinishedKernel
    from regweave.assembly.amd.kernel import Kernel
    from regweave.assembly.amd.operand_lookup import Part
    from regweave.assembly.amd.text import parse_kernel

__all__ = ["FinishedKernel", "Kernel", "Part", "parse_kernel"]

__getattr__ = lazy_names(
    __name__,
    finished=("FinishedKernel",),
    kernel=("Kernel",),
    operand_lookup=("Part",),
    text=("parse_kernel",),
)
