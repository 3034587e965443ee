"""Layouts as people paste them: Triton attributes, CuTe layouts, tables and documents instead of names.

    >>> is_notation("#ttg.linear<{...}>"), is_notation("mma.m16n8k8.tf32:C")
    (True, False)
    >>> read_notation("((4,8),(2,2)):((32,1),(16,8))", (16, 8)).shape
    (16, 8)

Wherever a layout's name is accepted, such a text is too.
"""

from __future__ import annotations

from regweave.errors import InputError
from regweave.layouts import Layout, from_csv, from_markdown
from regweave.machines.notations.cute import read_cute
from regweave.machines.notations.documents import read_document
from regweave.machines.notations.triton import read_triton

__all__ = ["is_notation", "read_document", "read_notation"]

_TRITON = ("#", "tensor<", "//")
_CUTE = ("(", "Layout<", "Sw<")
_TABLES = {"lane,": from_csv, "|": from_markdown}
_NAME = "name,"


def is_notation(text: str) -> bool:
    """Whether `text` is a pasted layout, not a name: it begins as one does, or has several lines."""
    start = text.strip()
    return start.startswith((*_TRITON, *_CUTE, *_TABLES, _NAME, "{")) or "\n" in start


def read_notation(text: str, tile: tuple[int, int] | None = None) -> Layout:
    """The layout that `text` describes, on `tile` where the notation leaves that open.

    Triton attributes and tensor types (`#ttg...`, `tensor<...>`), CuTe layouts (`(shape):(stride)`), CSV
    and Markdown tables and JSON documents as layouts print them. A table may begin with its name, on a line
    `name,NAME`. Raises InputError that names the place in
    the text, and UnsupportedError for notations of something else than registers of one block.
    """
    start = text.strip()
    if start.startswith(_TRITON):
        return read_triton(text, tile)
    if start.startswith(_CUTE):
        return read_cute(text, tile)
    if start.startswith("{"):
        return _checked(read_document(text), tile)
    named, name = text, "table"
    if start.startswith(_NAME):
        line, _, named = start.partition("\n")
        name = line.removeprefix(_NAME).strip() or name
    for sign, reader in _TABLES.items():
        if named.strip().startswith(sign):
            return _checked(reader(named, name), tile)
    raise InputError(
        f"{start[:40]!r} is no layout",
        expected="a Triton attribute (#ttg...), a CuTe layout ((shape):(stride)), "
        "a CSV or Markdown table, or JSON",
    )


def _checked(layout: Layout, tile: tuple[int, int] | None) -> Layout:
    if tile is not None and layout.shape != tile:
        raise InputError(
            f"{layout.name} lays out a {layout.shape[0]} x {layout.shape[1]} tile",
            where="tile",
            expected=f"{tile[0]} x {tile[1]}",
        )
    return layout
