"""The two errors that take the whole analysis to explain: out of registers, and reads of nothing."""

from __future__ import annotations

from regweave.assembly.colouring import Stuck
from regweave.assembly.flow import Flow
from regweave.assembly.maps import Pressure, live_sets
from regweave.assembly.program import Program
from regweave.assembly.variables import Variable, members
from regweave.errors import AssemblyError, RegisterError

#: So many variables are listed at most.
_MOST_ROWS = 64


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


def register_error(program: Program, flow: Flow, stuck: Stuck, pressure: Pressure) -> RegisterError:
    """Shows the point of highest pressure on the class that ran out, and everything that is live there."""
    variable = stuck.variable
    register_class = variable.register_class
    profile, limit = pressure.profile[register_class.name], pressure.limit[register_class.name]
    sets = live_sets(program, flow)
    peak = max(range(len(profile)), key=profile.__getitem__)
    if profile[peak] <= limit:
        near = [i for i, (before, after) in enumerate(sets) if (before | after) & variable.bit]
        peak = max(near, key=profile.__getitem__, default=peak)
    rows = []
    for v in sorted(members(sets[peak][0] | sets[peak][1])):
        other = program.variables[v]
        if other.register_class is register_class:
            rows.append(f"  {_history(program, other)}")
    if len(rows) > _MOST_ROWS:
        rows[_MOST_ROWS:] = [f"  and {len(rows) - _MOST_ROWS} more"]
    reason = f" ({stuck.reason})" if stuck.reason else ""
    return RegisterError(
        f"{program.name} needs {profile[peak]} of {limit} {register_class.name} registers at "
        f"{program.describe(peak)}, and none is left for {variable.name!r}{reason}. Live there:\n"
        + "\n".join(rows)
        + "\n",
        fix="use fewer variables at once, or end some earlier",
    )


def _history(program: Program, variable: Variable) -> str:
    """Where a variable is first written and last read, in a line."""
    written = next((i for i, born in enumerate(program.defines) if born & variable.bit), None)
    reads = [i for i, used in enumerate(program.uses) if used & variable.bit]
    size = f" x{variable.count}" if variable.count > 1 else ""
    pinned = f" pinned to {variable.pin}" if variable.pin else ""
    origin = "an argument" if written is None else f"defined at {program.describe(written)}"
    end = f"last use {program.describe(reads[-1])}" if reads else "never used"
    return f"{variable.name}{size}{pinned}: {origin}, {end}"
