"""Machine descriptions: validated data, one folder per family.

Each kind says what one job needs: a `gpu.WarpMachine` what rearrangements need (fragments, exchanges, costs:
`nvidia`, `amd`, `arm`, and `x86` by way of `tiles`), a `target.AssemblyMachine` what assembly needs
(registers, and a `table` of `instructions`: `x86`, `amd.assembly`), a machine of `compute` what plans of
convolutions need (registers of a thread, rates). `catalogue` finds them by name, `notations` and `user` read
what a person pastes or writes.
"""

from regweave.machines.machine import Machine, RegisterClass
from regweave.machines.target import AssemblyMachine

__all__ = ["AssemblyMachine", "Machine", "RegisterClass"]
