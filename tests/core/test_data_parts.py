"""What a data function returns, and what it says of it."""

from __future__ import annotations

from etude.core.data import Data, Joined


def test_names_describe_and_other_values_are_derived_as_ever() -> None:
    found = Data([1], features="age", target="y", fields=["age", "y"], modalities={"body": "age"}, n_classes=2)
    assert (found.features, found.target, found.fields) == (("age",), ("y",), ("age", "y"))
    assert (found.modalities, found.derived) == ({"body": ("age",)}, {"n_classes": 2})
    old = Data([1], features=30, channels=3, target=0.5)
    assert (old.features, old.target) == (None, ())
    assert (old.channels, old.derived) == (3, {"features": 30, "target": 0.5})


def test_the_same_is_known_of_other_parts() -> None:
    found = Data([1], [2], [3], features=["a"], n_features=1)
    other = found.with_parts([4], None, [5])
    assert (list(other), other.features, other.derived) == ([[4], [5]], ("a",), {"n_features": 1})
    other.derived["n_features"] = 0
    assert (list(found), found.derived) == ([[1], [2], [3]], {"n_features": 1})
    both = Joined.of(found, [1, 2])
    assert (list(both), both.features, both.derived) == ([[1, 2], None, [3]], ("a",), {"n_features": 1})
