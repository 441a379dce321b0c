"""The grid: every point once, in a mixed order, and then the end."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from etude.core.events import Params
from etude.core.history import identity
from etude.tune.domains import integers, loguniform, ordered, uniform
from etude.tune.grid import Grid
from etude.tune.sampler import Request
from etude.tune.spaces import Space, choice

NESTED = Space.of(
    {
        "a": [1, 1.0, True],
        "optimizer": choice(
            {
                "sgd": {
                    "momentum": ordered(["low", "high"]),
                    "warm": choice({True: {"steps": integers(1, 3)}, False: {}}),
                },
                "adam": {},
            }
        ),
        "fixed": 5,
    }
)


def points(grid: Grid, space: Space, *, seed: int = 0, n: int | None = None) -> list[Params]:
    size = grid.size(space)
    assert size is not None
    return [grid.suggest(Request(k, 0, space, seed)) for k in range(size if n is None else n)]


def test_branches_within_branches_are_enumerated() -> None:
    made = points(Grid(), NESTED)
    assert len(made) == NESTED.size == 3 * (2 * (3 + 1) + 1)
    assert {identity(params) for params in made} == {identity(params) for params in NESTED.grid(10)}
    sgd = [params for params in made if params["optimizer"] == "sgd"]
    assert len(sgd) == 24
    assert all(("steps" in params) == params["warm"] for params in sgd)
    assert sum(params["optimizer"] == "adam" for params in made) == 3


@st.composite
def spaces(draw: st.DrawFn, prefix: str = "", depth: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n in range(draw(st.integers(1, 3))):
        name = f"{prefix}{'abc'[n]}"
        kind = draw(st.integers(0, 5 if depth else 4))
        found[name] = [
            lambda: integers(0, draw(st.integers(1, 4))),
            lambda: uniform(0, 1, step=1 / draw(st.integers(1, 4))),
            lambda: uniform(0, 1),
            lambda: loguniform(1e-3, 1),
            lambda: ["x", None][: draw(st.integers(1, 2))],
            lambda name=name: choice({value: draw(spaces(name, depth - 1)) for value in ("u", "v")}),
        ][kind]()
    return found


@settings(deadline=None, max_examples=50)
@given(given=spaces(), n=st.integers(1, 3), seed=st.integers())
def test_there_are_as_many_points_as_it_says_and_none_twice(given: dict[str, Any], n: int, seed: int) -> None:
    space, grid = Space.of(given), Grid(points=n)
    size = grid.size(space)
    assert size is not None
    assume(size <= 300)
    made = points(grid, space, seed=seed)
    assert {identity(params) for params in made} == {identity(params) for params in space.grid(n)}
    assert len(made) == len({identity(params) for params in made}) == size
    assert all(space.contains(params) for params in made)


def test_numbers_are_thinned_and_lists_are_not() -> None:
    space = Space.of({"lr": loguniform(1e-4, 1), "n": integers(1, 100), "kind": list("abcdefgh")})
    made = points(Grid(points=3), space)
    assert len(made) == 3 * 3 * 8
    assert sorted({params["lr"] for params in made}) == pytest.approx([1e-4, 1e-2, 1.0])
    assert sorted({params["n"] for params in made}) == [1, 51, 100]
    assert {params["kind"] for params in made} == set("abcdefgh")


def test_a_part_of_the_grid_has_values_from_all_over_it() -> None:
    space = Space.of({"a": integers(1, 10), "b": integers(1, 10), "c": integers(1, 10)})
    tenth = points(Grid(), space, n=100)
    assert all({params[name] for params in tenth} == set(range(1, 11)) for name in "abc")
    assert points(Grid(), space, n=100) == tenth
    assert points(Grid(), space, seed=1, n=100) != tenth


def test_a_large_grid_is_known_point_by_point() -> None:
    space = Space.of({"a": integers(0, 999), "b": integers(0, 999)})
    grid = Grid()
    made = points(grid, space, n=2000)
    assert len({(params["a"], params["b"]) for params in made}) == 2000
    assert Grid().suggest(Request(1999, 0, space, 0)) == made[-1]


def test_a_redraw_is_the_same_point_since_another_one_would_be_missing_later() -> None:
    grid = Grid()
    assert grid.suggest(Request(3, 4, NESTED, 0)) == grid.suggest(Request(3, 0, NESTED, 0))
