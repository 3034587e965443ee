"""Frozen dataclasses that are made fast.

    @frozen
    class Panel:
        start: int
        columns: int

    Panel(0, 64) == Panel(0, 64)          # and it hashes and prints as a frozen dataclass does

`dataclasses` compiles six methods for every class, 0.4 ms each time a process starts; for the classes that a
cascade needs that is as much as all its other work. Here comparing, hashing and printing are shared by all
classes, and a class that adds no fields to another one compiles nothing. For the classes that every process
needs; the others are plain `dataclass(frozen=True)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, eq: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Any = None, /, *, eq: bool = True) -> Any:
    """Make a class a frozen dataclass; with `eq` False its objects equal only themselves."""
    return _make(cls, eq) if cls is not None else lambda later: _make(later, eq)


def _make(cls: type[T], eq: bool) -> type[T]:
    shared: dict[str, Any] = {"__repr__": _show}
    if is_dataclass(cls) and not _adds_fields(cls):
        shared |= {"__setattr__": _refuse, "__delattr__": _refuse}
    else:
        cls = dataclass(frozen=True, eq=False, repr=False)(cls)
    if eq:
        compared = tuple(entry.name for entry in fields(cls) if entry.compare)  # type: ignore[arg-type]
        shared |= {"__eq__": _equal, "__hash__": _hash, "__compared__": compared}
    for name, method in shared.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    return cls


def _adds_fields(cls: type) -> bool:
    """Whether the class itself declares anything but class variables."""
    kinds = inspect.get_annotations(cls).values()
    return any(not str(kind).removeprefix("typing.").startswith("ClassVar") for kind in kinds)


def _show(self: Any) -> str:
    shown = (f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self) if entry.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _contents(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__compared__]


def _equal(self: Any, other: object) -> Any:
    return _contents(self) == _contents(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash((type(self), *_contents(self)))


def _refuse(self: Any, name: str, *_: object) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")
