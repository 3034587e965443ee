"""The text form (`.rws`): the same kernel as the builder's calls, written down.

    kernel scale
    workgroup 64 1 1                   ; work-items along x, y, z
    argument x pointer                 ; its place in bytes is argument(x)
    reserve row s1 @ s2                ; a keyword with a predefined register
    vector offset, value               ; declared symbols: a class, `x4` for four consecutive registers
    scalar base x2
    variable quad                      ; a symbol whose class the constraint of a template decides

    `s_load_dwordx2 %0, %kernarg, argument(x)` base            ; an operation's own instruction, bound symbols
    `v_mov_b32 %0.3, %row` quad with 0:v4                      ; ... and its constraints
    v_lshlrev_b32 offset, 2, thread_x                          ; plain instructions: names as they are
    loop:
      global_load_dword value, offset, base
      v_mul_f32 value, 2.0, value
      global_store_dword offset, value, base

Further lines at the top: `lds BYTES`, `occupancy WAVES`, `waits manual`. Comments begin with ; or //. Errors
tell the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regweave.assembly.amd.kernel import Kernel
from regweave.assembly.amd.lines import read_operand
from regweave.assembly.amd.operand_lookup import Part
from regweave.assembly.reading import at_line, check_digits, code_lines
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.targets import GcnMachine

_SYMBOL = re.compile(r"([A-Za-z_]\w*)(?:\s+x\s*([1-9]\d*))?(?:\s*@\s*(\w+))?\Z")
_TEMPLATE = re.compile(r"`([^`]*)`\s*(.*)\Z", re.DOTALL)
_LABEL = re.compile(r"([.\w$]+)\s*:\Z")
_RESERVE = re.compile(r"([A-Za-z_]\w*)\s+([vsa]\d*)\s*@\s*([vsa]\d+)\Z")
_CLASSES = ("vector", "scalar", "accumulation")
#: What may be said before the first operation, and the parameter of the kernel that it is.
_SETTINGS = ("workgroup", "lds", "occupancy", "waits")


@dataclass
class _Reader:
    """What has been read so far: a kernel, made anew by each setting, until the first other line fixes it."""

    machine: GcnMachine
    settings: dict[str, Any] = field(default_factory=dict)
    kernel: Kernel | None = None
    fixed: bool = False
    unknown: dict[str, Variable] = field(default_factory=dict)

    def set(self, name: str, value: Any) -> None:
        """One more setting; the kernel refuses it here, so that the error names its line."""
        self.settings[name] = value
        self.kernel = Kernel(self.machine, **self.settings)

    def begun(self) -> Kernel:
        """The kernel, no longer to be set."""
        if self.kernel is None:
            raise AssemblyError("the first line does not name the kernel", expected="kernel NAME")
        self.fixed = True
        return self.kernel


def parse_kernel(text: str, machine: GcnMachine) -> Kernel:
    """A builder with the kernel of `text`; AssemblyError with the line that cannot be understood."""
    reader = _Reader(machine)
    for number, line in code_lines(text, comment=";|//"):
        with at_line(number, line):
            check_digits(line)
            _read(reader, line)
    return reader.begun()


def _read(reader: _Reader, line: str) -> None:
    """One line."""
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    if reader.kernel is None or word == "kernel":
        if word != "kernel" or reader.kernel is not None or not rest:
            raise AssemblyError("a text begins with one kernel's name", expected="kernel NAME")
        reader.set("name", rest)
        return
    if word in _SETTINGS:
        _set(reader, word, rest)
        return
    kernel = reader.begun()
    declare: dict[str, Callable[[], None]] = {
        "argument": lambda: _argument(kernel, rest),
        "reserve": lambda: _reserve(kernel, rest),
        "variable": lambda: _unknown(reader, rest),
        **{name: lambda name=word: _declare(kernel, name, rest) for name in _CLASSES},
    }
    label, template = _LABEL.match(line), _TEMPLATE.match(line)
    if word in declare:
        declare[word]()
    elif label is not None:
        kernel.label(label[1])
    elif template is not None:
        operands, _, constraints = template[2].partition(" with ")
        bound = [_operand(reader, kernel, part.strip()) for part in operands.split(",") if part.strip()]
        kernel.emit_template(template[1], *bound, constraints=constraints)
    else:
        kernel.emit_line(line)


def _set(reader: _Reader, word: str, rest: str) -> None:
    if reader.fixed:
        raise AssemblyError(f"{word!r} stands behind the first declaration", fix="move it to the top")
    if word == "waits":
        reader.set("waits", rest)
        return
    numbers = rest.split()
    if not all(number.isdecimal() and number.isascii() for number in numbers) or len(numbers) not in (
        (1, 2, 3) if word == "workgroup" else (1,)
    ):
        raise AssemblyError(
            f"{word} {rest!r}", expected="whole numbers: workgroup X Y Z, lds BYTES, occupancy WAVES"
        )
    values = [int(number) for number in numbers]
    if word == "workgroup":
        reader.set("workgroup", (*values, 1, 1)[:3])
    else:
        reader.set("lds_bytes" if word == "lds" else word, values[0])


def _argument(kernel: Kernel, rest: str) -> None:
    name, _, kind = rest.partition(" ")
    kernel.argument(name, kind.strip())


def _reserve(kernel: Kernel, rest: str) -> None:
    match = _RESERVE.match(rest)
    if match is None:
        raise AssemblyError(f"reserve {rest!r}", expected="reserve NAME s2 @ s8")
    kernel.reserve(*match.groups())


def _declare(kernel: Kernel, class_name: str, rest: str) -> None:
    for symbol in rest.split(","):
        match = _SYMBOL.match(symbol.strip())
        if match is None:
            raise AssemblyError(
                f"{symbol.strip()!r} is not a symbol", expected="name, name x4 or name x2 @ s4"
            )
        name, count, pin = match.groups()
        if name in kernel:
            raise AssemblyError(f"{name!r} is declared twice", fix="give each symbol a name of its own")
        if class_name == "accumulation":
            kernel.accumulation(name, count=int(count or 1), pin=pin)
        else:
            kernel.variable(name, class_name, count=int(count or 1), pin=pin)


def _unknown(reader: _Reader, rest: str) -> None:
    for symbol in rest.split(","):
        name = symbol.strip()
        if not name.isidentifier() or name in reader.unknown or name in reader.begun():
            raise AssemblyError(f"{name!r} is not a new symbol", expected="a name that is not declared yet")
        reader.unknown[name] = Variable(name)


def _operand(reader: _Reader, kernel: Kernel, text: str) -> Any:
    """A symbol or a part of one as a variable; anything else as the text that it is."""
    read = read_operand(text, bare=True)
    if read.kind != "reference" or read.before:
        return text
    variable = kernel[read.text] if read.text in kernel else reader.unknown.get(read.text)
    if variable is None:
        return text
    return Part(variable, read.first, read.stop - read.first) if read.stop else variable
