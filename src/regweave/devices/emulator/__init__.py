"""An emulator of AMD's GCN and CDNA processors: runs kernels without such a device, finds their faults.

A kernel becomes a `program` (or is read from a compiler's text: `compiled`); `instructions` make a function
of each of its steps; `running` calls these on all waves that stand at the same step, whose registers and
memories are `state`. `calls` does it all; `trials` runs lane-level programs that way.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.devices.emulator.calls import Run, run
    from regweave.devices.emulator.compiled import read_compiled
    from regweave.devices.emulator.program import Program, read_kernel
    from regweave.devices.emulator.trials import execute, execute_all

__all__ = ["Program", "Run", "execute", "execute_all", "read_compiled", "read_kernel", "run"]

__getattr__ = lazy_names(
    __name__,
    calls=("Run", "run"),
    compiled=("read_compiled",),
    program=("Program", "read_kernel"),
    trials=("execute", "execute_all"),
)
