"""Several searches in one study: each proposes and learns as if it were alone."""

from __future__ import annotations

import pytest

from etude.tune.sampler import Told, request_of, tell
from etude.tune.samplers import Random
from etude.tune.separate import Separate, without
from etude.tune.spaces import Space, choice, uniform

SPACE = Space.of({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}), "lr": uniform(0, 1)})
SGD, ADAM = (without(SPACE, {"optimizer": name}) for name in ("sgd", "adam"))


class Listens:
    """Proposes the space's middle, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def needs_process(self, k: int) -> bool:
        return k >= 2

    def tell(self, told: Told) -> None:
        self.told.append(told)

    def suggest(self, request):
        return request.space.build(lambda path, domain: domain.from_unit(0.5))


def of(searches: Separate, place: int) -> Listens:
    found = searches._samplers[place]
    assert isinstance(found, Listens)
    return found


def test_whose_turn_it_is_hangs_on_the_number_of_the_trial() -> None:
    searches = Separate(Listens(), [SGD, ADAM], [0, 1, 0, 1, 0])
    proposed = [searches.suggest(request_of(searches, k, 0, SPACE, seed=1)) for k in range(4)]
    assert [sorted(one) for one in proposed] == [["lr", "momentum"], ["lr"]] * 2
    assert [searches.needs_process(k) for k in range(6)] == [False, False, False, False, True, False]
    assert searches.space_of(9, SPACE) is SPACE, "what comes later is of nobody's search"


def test_each_learns_from_its_own_trials_and_from_what_it_could_have_proposed() -> None:
    searches = Separate(Listens(), [SGD, ADAM], [0, 1, 0, 1])
    told = [
        Told(0, {"optimizer": "sgd", "momentum": 0.5, "lr": 0.1}, "finished", (0.3, 7.0)),
        Told(1, {"optimizer": "adam", "lr": 0.2}, "finished", (0.4, 7.0)),
        Told(2, {"optimizer": "sgd", "lr": 0.3}, "finished", (0.5, 7.0)),  # no configuration of its space
        Told(3, {"optimizer": "adam", "lr": 0.4, "width": 8}),
        Told(4, {"optimizer": "adam", "lr": 0.4}, "finished", (0.1, 7.0)),  # of no search
    ]
    for one in told:
        tell(searches, one, SPACE)
    assert of(searches, 0).told == [Told(0, {"momentum": 0.5, "lr": 0.1}, "finished", (0.3,))]
    assert of(searches, 1).told == [Told(0, {"lr": 0.2}, "finished", (0.4,)), Told(1, {"lr": 0.4})]


def test_searches_for_the_same_begin_with_the_same_draws() -> None:
    searches = Separate(Random(), [ADAM, ADAM, SGD], [0, 1, 2, 0, 1, 2])
    drawn = [searches.suggest(request_of(searches, k, 0, SPACE, seed=3)) for k in range(6)]
    assert drawn[0] == drawn[1] != drawn[3] == drawn[4]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, SPACE),
        ({"optimizer": "sgd"}, Space({"momentum": uniform(0, 1), "lr": uniform(0, 1)})),
        ({"optimizer": "lion"}, Space({"lr": uniform(0, 1)})),
        ({"momentum": 0.9}, Space({"optimizer": choice(["sgd", "adam"]), "lr": uniform(0, 1)})),
        ({"lr": 0.1, "optimizer": "adam"}, Space({})),
    ],
)
def test_what_has_its_value_is_not_searched(given, left) -> None:
    assert without(SPACE, given) == left
