"""Machines, instructions and layouts of the user's own, from a TOML file.

    [layouts.board]                         # board.toml:board
    tile = [4, 4]
    type = "f32"
    lane = [[0, 1], [0, 2]]
    item = [[1, 0], [2, 0]]

    [instructions.dot4]                     # board.toml:dot4:A
    sizes = [4, 4, 4]                       # m, n, k
    A = { type = "f16", lane = "m0-1", item = "k0-1" }
    B = { type = "f16", lane = "n0-1", item = "k0-1" }
    D = { type = "f32", lane = "n0-1", item = "m0-1" }

    [machine]                               # --machine board.toml
    name = "board"
    like = "sm_80"                          # what is not said is as there
    lanes = 4
    costs = { shuffle = 3 }

Each part may be left out. A file stands wherever a name does: `board.toml:board`, `board.toml:dot4:A^T`.
Where the machine comes from the file, its instructions are found by their bare names too.

An instruction may also have `mnemonic` (its own name otherwise), `blocks`, and `machines`, a list of names
without which any machine will do. C lies where D lies unless it is given; A and B may be missing where
they are not in registers. How a layout is written down is said in `machines.user.layout`.

A machine may change `title`, `lanes`, `registers`, `costs`, `shuffle_widths`, `packings`, `exchanges`,
`opcode_costs`, `shared_bytes`, `shared_banks` and `shared_widths`. It keeps those instructions of its model
that its lanes can execute.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.files import file_failure, nearest_beside, read_file
from regweave.layouts import Layout
from regweave.machines.gpu import OPERAND_AXES, MatrixInstruction, WarpMachine
from regweave.machines.user.keys import (
    check_keys,
    read_names,
    read_number,
    read_numbers,
    read_table,
    read_text,
)
from regweave.machines.user.layout import described_layout, described_operand
from regweave.machines.user.machine import derived_machine

_ENDING = ".toml"
_SUFFIXES = frozenset("@^")  # what they begin with
_MOST_BYTES = 1 << 24
_MOST_PARTS = 1000


@dataclass(frozen=True)
class UserFile:
    """What a file describes; `machine` is None if it describes none."""

    path: str
    layouts: Mapping[str, Layout]
    instructions: Mapping[str, MatrixInstruction]
    machine: WarpMachine | None

    def layout(self, name: str, machine: WarpMachine | None) -> Layout:
        """The layout `name` or `instruction:operand`.

        Raises InputError with the file's names if there is none, UnsupportedError if `machine` is not one of
        those that the instruction names.
        """
        if name in self.layouts:
            return self.layouts[name]
        instruction, _, operand = name.rpartition(":")
        if operand not in getattr(self.instructions.get(instruction), "fragments", ()):
            names = [*self.layouts]
            for key, entry in self.instructions.items():
                names += [f"{key}:{letter}" for letter in entry.fragments]
            raise self._unknown("layout", name, names)
        return self.instruction(instruction, machine).fragments[operand]

    def instruction(self, name: str, machine: WarpMachine | None) -> MatrixInstruction:
        """The instruction `name`; errors as for layouts."""
        if name not in self.instructions:
            raise self._unknown("instruction", name, [*self.instructions])
        entry = self.instructions[name]
        if machine is not None and entry.support and machine.name not in entry.support:
            raise UnsupportedError(
                f"{machine.name} has no {name}",
                where=self.path,
                expected="one of " + ", ".join(entry.support),
            )
        return entry

    def _unknown(self, kind: str, name: str, names: list[str]) -> InputError:
        return InputError(
            f"no {kind} {name!r} in {self.path}" if name else f"no {kind} of {self.path} is named",
            expected="one of " + ", ".join(names) if names else "a file that has some",
            nearest=nearest_names(name, names),
            fix=f"write it like {self.path}:{names[0]}" if names and not name else None,
        )


def split_name(name: str) -> tuple[str, str] | None:
    """(file, the rest) of a name that begins with a TOML file, or None."""
    start, ending, rest = name.partition(_ENDING)
    if not ending or (rest and not rest.startswith(":")):
        return None
    return start + ending, rest[1:]


def read_user_file(path: str, find_machine: Callable[[str], WarpMachine]) -> UserFile:
    """The contents of a file; `find_machine` finds the machine that the file's own is like.

    Raises InputError naming the place for anything that cannot be read or does not hold together.
    """
    if not path.isprintable():  # no file of such a name was meant, nor can messages and code show it
        raise InputError(f"{path!r} names no file", expected="a TOML file")
    try:
        status = Path(path).stat()
        return _read(path, status.st_mtime_ns, status.st_size, find_machine)
    except OSError as error:
        failure = file_failure(OSError(error.errno, error.strerror, path))
        raise InputError(
            f"cannot read {path}: {failure.what}",
            where=path,
            expected="a TOML file",
            nearest=nearest_beside(Path(path), ".toml"),
            fix=failure.fix,
        ) from None


@lru_cache(maxsize=32)
def _read(path: str, changed: int, size: int, find_machine: Callable[[str], WarpMachine]) -> UserFile:
    """The file in the state that its time of change and size stand for."""
    text = read_file(Path(path), _MOST_BYTES)
    for number, line in enumerate(text.splitlines(), 1):
        # tomllib takes a time that grows with the square of this
        if line.partition("=")[0].count(".") > _MOST_PARTS and not line.lstrip().startswith("#"):
            raise InputError("a key of thousands of parts", where=f"{path}, line {number}",
                             expected=f"at most {_MOST_PARTS}")  # fmt: skip
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits
        raise InputError(f"no TOML: {error}", where=path) from None
    check_keys(values, ("layouts", "instructions", "machine"), path)
    layouts = {
        name: described_layout(entry, f"{path}:{name}", f"{path}, layouts.{name}")
        for name, entry in _named(values, "layouts", path)
    }
    instructions = {
        name: _instruction(entry, name, f"{path}, instructions.{name}")
        for name, entry in _named(values, "instructions", path)
    }
    machine = None
    if "machine" in values:
        machine = derived_machine(values["machine"], f"{path}, machine", instructions, find_machine)
    return UserFile(path, layouts, instructions, machine)


def _named(values: Any, key: str, path: str) -> Iterator[tuple[str, Any]]:
    """The entries of a table whose names can be asked for; InputError for any other name."""
    for name, entry in read_table(values, key, path).items():
        if not name or not name.isprintable() or not _SUFFIXES.isdisjoint(name):
            raise InputError(
                f"{name!r} cannot name an entry",
                where=f"{path}, {key}",
                expected=f"one line of text without {' or '.join(sorted(_SUFFIXES))}",
            )
        yield name, entry


def _instruction(values: Any, name: str, where: str) -> MatrixInstruction:
    check_keys(values, {"mnemonic", "sizes", "blocks", "machines", *OPERAND_AXES}, where, ("sizes", "D"))
    sizes = read_numbers(values, "sizes", where)
    if len(sizes) != 3:
        raise InputError(f"sizes = {values['sizes']!r}", where=where, expected="three numbers: m, n, k")
    m, n, k = sizes
    blocks = read_number(values, "blocks", where) if "blocks" in values else 1
    machines = read_names(values, "machines", where) if "machines" in values else []
    mnemonic = read_text(values, "mnemonic", where) if "mnemonic" in values else name
    fragments = {}
    for operand in OPERAND_AXES:
        described = values.get(operand, values["D"] if operand == "C" else None)
        if described is not None:
            place = f"{where}, {operand}"
            fragments[operand] = described_operand(
                described, f"{name}:{operand}", place, operand, (m, n, k), blocks
            )
    return MatrixInstruction(name, mnemonic, m, n, k, dict.fromkeys(machines, "native"), fragments, blocks)
