"""Named values, each made and checked when it is first asked for.

A family has hundreds of matrix instructions with four layouts each; a process needs a few. So a table knows,
for every name, on which machines it is found and over how many lanes, and makes the value itself on demand:

    >>> pair = Layout("pair", (1, 2), "f32", [[0], [1]])
    >>> table = OnDemand({"pair": Entry({"here": "native"}, 2, lambda: pair)})
    >>> table.on("here")["pair"] is pair, len(table.on("elsewhere"))
    (True, 0)

Names and support are known without making anything, which is all that lists and error messages need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from regweave.errors import InputError


class Named(Protocol):
    """A value that knows its name and the lanes that hold it: a layout, a matrix instruction."""

    @property
    def name(self) -> str: ...
    @property
    def lanes(self) -> int: ...


T = TypeVar("T", bound=Named, covariant=True)


class Entry(Generic[T]):
    """What is known of a value beforehand, and how it is made.

    `support` says what each machine, by name, does with it (see `gpu.SUPPORT`); `lanes` how many lanes hold
    it; `operands` names those operands of an instruction that lie in registers, and is empty for a layout.
    """

    def __init__(
        self, support: Mapping[str, str], lanes: int, make: Callable[[], T], operands: str = ""
    ) -> None:
        self.support = support
        self.lanes = lanes
        self.operands = operands
        self._make = make

    @cached_property
    def value(self) -> T:
        """The value, made once."""
        value = self._make()
        if value.lanes != self.lanes:
            raise InputError(f"{value.name} is spread over {value.lanes} lanes", expected=f"{self.lanes}")
        return value


class OnDemand(Mapping[str, T]):
    """Entries by name; `aliases` maps other names to them (`table[alias]` is a KeyError: ask `resolve`).

    Asking for an entry raises InputError if what it makes has another name or another number of lanes.
    """

    def __init__(self, entries: Mapping[str, Entry[T]], aliases: Mapping[str, str] | None = None) -> None:
        self.entries = entries
        self.aliases = dict(aliases or {})

    def __getitem__(self, name: str) -> T:
        value = self.entries[name].value
        if value.name != name:
            raise InputError(f"the entry {name!r} makes {value.name!r}", expected="the value of that name")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def resolve(self, name: str) -> str | None:
        """The name under which `name` stands here, or None."""
        if name not in self.entries:
            name = self.aliases.get(name, name)
        return name if name in self.entries else None

    def on(self, machine: str) -> OnDemand[T]:
        """The entries that the machine of this name has."""
        entries = {name: entry for name, entry in self.entries.items() if machine in entry.support}
        return OnDemand(entries, self.aliases)
