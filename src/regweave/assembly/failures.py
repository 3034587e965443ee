"""The two errors that need the whole analysis to explain: registers ran out, and a read of what was never
written."""

from __future__ import annotations

from regweave.assembly.colouring import Stuck
from regweave.assembly.flow import Flow
from regweave.assembly.maps import live_sets, measure_pressure
from regweave.assembly.program import Program
from regweave.errors import AssemblyError, RegisterError


def unwritten_error(program: Program, unwritten: int) -> AssemblyError:
    """Names the variables that may be read before they are written, with the first such read of each."""
    parts = []
    for variable in program.variables:
        if unwritten & variable.bit:
            first = next(i for i, used in enumerate(program.uses) if used & variable.bit)
            parts.append(f"{variable.name!r} (read at {program.describe(first)})")
    return AssemblyError(
        f"{program.name} may read a variable that was never written: {', '.join(parts)}",
        fix="write it on every way that leads there, or make it an argument",
    )


def register_error(program: Program, flow: Flow, stuck: Stuck) -> RegisterError:
    """Shows the point of highest pressure on the class that ran out, and everything that is live there."""
    variable = stuck.variable
    register_class = variable.register_class
    limit = register_class.count
    if program.stack_bytes is not None and program.machine.frame_register in register_class.registers:
        limit -= 1
    sets = live_sets(program, flow)
    profile = measure_pressure(program, flow).profile[register_class.name]
    mine = [i for i, live in enumerate(sets) if live & variable.bit]
    peak = max(range(len(profile)), key=profile.__getitem__)
    if profile[peak] <= limit and mine:
        peak = max(mine, key=profile.__getitem__)
    rows = []
    for other in program.variables:
        if other.register_class is register_class and sets[peak] & other.bit:
            written = [i for i, born in enumerate(program.defines) if born & other.bit]
            read = [i for i, used in enumerate(program.uses) if used & other.bit]
            origin = f"defined at {program.describe(written[0])}" if written else "an argument"
            end = f"last use {program.describe(read[-1])}" if read else "never used"
            size = f" x{other.count}" if other.count > 1 else ""
            pinned = f" pinned to {other.pin}" if other.pin else ""
            rows.append(f"  {other.name}{size}{pinned}: {origin}, {end}")
    reason = f" ({stuck.reason})" if stuck.reason else ""
    return RegisterError(
        f"{program.name} needs {profile[peak]} {register_class.name} registers of {limit} at "
        f"{program.describe(peak)}: none is left for {variable.name!r}{reason}. Live there:\n"
        + "\n".join(rows)
        + "\n",
        fix="use fewer variables at once, or end some earlier",
    )
