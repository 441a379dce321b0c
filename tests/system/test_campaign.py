"""A campaign measures many settings, each as often, with the default beside all of them."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.system.test_knobs import FULL

from etude.core.errors import ConfigError
from etude.system.campaign import BESIDE, campaign, learned, settings_of
from etude.system.entries import Probed
from etude.system.knobs import Effect, Knob, catalogue, key
from etude.system.settings import check_setting, chosen, grid


def knob(name: str, *values: int) -> Knob:
    return Knob(name, Effect.SAME, values, values[0])


PAPER = [knob("memory", 4, 8, 16, 32), knob("cores", 4, 8, 16), knob("batch", 32, 64, 512, 1024)]
"""What PipeTune varied in its campaign."""
MANY = chosen(catalogue(FULL, "torch"))


def test_the_campaign_of_the_paper_is_all_of_its_48_settings_twice() -> None:
    epochs = campaign(PAPER)
    often = Counter(key(one) for one in epochs)
    assert often.pop(key({})) == 2 * 6 + 1
    assert set(often.values()) == {2}
    assert set(often) == {key(one) for one in grid(PAPER)[1:]}
    assert len(often) == 47


def test_of_many_knobs_each_value_is_tried_for_itself_and_the_rest_is_drawn() -> None:
    found = settings_of(MANY)
    assert len(found) == len({key(one) for one in found}) == 48
    assert found[0] == {}
    knobs = {one.name: one for one in MANY}
    alone = Counter()
    for setting in found[1:]:
        check_setting(knobs, setting)
        changed = {name for name, value in setting.items() if value != knobs[name].default}
        assert changed
        alone.update([next(iter(changed))] if len(changed) == 1 else [])
        if setting["loader_workers"] == 0:
            assert (setting["prefetch"], setting["persistent_workers"]) == (2, False)
    beside_loader = {"prefetch", "persistent_workers"}
    assert alone == {one.name: len(one.values) - 1 for one in MANY if one.name not in beside_loader}
    for name in beside_loader:
        tried = {one[name] for one in found[1:]}
        assert tried == set(knobs[name].values)


@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 2**32))
def test_every_round_has_all_settings_and_the_default_is_never_far(most: int, repeats: int, seed: int) -> None:
    epochs = campaign(MANY, most=most, repeats=repeats, seed=seed)
    assert epochs == campaign(MANY, most=most, repeats=repeats, seed=seed)
    others = [key(one) for one in epochs if one]
    n = len(set(others))
    assert n == most - 1
    rounds = [others[at : at + n] for at in range(0, len(others), n)]
    assert all(set(one) == set(others) for one in rounds)
    assert len(rounds) == repeats
    assert epochs[0] == epochs[-1] == {}
    defaults = [nth for nth, one in enumerate(epochs) if not one]
    assert max(after - before for before, after in itertools.pairwise(defaults)) <= BESIDE + 1


def test_rounds_have_orders_of_their_own() -> None:
    others = [key(one) for one in campaign(PAPER) if one]
    assert others[:47] != others[47:]


def test_what_was_measured_is_learned_by_its_medians() -> None:
    two, four = {"threads": 2}, {"threads": 4}
    measured = [({}, 1.0), (two, 0.5), (four, 0.8), ({}, 3.0), (two, 9.0), (two, 0.7), (four, 0.8), ({}, 1.2)]
    best, costs = learned(measured)
    assert best == two
    assert costs == (Probed({}, 1.2), Probed(two, 0.7), Probed(four, 0.8))
    assert learned([({}, 1.0), (two, 0.995)])[0] == {}


def test_what_leaves_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        campaign(PAPER, most=1)
    assert str(refused.value) == (
        "most=1 (int), repeats=2 (int): nothing could be compared. Pass most=2 or more, and repeats=1 or more."
    )
    with pytest.raises(ConfigError) as refused:
        campaign([knob("threads", 1)])
    assert str(refused.value) == (
        "knobs=['threads'] have no other value to try. Name some that have: `etude system show` lists them."
    )
    with pytest.raises(ConfigError, match="No epoch was measured by default"):
        learned([({"threads": 2}, 1.0)])
