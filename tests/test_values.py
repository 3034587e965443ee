"""Values behave as frozen dataclasses do, which the standard library makes for comparison."""

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest

from regweave.values import frozen


def pair(make, identity):
    """The same family of classes by `frozen` and by `dataclass`."""

    @make
    class Base:
        """A base."""

        name: ClassVar[str] = "base"

    @make
    class Plain(Base):
        """No fields of its own."""

        name: ClassVar[str] = "plain"

    @make
    class Point(Base):
        """Three fields."""

        x: float
        y: float = 2.0
        note: str = dataclasses.field(default="", repr=False, compare=False)

    @make
    class Same(Point):
        """The fields of another one."""

    @identity
    class Thing:
        """Equal only to itself."""

        x: int

    return Base, Plain, Point, Same, Thing


OURS = pair(frozen, frozen(eq=False))
THEIRS = pair(dataclasses.dataclass(frozen=True), dataclasses.dataclass(frozen=True, eq=False))


@pytest.mark.parametrize(("base", "plain", "point", "same", "thing"), [OURS, THEIRS], ids=["ours", "theirs"])
def test_what_a_frozen_dataclass_does(base, plain, point, same, thing):
    objects = (base(), plain(), point(1.0), point(1.0, 3.0), same(1.0), thing(1))
    for left in objects:
        for right in objects:
            assert (left == right) == (left is right)
    assert point(1.0, note="a") == point(1.0, 2.0, note="b")
    assert hash(point(1.0, note="a")) == hash(point(1.0, 2.0, note="b"))
    assert plain() == plain()
    assert thing(1) != thing(1)
    assert [str(one).split("<locals>.")[1] for one in objects[1:]] == [
        "Plain()",
        "Point(x=1.0, y=2.0)",
        "Point(x=1.0, y=3.0)",
        "Same(x=1.0, y=2.0)",
        "Thing(x=1)",
    ]
    for one in objects:
        for name in ("x", "name", "other"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(one, name, 3)
            with pytest.raises(dataclasses.FrozenInstanceError):
                delattr(one, name)
    assert dataclasses.replace(same(1.0), y=5.0) == same(1.0, 5.0)
    assert [entry.name for entry in dataclasses.fields(same)] == ["x", "y", "note"]
    assert copy.copy(objects[3]) == copy.deepcopy(objects[3]) == objects[3]
    with pytest.raises(TypeError):
        point()


def test_methods_that_are_written_stay():
    @frozen
    class Odd:
        x: int

        def __repr__(self):
            return "odd"

    assert repr(Odd(1)) == "odd"


def test_operators_can_be_sent_to_other_processes():
    from regweave.operators import Clip, Relu

    for op in (Relu(), Clip(0, 6)):
        assert pickle.loads(pickle.dumps(op)) == op


def test_fields_made_by_factories_by_name_and_before_use():
    @frozen
    class Box:
        """Defaults of all kinds."""

        size: int = dataclasses.field(kw_only=True)
        items: list = dataclasses.field(default_factory=list)
        inner: dict = dataclasses.field(default_factory=dict, init=False)
        seen: int = dataclasses.field(default=0, repr=False)

        def __post_init__(self):
            assert self.size > 0

    first, second = Box(size=1), Box([2], 5, size=2)
    assert (first.items, first.seen, second.items, second.seen) == ([], 0, [2], 5)
    assert first.items is not Box(size=1).items
    assert first.inner is not second.inner
    assert Box.seen == 0
    assert not hasattr(Box, "items")
    assert str(second) == f"{Box.__qualname__}(size=2, items=[2], inner={{}})"
    many = [Box([n], size=n) for n in range(1, 40)]
    assert [vars(box) for box in many] == [
        {"items": [n], "size": n, "inner": {}, "seen": 0} for n in range(1, 40)
    ]
    for wrong in (lambda: Box(), lambda: Box([], 0, {}, size=1), lambda: Box(colour=1, size=1)):
        with pytest.raises(TypeError, match=r"Box\.__init__\(\)"):
            wrong()
    with pytest.raises(AssertionError):
        Box(size=0)


@pytest.mark.parametrize("made", [0, 40])
@pytest.mark.parametrize(
    ("args", "named"),
    [((), {}), ((1,), {"x": 2}), ((1, 2, 3), {}), ((), {"y": 2}), ((1,), {"z": 2})],
)
def test_wrong_arguments_are_named(made, args, named):
    @frozen
    class Pair:
        x: int
        y: int = 0

    for n in range(made):
        Pair(n)
    with pytest.raises(TypeError, match=r"Pair\.__init__\(\)"):
        Pair(*args, **named)
    assert Pair(1) == Pair(x=1, y=0)


def test_the_standard_library_s_classes_may_inherit():
    @frozen
    class Base:
        x: int

    @dataclasses.dataclass(frozen=True)
    class Theirs(Base):
        y: int

    @frozen
    class Ours(Theirs):
        z: int

    assert Ours(1, 2, 3) == Ours(z=3, y=2, x=1)
    assert Theirs(1, 2).x == Base(1).x
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ours(1, 2, 3).z = 4  # type: ignore[misc]
