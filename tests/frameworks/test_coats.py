"""Coats: what an object does more, while it stays the object that it is."""

from __future__ import annotations

import abc
import copy
import functools
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from etude.frameworks.coats import Coat, Here, named_like, plain_class, put_on, take_off, wears, worn


class Bell:
    """Rings."""

    def __init__(self, sound: str = "ding") -> None:
        self.sound = sound

    def __iter__(self) -> Any:
        return iter([self.sound])


class Hung:
    """Something that a class of the user's has beside its framework's."""


class Church(Hung, Bell):
    pass


class Cast(Bell):
    """Says by itself what it is made of again."""

    def __reduce__(self) -> Any:
        return Cast, (self.sound,)


class Named(Bell):
    """There is one of it, and it has a name."""

    def __reduce__(self) -> str:
        return "THE_BELL"


THE_BELL = Named()


def _loud(below: type[Any]) -> Mapping[str, Any]:
    def __iter__(self: Any) -> Any:
        return (sound.upper() * worn(self, LOUD) for sound in below.__iter__(self))

    return {"__iter__": __iter__}


def _framed(below: type[Any]) -> Mapping[str, Any]:
    def __iter__(self: Any) -> Any:
        return (f"({sound})" for sound in below.__iter__(self))

    return {"__iter__": __iter__}


LOUD = Coat("loud", _loud)
FRAMED = Coat("framed", _framed)
FLEETING = Coat("fleeting", _framed, copied=False)

pickled: Callable[[Any], Any] = lambda thing: pickle.loads(pickle.dumps(thing))  # noqa: E731
by_an_old_protocol: Callable[[Any], Any] = lambda thing: pickle.loads(pickle.dumps(thing, protocol=0))  # noqa: E731
COPIES = [copy.copy, copy.deepcopy, pickled, by_an_old_protocol]


@pytest.mark.parametrize("cls", [Bell, Church, Cast])
def test_an_object_stays_what_it_is_and_does_one_thing_more(cls: type[Bell]) -> None:
    bell = cls()
    assert not wears(bell, LOUD)
    assert worn(bell, LOUD) is None
    put_on(bell, LOUD, 2)
    assert isinstance(bell, cls)
    there = type(bell)
    assert (there.__name__, there.__qualname__, there.__module__) == (cls.__name__, cls.__qualname__, cls.__module__)
    assert there.__doc__ == cls.__doc__
    assert plain_class(bell) is cls
    assert list(bell) == ["DINGDING"]
    assert list(cls()) == ["ding"], "others of the class do not"
    put_on(bell, LOUD, 1)
    assert list(bell) == ["DING"]
    assert type(bell) is there
    other = cls()
    put_on(other, LOUD, 1)
    assert type(other) is there


def test_what_can_wear_none_wears_none() -> None:
    assert (wears([], LOUD), worn([], LOUD)) == (False, None)


def test_coats_go_one_over_the_other_and_each_can_be_taken_off() -> None:
    bell = Bell()
    put_on(bell, LOUD, 2)
    put_on(bell, FRAMED, None)
    assert list(bell) == ["(DINGDING)"]
    take_off(bell, LOUD)
    assert list(bell) == ["(ding)"]
    assert (wears(bell, LOUD), wears(bell, FRAMED)) == (False, True)
    put_on(bell, LOUD, 2)
    assert list(bell) == ["(DING)(DING)"], "now it is the outer one"
    take_off(bell, LOUD)
    take_off(bell, FRAMED)
    take_off(bell, FRAMED)
    assert type(bell) is Bell
    assert vars(bell) == {"sound": "ding"}


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("cls", [Bell, Church, Cast])
def test_copies_wear_what_it_wears(cls: type[Bell], again: Callable[[Any], Any]) -> None:
    bell = cls("dong")
    put_on(bell, LOUD, 2)
    put_on(bell, FRAMED, None)
    copied = again(bell)
    assert copied is not bell
    assert type(copied) is type(bell)
    assert list(copied) == ["(DONGDONG)"]
    put_on(copied, LOUD, 1)
    assert (list(copied), list(bell)) == (["(DONG)"], ["(DONGDONG)"])


@pytest.mark.parametrize("again", COPIES)
def test_copies_do_not_wear_what_is_not_to_be_copied(again: Callable[[Any], Any]) -> None:
    bell = Bell("dong")
    put_on(bell, FLEETING, object)
    copied = again(bell)
    assert type(copied) is Bell
    assert vars(copied) == {"sound": "dong"}
    put_on(bell, LOUD, 1)
    copied = again(bell)
    assert list(copied) == ["DONG"]
    assert (list(bell), vars(bell)["_etude_fleeting"]) == (["(DONG)"], object), "and the first stays as it was"


def test_what_pickle_finds_by_its_name_it_still_finds() -> None:
    try:
        put_on(THE_BELL, LOUD, 1)
        assert pickle.loads(pickle.dumps(THE_BELL)) is THE_BELL
    finally:
        take_off(THE_BELL, LOUD)


class Ear(Here):
    def __init__(self, heard: list[str]) -> None:
        self.heard = heard


def test_what_is_of_this_process_alone_is_shared_by_copies_and_not_pickled() -> None:
    bell, ear = Bell(), Ear([])
    put_on(bell, LOUD, (1, ear))
    assert [worn(again(bell), LOUD) for again in COPIES] == [(1, ear), (1, ear), (1, None), (1, None)]


def test_a_class_of_the_same_name_may_have_a_metaclass() -> None:
    class Meta(type):
        pass

    class Odd(metaclass=Meta):
        """Odd."""

    made = named_like(Odd, {"more": functools.partial(int, 3)})
    assert (made.__name__, type(made), made.__doc__, made.__mro__[1]) == ("Odd", Meta, "Odd.", Odd)


class Counting:
    """Counts, on its class, how often its objects were asked."""

    asked = 0

    def index(self, item: Any) -> Any:
        type(self).asked += 1
        return item


def test_what_a_method_sets_on_its_class_is_set_where_the_user_looks() -> None:
    one, other = Counting(), Counting()
    put_on(one, LOUD, 1)
    put_on(one, FRAMED, 2)
    for thing in (one, one, other):
        thing.index(0)
    assert Counting.asked == one.asked == 3  # type: ignore[attr-defined]
    type(one).fresh = "yes"  # type: ignore[attr-defined]
    assert other.fresh == "yes"  # type: ignore[attr-defined]
    del type(one).fresh  # type: ignore[attr-defined]
    assert not hasattr(Counting, "fresh")
    take_off(one, LOUD)
    take_off(one, FRAMED)
    assert type(one) is Counting


def test_a_class_with_a_metaclass_of_its_own_keeps_what_that_does() -> None:
    made: list[str] = []

    class Meta(abc.ABCMeta):
        def __init__(cls, *args: Any) -> None:
            super().__init__(*args)
            cls.tag = f"{cls.__name__} {len(made)}"
            made.append(cls.tag)

    class Tagged(metaclass=Meta):
        def index(self, item: Any) -> Any:
            return item

    thing = Tagged()
    put_on(thing, LOUD, 1)
    assert Tagged.tag == "Tagged 0"
    assert isinstance(type(thing), Meta)
    assert isinstance(thing, Tagged)
