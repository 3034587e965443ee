"""Who has which registers of a kernel: declared variables, reserved keywords, registers named outright.

k.vector("tile", count=4)          a variable; its registers are chosen when the kernel is finished
k.reserve("grid", "s2", "s8")      a keyword: s[8:9], and nothing else
k.emit("v_mov_b32", "v7", 0)       a register by its number: a variable of its own, pinned to v7
"""

from __future__ import annotations

from regweave.assembly.amd.lines import is_reserved
from regweave.assembly.amd.operands import Constraint
from regweave.assembly.recorder import Recorder
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError, nearest_names
from regweave.machines.amd.assembly.table import SPECIAL
from regweave.machines.amd.assembly.targets import GcnMachine

CLASSES = {"v": "vector", "s": "scalar", "a": "accumulation"}


class VariableRegistry(Recorder):
    """Variables by name and by register; `machine` may have fewer registers than `whole_machine`, to fit more
    waves."""

    machine: GcnMachine

    def __init__(self, machine: GcnMachine, whole_machine: GcnMachine, name: str) -> None:
        super().__init__(machine, name)
        self.whole_machine = whole_machine
        self._homes: dict[str, tuple[Variable, int]] = {}

    def _declare(
        self, variable: Variable, class_name: str, count: int, align: int, pin: str | None
    ) -> Variable:
        if not (isinstance(variable.name, str) and variable.name):
            raise AssemblyError(f"{variable.name!r} cannot be a variable's name", where=self.name)
        if not (is_whole(count) and is_whole(align) and isinstance(pin, str | None)):
            raise AssemblyError(
                f"{variable.name!r} of {count!r} registers, aligned to {align!r}, pinned to {pin!r}",
                where=self.name,
                expected="whole numbers, and a register's name",
            )
        if is_reserved(variable.name):
            raise AssemblyError(
                f"{variable.name!r} is a register and cannot be a variable",
                where=self.name,
                fix="give it another name",
            )
        return self._give(variable, class_name, count, align, pin, named=True)

    def _give(
        self, variable: Variable, class_name: str, count: int, align: int, pin: str | None, *, named: bool
    ) -> Variable:
        step = self.machine.alignment(class_name[0], count) if class_name != "special" else 1
        if pin is not None and pin[1:].isdecimal() and int(pin[1:]) % step:
            raise AssemblyError(
                f"{variable.name!r} cannot be {count} registers from {pin} on",
                where=self.machine.name,
                expected=f"a first number that is a multiple of {step}",
            )
        if align & (align - 1) or align < 1:
            raise AssemblyError(f"alignment {align} of {variable.name!r}", expected="a power of two")
        self._register(variable, class_name, count, max(align, step), pin, named=named)
        for k, register in enumerate(variable.pinned):
            self._homes.setdefault(register, (variable, k))
        return variable

    def _reserve(self, constraint: Constraint) -> Variable:
        known = self._names.get(constraint.target)
        if known is not None:
            same = (known.pin, known.count, known.kind[:1]) == (
                constraint.register, constraint.count, constraint.letter,
            )  # fmt: skip
            if not same:
                raise AssemblyError(f"{constraint.target!r} is reserved twice, differently", where=self.name)
            return known
        return self._declare(
            Variable(constraint.target),
            CLASSES[constraint.letter],
            constraint.count,
            constraint.alignment,
            constraint.register,
        )

    def _look_up(self, name: str) -> Variable:
        known = {*self._names, *(keyword.name for keyword in self.whole_machine.keywords)}
        if name.startswith("src_") or name == "lds_direct":
            raise AssemblyError(
                f"{name!r} reads a register that is not followed under that name",
                where=self.name,
                fix="read SCC by s_cselect_b32, VCC and EXEC by their names, LDS by ds_read",
            )
        if name not in self._names:
            raise AssemblyError(
                f"no register is registered as {name!r}",
                where=self.name,
                nearest=nearest_names(name, known),
                fix=self._packed_thread(name),
            )
        return self._names[name]

    def _packed_thread(self, name: str) -> str | None:
        """Where a work-item's number is found on machines that pack all three into one register."""
        axis = {"thread_x": 0, "thread_y": 1, "thread_z": 2}.get(name)
        if axis is None or not self.whole_machine.unified:
            return None
        bits = f"bits {10 * axis} to {10 * axis + 9}"
        return f"{self.whole_machine.name} has it in {bits} of `thread`: v_bfe_u32 t, thread, {10 * axis}, 10"

    def _home(self, register: str) -> tuple[Variable, int]:
        """The variable that a register named outright belongs to."""
        found = self._homes.get(register)
        if found is None:
            name = "special" if register in SPECIAL or "_" in register else CLASSES[register[0]]
            if register not in self.machine.register_class(name).registers:
                raise AssemblyError(
                    f"{self.machine.name} has no register {register!r} for this kernel",
                    where=self.name,
                    expected=f"up to {self.machine.register_class(name).registers[-1]}",
                )
            self._give(Variable(register), name, 1, 1, register, named=False)
            found = self._homes[register]
        return found


def is_whole(value: object) -> bool:
    """Whether a value counts something: an int of any kind, but no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)
