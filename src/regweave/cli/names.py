"""Layouts and machines on the command line: what an argument means, and what the shell completes it to.

    $ regweave layout mine.json@f16
    $ regweave rearrange '((4,8),(2,2)):((32,1),(16,8))' mma.m16n8k8.tf32:A
    $ regweave layout mma.m16n8k8.<TAB>

A layout is a name, a pasted notation, or a file with one: a JSON document, a CSV or Markdown table, a Triton
attribute, a CuTe layout. A table that does not name itself is
called as its file. The suffixes `@TYPE` and `^T` follow names, texts and files alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter
from cyclopts.completion import CompletionContext

from regweave.errors import InputError
from regweave.files import read_file, standing

_KINDS = ("json", "csv", "md", "txt", "mlir", "ttgir", "cute")
_FILE = re.compile(rf"(?P<path>[^\n#({{|]+\.(?:{'|'.join(_KINDS)}))(?P<suffixes>(?:@\w+|\^T)*)")
_ENDINGS = ", ".join(f".{kind}" for kind in _KINDS) + " (or .toml:NAME)"
_MOST_BYTES = 1 << 24


def _complete_layouts(context: CompletionContext) -> Iterator[str]:
    """The names of layouts that begin like the word; those of one instruction once it is complete."""
    from regweave.machines.catalogue import fragment_names

    return (name for name in fragment_names() if name.startswith(context.incomplete))


def _complete_machines(context: CompletionContext) -> Iterator[str]:
    from regweave.machines.catalogue import machine_names

    return (name for name in machine_names() if name.startswith(context.incomplete))


def _complete_devices(context: CompletionContext) -> Iterator[str]:
    from regweave.machines.compute import compute_machine_names

    return (name for name in compute_machine_names() if name.startswith(context.incomplete))


def _complete_strategies(context: CompletionContext) -> Iterator[str]:
    from regweave.rearrangement import STRATEGIES

    return (name for name in ("auto", *STRATEGIES) if name.startswith(context.incomplete))


def _complete_targets(context: CompletionContext) -> Iterator[str]:
    from regweave.emitters import TARGETS

    return (name for name in TARGETS if name.startswith(context.incomplete))


LayoutName: TypeAlias = Annotated[str, Parameter(completer=_complete_layouts)]
MachineName: TypeAlias = Annotated[str, Parameter(completer=_complete_machines)]
DeviceName: TypeAlias = Annotated[str, Parameter(completer=_complete_devices)]
StrategyName: TypeAlias = Annotated[str, Parameter(completer=_complete_strategies)]
TargetName: TypeAlias = Annotated[str, Parameter(completer=_complete_targets)]


def _refuse_files(name: str) -> None:
    """InputError for a folder, and for a file whose ending does not say what is in it."""
    there = standing(name)
    if there is None or name.endswith(".toml"):
        return
    from regweave.machines.catalogue import find_layout

    with suppress(InputError):
        find_layout(name)
        return  # a file that happens to be called as a layout
    raise InputError(
        f"{name!r} is {there}, not a layout",
        where="the command line",
        expected=f"a name, a pasted notation, or a file whose name ends in {_ENDINGS}",
        fix="name a file in it" if there == "a folder" else "give its name one of these endings",
    )


def read_layout(name: str) -> str:
    """`name`, or the text of the file that it names with the suffixes; InputError if that is no text."""
    match = _FILE.fullmatch(name)
    if match is None:
        _refuse_files(name)
        return name
    from regweave.machines.notations import is_notation, read_document

    path = Path(match["path"])
    text = read_file(path, _MOST_BYTES).strip()
    if path.suffix == ".json":
        read_document(text, str(path))  # a better complaint than that there is no such name
    elif not is_notation(text):
        raise InputError(
            "no layout",
            where=str(path),
            expected="a Triton attribute, a CuTe layout, a CSV or a Markdown table",
        )
    table = text.startswith(("lane,", "|"))
    return (f"name,{path.stem}\n" if table else "") + text + match["suffixes"]
