"""A campaign at work, told of epochs that were made up."""

from __future__ import annotations

import pytest

from etude.core.errors import ConfigError
from etude.core.system import Choices, Joules, Order, Phase, Taken
from etude.system.asked import System
from etude.system.campaigning import Campaign
from etude.system.knobs import key
from etude.system.recall import reuse_or_probe
from etude.system.similarity import Nearest

NO_ENERGY = Joules("unavailable", "nobody measures here")
CHOICES = Choices("a processor", 8, knobs={"threads": (2, 1), "loader_workers": (0, 1)})


def train(campaign: Campaign, *, epochs: int) -> list[Order]:
    """Train once, where one loader worker is best, and return the settings that epochs had."""
    orders = [campaign.begin(0, "")]
    for epoch in range(epochs):
        order = orders[-1]
        seconds = (
            10 * (0.5 if order.setting.get("loader_workers") else 1.0) * (1.2 if "threads" in order.setting else 1)
        )
        rates = {"user s": 1.0} if epoch == 0 else {}
        choices = CHOICES if epoch == 0 else None
        said = Taken(
            epoch,
            epochs,
            seconds,
            10,
            NO_ENERGY,
            rates=rates,
            setting=order.setting,
            phase=order.phase,
            choices=choices,
        )
        orders.append(campaign.next(0, "", said))
    return orders[:epochs]


def test_every_setting_is_measured_as_often_as_was_asked_in_as_many_trainings_as_it_takes() -> None:
    campaign = Campaign(System(), repeats=2)
    had = []
    while not campaign.epochs or campaign.done < campaign.epochs:
        had += [key(order.setting) for order in train(campaign, epochs=4) if order.phase is Phase.PROBE]
    settings = [{"threads": 1}, {"loader_workers": 1}, {"threads": 1, "loader_workers": 1}]
    assert [had.count(key(setting)) for setting in settings] == [2, 2, 2]
    assert had.count(key({})) >= 2
    assert len(had) == campaign.epochs


def test_what_was_learned_is_an_entry_that_names_only_what_differs_from_the_default() -> None:
    campaign = Campaign(System(), repeats=1)
    while not campaign.epochs or campaign.done < campaign.epochs:
        train(campaign, epochs=9)
    [entry] = campaign.entries(lambda text: "abcdef0123456789", "a workload", at_s=1.7e9)
    assert entry.best == {"loader_workers": 1}
    assert {key(one.setting): one.cost for one in entry.costs}[key({})] == 1.0
    assert (entry.objective, entry.rates, entry.hardware.cores) == ("time", {"user s": 1.0}, 8)


def test_a_training_without_epochs_measures_nothing_and_says_so() -> None:
    with pytest.raises(ConfigError, match=r"asked run\.epochs for none"):
        Campaign(System()).entries(lambda text: "abcdef0123456789", "a workload", at_s=1.7e9)


def test_each_training_is_an_entry_so_that_the_next_ones_are_recognised() -> None:
    campaign = Campaign(System(), repeats=4)
    while not campaign.epochs or campaign.done < campaign.epochs:
        train(campaign, epochs=4)
    entries = campaign.entries(lambda text: "abcdef0123456789", "a workload", at_s=1.7e9)
    assert len(entries) == -(-campaign.epochs // 3)
    recall = reuse_or_probe(entries, {"user s": 1.0}, Nearest())
    assert recall.setting == {"loader_workers": 1}
    assert reuse_or_probe(entries, {"user s": 90.0}, Nearest()).setting is None


def test_of_a_campaign_that_is_broken_off_there_is_something_to_remember_once_two_are_compared() -> None:
    campaign = Campaign(System(), repeats=2)
    compared = []
    for _ in range(3):
        train(campaign, epochs=2)
        compared.append(campaign.has_compared)
    assert compared == [False, True, True]
    [first, *_] = campaign.entries(lambda text: "abcdef0123456789", "a workload", at_s=1.7e9)
    assert len(first.costs) == 3


def test_where_no_knob_has_another_value_it_is_said_and_the_training_goes_on() -> None:
    campaign = Campaign(System())
    nothing = Choices("a processor", 8, lacks={"threads": "this process may use one core only."})
    order = campaign.next(0, "", Taken(0, 9, 10.0, 10, NO_ENERGY, rates={"user s": 1.0}, choices=nothing))
    assert order.setting == {}
    assert campaign.trouble.startswith("knobs=[] have no other value to try.")
    assert campaign.trouble.endswith("No threads: this process may use one core only.")
