"""PipeTune's comparison: its workloads run, and what is made of tables and profiles is checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pipetune import profiles, recognised, replayed, tables
from benchmarks.pipetune.tables import Row, Table, made_up, settings, spelled
from benchmarks.pipetune.workloads import KINDS, NAMES, load, missing, space

import etude
from etude.system.comparable import comparable
from etude.system.probing import key
from etude.system.profile import Profile
from etude.system.similarity import Nearest

TWO_CORES = settings(2, threads=2, has_loader=True)


def table(seconds: dict[str, float], *, name: str = "by hand", spread: float = 0.0) -> Table:
    """Return a table of two threads and two settings of loader workers, with epochs that take what is told."""
    told = {spelled(one): one for one in TWO_CORES}
    rows = {
        how: Row(told[how], tuple(took * (1 + spread * n) for n in (-1, 0, 1)), None, 2 * took)
        for how, took in seconds.items()
    }
    return Table(name, "I", TWO_CORES[0], rows)


# --- workloads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_workload_is_an_ordinary_experiment_that_trains(name: str) -> None:
    torch = pytest.importorskip("torch")
    if missing(name):
        pytest.skip(missing(name))
    from benchmarks.pipetune.by_hand import ByHand

    workload = load(name)
    assert workload.name == name
    assert name in KINDS
    assert workload.experiment.metrics.names == ("accuracy",)
    asked = [{"threads": 1}]
    by_hand = ByHand(lambda: asked.pop() if asked else None, lambda _: None)
    before = torch.get_num_threads()
    try:
        by_hand.train(workload)
    finally:
        torch.set_num_threads(before)
    assert 0 <= by_hand.last["accuracy"] <= 1


def test_hyperparameters_have_the_ranges_of_the_paper() -> None:
    assert space("batch_size", "lr") == {
        "batch_size": etude.integers(32, 1024, log=True),
        "lr": etude.loguniform(0.001, 0.1),
    }


def test_a_setting_changes_between_epochs_and_what_an_epoch_took_is_told() -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.pipetune.by_hand import ByHand, Epoch
    from benchmarks.pipetune.training import loaders, train
    from benchmarks.pipetune.workloads import Workload
    from torch import nn

    x, y = torch.rand(64, 4), torch.arange(64) % 2
    seen: list[int] = []

    def model() -> nn.Module:
        net = nn.Linear(4, 2)
        net.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
        return net

    def data(batch_size: int = 16, loader_workers: int = 0) -> object:
        return loaders((x, y), (x, y), batch_size=batch_size, loader_workers=loader_workers)

    left = [{"threads": 1, "loader_workers": 1, "persistent_workers": True}, {"threads": 2, "loader_workers": 0}]
    found: list[Epoch] = []
    by_hand = ByHand(lambda: left.pop(0) if left else None, found.append, profiled=lambda nth: nth == 1)
    before = torch.get_num_threads()
    try:
        by_hand.train(Workload("tiny", train, model, data), lr=0.1, batch_size=32)
    finally:
        torch.set_num_threads(before)
    assert [one.setting["threads"] for one in found] == [1, 2]
    assert seen == [1, 1, 1, 2, 2, 2]  # two steps and one look at the validation data in each epoch
    assert [one.steps for one in found] == [2, 2]
    assert found[0].profile is None
    profile = found[1].profile
    assert profile is not None
    assert profile.rates["steps"] * profile.seconds == pytest.approx(2)
    assert set(by_hand.last) == {"accuracy"}


# --- tables ---------------------------------------------------------------------------------------


def test_the_default_is_first_and_settings_that_do_the_same_are_spelled_alike() -> None:
    assert [spelled(one) for one in TWO_CORES[:3]] == [
        "threads=2,loader_workers=0",
        "threads=2,loader_workers=1",
        "threads=2,loader_workers=2",
    ]
    assert len({spelled(one) for one in TWO_CORES}) == len(TWO_CORES) == 10
    assert spelled({"loader_workers": 0, "persistent_workers": True, "threads": 1}) == "threads=1,loader_workers=0"
    assert [spelled(one) for one in settings(4, threads=1, has_loader=False)] == ["threads=1", "threads=2", "threads=4"]


def test_a_table_comes_back_from_its_file_as_it_was_and_others_in_it_stay(tmp_path: Path) -> None:
    file = tmp_path / "tables.json"
    first = table({"threads=2,loader_workers=0": 1.0, "threads=1,loader_workers=0": 0.5}, name="first")
    second = table({"threads=2,loader_workers=0": 2.0}, name="second")
    tables.write([first], {"cores": 2}, file)
    tables.write([second], {"cores": 2}, file)
    assert tables.read(file) == (first, second)
    assert tables.read(tmp_path / "none.json") == ()


def test_a_table_tells_its_best_setting_and_what_it_gains() -> None:
    found = table(
        {"threads=2,loader_workers=0": 1.0, "threads=1,loader_workers=0": 0.5, "threads=1,loader_workers=1": 2.0}
    )
    assert spelled(found.best.setting) == "threads=1,loader_workers=0"
    assert found.gain == 2.0
    assert found.row({"threads": 1, "loader_workers": 1}).seconds == 2.0


def test_threads_and_workers_are_tried_jointly_most_threads_first_and_workers_stay() -> None:
    found = made_up(3)
    asked = []
    tried = {}
    while (setting := found.axes().propose(tried)) is not None:
        asked.append({**found.default, **setting})
        tried[key(setting)] = 1.0
    threads = [one["threads"] for one in asked]
    assert threads == sorted(threads, reverse=True)
    assert all(one.get("persistent_workers", False) == (one["loader_workers"] > 0) for one in asked)
    assert len(asked) == 11


# --- replay ---------------------------------------------------------------------------------------


def test_where_nothing_is_better_a_study_loses_no_more_than_its_probes() -> None:
    flat = table({spelled(one): 1.0 if one == TWO_CORES[0] else 1.2 for one in TWO_CORES})
    outcome = replayed.study(flat, seed=0, trials=1)
    assert outcome.kept == {}
    assert outcome.probing == 5 / 240
    assert outcome.of_best == outcome.of_default == pytest.approx(1 / (1 + 5 * 0.2 / 241), rel=1e-3)


def test_a_study_keeps_what_is_best_and_a_slow_probe_costs_a_tenth_of_its_epoch() -> None:
    costs = {spelled(one): 10.0 for one in TWO_CORES}
    costs |= {"threads=2,loader_workers=0": 1.0, "threads=2,loader_workers=1,persistent_workers=True": 0.5}
    outcome = replayed.study(table(costs), seed=1, trials=1)
    assert outcome.kept == {"loader_workers": 1, "persistent_workers": True}
    # Profile and baseline by default, and two probes cut short after a tenth: the rest of each with the best so far.
    # What goes further with knobs that took ten times as long is not tried.
    spent = 1.0 + 2 * 1.0 + 2 * (0.1 * 10.0 + 0.9 * 0.5) + 236 * 0.5
    assert outcome.of_best == pytest.approx((1.0 + 240 * 0.5) / spent)
    assert outcome.of_default == pytest.approx((1.0 + 240 * 1.0) / spent)


def test_tables_that_were_made_up_are_the_same_each_time_and_say_so() -> None:
    assert made_up(5) == made_up(5)
    assert made_up(5) != made_up(6)
    assert made_up(5).kind == tables.MADE_UP


# --- recognition ----------------------------------------------------------------------------------

GAINING = {"threads=2,loader_workers=0": 1.0, "threads=1,loader_workers=0": 0.5}
LOSING = {"threads=2,loader_workers=0": 1.0, "threads=1,loader_workers=0": 1.5}


def runs_of(**rates: float) -> list[profiles.Run]:
    """Return six runs of each of some workloads, which have one rate that tells them apart."""
    return [
        profiles.Run(
            name, nth, {}, (Profile({"steps": 1.0, "user s": rate + 0.001 * nth, "faults": 5.0}, "by hand", 1.0),)
        )
        for name, rate in rates.items()
        for nth in range(6)
    ]


def test_repeated_work_is_recognised_and_foreign_work_is_not() -> None:
    runs = runs_of(one=1.0, other=50.0)
    costs = {"one": table(GAINING), "other": table(LOSING)}
    found = recognised.look_up_all(runs, costs, Nearest(), comparable)
    assert len(found) == 2 * len(runs)
    repeated = [one for one in found if not one.is_foreign]
    assert recognised.share(repeated, lambda one: one.is_recognised) == 100
    assert {one.workload: one.setting for one in repeated} == {"one": {"threads": 1}, "other": {}}
    foreign = [one for one in found if one.is_foreign]
    assert recognised.share(foreign, lambda one: one.known) == 0
    assert not any(one.is_wrong for one in found)


def test_what_is_reused_from_work_that_looks_the_same_is_wrong_if_it_costs_more_than_five_percent() -> None:
    runs = runs_of(one=1.0, other=1.0)
    costs = {"one": table(GAINING), "other": table(LOSING)}
    found = recognised.look_up_all(runs, costs, Nearest(), comparable)
    foreign = [one for one in found if one.is_foreign]
    assert all(one.known for one in foreign)
    assert {one.workload: one.loss for one in foreign} == {"one": 0.5, "other": pytest.approx(1 / 3)}
    assert recognised.share(foreign, lambda one: one.is_wrong) == 100


def test_profiles_come_back_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "profiles.jsonl"
    runs = tuple(runs_of(one=1.0))
    profiles.add(runs[:2], {"cores": 2}, file)
    profiles.add(runs[2:], {"cores": 2}, file)
    assert profiles.read(file) == runs
    assert profiles.read(tmp_path / "none.jsonl") == ()
