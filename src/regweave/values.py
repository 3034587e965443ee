"""Frozen dataclasses that are made fast.

    @frozen
    class Panel:
        start: int
        columns: int

    Panel(0, 64) == Panel(0, 64)          # and it hashes and prints as a frozen dataclass does

`dataclasses` compiles six methods for every class, 0.4 ms each time a process starts; for the classes that a
cascade needs that is as much as all its other work. Here comparing, hashing, printing and refusing are shared
by all classes, and the one method that is worth compiling, `__init__`, is compiled when a class has made some
objects without: of the classes that a process loads, most make few or none. For the classes that every
process needs; the others are plain `dataclass(frozen=True)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
#: So many objects of a class are made without a method compiled for it.
_FEW = 16


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, eq: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Any = None, /, *, eq: bool = True) -> Any:
    """Make a class a frozen dataclass; with `eq` False its objects equal only themselves."""
    return _make(cls, eq) if cls is not None else lambda later: _make(later, eq)


def _make(cls: type[T], eq: bool) -> type[T]:
    shared: dict[str, Any] = {"__repr__": _show, "__setattr__": _refuse, "__delattr__": _refuse}
    if not is_dataclass(cls) or _adds_fields(cls):
        _take_fields(cls)
        shared["__init__"] = _first_init(cls)
    if eq:
        compared = tuple(entry.name for entry in fields(cls) if entry.compare)  # type: ignore[arg-type]
        shared |= {"__eq__": _equal, "__hash__": _hash, "__compared__": compared}
    for name, method in shared.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    return cls


def _first_init(cls: Any) -> Callable[..., None]:
    """An `__init__` for a few objects, which then puts the compiled one in its own place."""
    left = _FEW

    def init(self: Any, /, *args: Any, **named: Any) -> None:
        nonlocal left
        left -= 1
        values = _bound(cls, args, named) if left > 0 else None
        if values is None:
            cls.__init__ = _compiled_init(cls)
            cls.__init__(self, *args, **named)
            return
        self.__dict__.update(values)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    return init


def _bound(cls: Any, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields' values; None where the arguments are wrong, which the compiled method says best."""
    entries = fields(cls)
    taken = [entry.name for entry in entries if entry.init and not entry.kw_only]
    values = dict(zip(taken, args, strict=False))
    if len(args) > len(taken) or not named.keys().isdisjoint(values):
        return None
    left = len(named)
    for entry in entries:
        name = entry.name
        if name in values:
            continue
        if entry.init and name in named:
            values[name] = named[name]
            left -= 1
        elif entry.default_factory is not MISSING:
            values[name] = entry.default_factory()
        elif entry.init and entry.default is MISSING:
            return None
        elif entry.init:
            values[name] = entry.default
    return None if left else values


def _compiled_init(cls: Any) -> Callable[..., None]:
    """The method that takes the fields; it writes past `__setattr__`, which refuses."""
    taken, by_name, body = ["self"], ["*"], ["values = self.__dict__"]
    names: dict[str, Any] = {"MISSING": MISSING}
    for entry in fields(cls):
        name, value = entry.name, entry.name
        if entry.default_factory is not MISSING:
            names[f"make_{name}"] = entry.default_factory
            value = f"make_{name}() if {name} is MISSING else {name}" if entry.init else f"make_{name}()"
            default = "=MISSING"
        elif entry.default is not MISSING:
            names[f"default_{name}"] = entry.default
            default = f"=default_{name}"
        else:
            default = ""
        if entry.init:
            (by_name if entry.kw_only else taken).append(name + default)
            body.append(f"values[{name!r}] = {value}")
        elif entry.default_factory is not MISSING:
            body.append(f"values[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(taken + by_name if len(by_name) > 1 else taken)
    exec(f"def __init__({parameters}):\n " + "\n ".join(body), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


@dataclass(frozen=True)
class _Example:
    """A frozen dataclass, to be told as one of which others are made."""


def _take_fields(cls: Any) -> None:
    """What `dataclass(frozen=True)` notes about a class and its fields, without any methods.

    A class of the same fields but without bases is made a dataclass that is not frozen: `dataclass` would
    compile two methods that refuse for one that is, and refuse to make one that is not of frozen bases.
    """
    own = vars(cls)
    kinds = inspect.get_annotations(cls)
    body = {name: own[name] for name in ("__module__", "__doc__", *kinds) if name in own}
    alone: Any = dataclass(init=False, eq=False, repr=False)(
        type(cls.__name__, (), body | {"__annotations__": kinds})
    )
    known: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        known |= getattr(base, "__dataclass_fields__", {})
    for name in kinds:
        if isinstance(own.get(name), Field):
            if name in vars(alone):
                setattr(cls, name, vars(alone)[name])
            else:
                delattr(cls, name)
    cls.__dataclass_fields__ = known | alone.__dataclass_fields__
    cls.__dataclass_params__ = _Example.__dataclass_params__  # type: ignore[attr-defined]


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
