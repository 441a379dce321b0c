"""Who decides on settings in a study, told of epochs that were made up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from etude.core.system import Choices, Joules, Order, Phase, SettingValue, Taken
from etude.system.asked import System
from etude.system.conductor import SystemConductor
from etude.system.entries import Entry, Probed
from etude.system.knobs import key

KNOBS: dict[str, tuple[SettingValue, ...]] = {"threads": (2, 1), "loader_workers": (0, 1, 2)}
NO_ENERGY = Joules("unavailable", "nobody measures here")

Cost = Callable[[Mapping[str, SettingValue]], float]


def busy_loader(setting: Mapping[str, SettingValue]) -> float:
    """Return what a step costs where one loader worker is best."""
    return {0: 1.0, 1: 0.6, 2: 0.8}[int(setting.get("loader_workers", 0) or 0)] * (1.1 if "threads" in setting else 1.0)


def choices(**others: Any) -> Choices:
    return Choices("a processor", 8, knobs=KNOBS, **others)


@dataclass
class Past:
    """What is remembered, in memory."""

    found: list[Entry] = field(default_factory=list)

    def entries(self, *, machine: str, objective: str) -> Sequence[Entry]:
        return [one for one in self.found if (one.hardware.digest, one.objective) == (machine, objective)]


def taken(order: Order, epoch: int, *, epochs: int, cost: Cost, cpu_s: float = 1.0, tells: bool = False) -> Taken:
    return Taken(
        epoch,
        epochs,
        10 * cost(order.setting),
        10,
        NO_ENERGY,
        rates={"user s": cpu_s, "page faults": 900.0} if epoch == 0 else {},
        setting=order.setting,
        phase=order.phase,
        choices=choices() if tells else None,
    )


def train(
    conductor: SystemConductor, trial: int, *, epochs: int = 20, cost: Cost = busy_loader, cpu_s: float = 1.0
) -> list[Order]:
    """Tell of all epochs of a trial, and return the settings that it had."""
    orders = [conductor.begin(trial, "here")]
    for epoch in range(epochs):
        said = taken(orders[-1], epoch, epochs=epochs, cost=cost, cpu_s=cpu_s, tells=epoch == 0)
        orders.append(conductor.next(trial, "here", said))
    conductor.ended(trial)
    return orders[:epochs]


def test_the_best_setting_is_found_and_kept_and_the_next_trials_begin_with_what_is_known() -> None:
    conductor = SystemConductor(System(probes=6), trials=8)
    first = train(conductor, 0)
    assert [order.phase for order in first[:2]] == [Phase.PROFILE, Phase.BASELINE]
    assert first[-1].phase is Phase.KEEP
    assert first[-1].setting == {"loader_workers": 1} == first[-1].best
    assert first[-1].evidence["of the default"] == pytest.approx(0.6)
    second = train(conductor, 1)
    assert [order.setting for order in second] == [{}, *[{"loader_workers": 1}] * 19]
    train(conductor, 2)
    fourth = train(conductor, 3)
    assert all(order.setting == {"loader_workers": 1} for order in fourth)  # from its first epoch on


def test_a_trial_that_carries_another_one_on_knows_what_that_knew() -> None:
    conductor = SystemConductor(System(probes=6), trials=8)
    train(conductor, 0)
    order = conductor.begin(1, "here", earlier=0)
    assert (order.phase, order.setting) == (Phase.KEEP, {"loader_workers": 1})


def test_trials_of_another_kind_of_work_are_tuned_for_themselves() -> None:
    conductor = SystemConductor(System(probes=6), trials=2)
    assert train(conductor, 0)[-1].setting == {"loader_workers": 1}
    other = train(conductor, 1, cpu_s=9.0, cost=lambda setting: 1.0 + 0.2 * len(setting))
    assert other[-1].setting == {}
    assert {order.work for order in other[1:]} == {"work 2"}


def test_what_comes_only_once_is_not_counted_in_what_a_setting_costs() -> None:
    conductor = SystemConductor(System(probes=6), trials=8)
    orders = [conductor.begin(0, "here")]
    for epoch in range(20):
        said = taken(orders[-1], epoch, epochs=20, cost=busy_loader, tells=epoch == 0)
        if orders[-1].phase is Phase.PROBE:
            said = replace(said, seconds=said.seconds + 5.0, begun_s=5.0)
        orders.append(conductor.next(0, "here", said))
    assert orders[-1].setting == {"loader_workers": 1}
    assert orders[-1].evidence["of the default"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("cpu_s", "faults", "steps", "is_new"),
    [
        (0.058, 79.0, 26, False),  # measured: the same work, on two cores that others used meanwhile
        (0.058, 107.0, 26, True),  # twice as wide a network
        (0.058, 79.0, 52, True),
        (0.030, 79.0, 26, True),
        (0.095, 107.0, 26, False),  # as much CPU time is enough
    ],
)
def test_on_a_busy_machine_the_same_work_is_known_by_what_others_do_not_change(
    cpu_s: float, faults: float, steps: int, is_new: bool
) -> None:
    conductor = SystemConductor(System(probes=6), trials=8)
    works = []
    for trial, (cpu, fault, n) in enumerate([(0.097, 74.0, 26), (cpu_s, faults, steps)]):
        conductor.begin(trial, "here")
        rates = {"user s": cpu, "page faults": fault}
        said = Taken(0, 20, n * cpu, n, NO_ENERGY, rates=rates, choices=choices())
        works.append(conductor.next(trial, "here", said).work)
    assert (works[0] != works[1]) == is_new


def test_a_probe_may_be_cut_short_and_what_is_kept_may_not() -> None:
    conductor = SystemConductor(System(probes=6), trials=2)
    orders = train(conductor, 0)
    assert all((order.cut_above_s is not None) == (order.phase is Phase.PROBE) for order in orders)
    assert next(o for o in orders if o.phase is Phase.PROBE).cut_above_s == pytest.approx(1.25)


def test_what_was_cut_short_counts_as_it_was_by_then() -> None:
    conductor = SystemConductor(System(knobs=["threads"], probes=1), trials=1)
    order = conductor.begin(0, "here")
    for epoch in range(2):
        order = conductor.next(0, "here", taken(order, epoch, epochs=9, cost=busy_loader, tells=epoch == 0))
    assert order.phase is Phase.PROBE
    whole = taken(order, 2, epochs=9, cost=lambda setting: 0.5)  # fast again, after it was put back
    short = Taken(2, 9, whole.seconds, whole.steps, NO_ENERGY, setting=order.setting, phase=order.phase, cut=(4.0, 2))
    after = conductor.next(0, "here", short)
    assert (after.phase, after.setting) == (Phase.DEFAULT, {})
    assert after.evidence["of the default"] == pytest.approx(2.0)


def test_what_one_study_learned_the_next_one_reuses_without_a_probe() -> None:
    past = Past()
    for study in range(4):
        conductor = SystemConductor(System(probes=6), past, trials=3)
        orders = [train(conductor, trial, cpu_s=1.0 + 0.01 * study) for trial in range(3)]
        if study < 3:
            assert any(order.phase is Phase.PROBE for order in orders[0])
            past.found += conductor.learned(lambda work: "abcdef0123456789", at_s=1.7e9 + study)
    phases = {order.phase for order in orders[0]}
    assert Phase.REUSE in phases
    assert Phase.PROBE not in phases
    assert orders[0][-1].setting == {"loader_workers": 1}


def test_a_setting_that_cannot_be_here_is_not_reused() -> None:
    past = Past()
    conductor = SystemConductor(System(probes=6), past, trials=6)
    for trial in range(6):
        train(conductor, trial, cpu_s=1.0 + 0.001 * trial)
    past.found += conductor.learned(lambda work: "abcdef0123456789", at_s=1.7e9)
    few = SystemConductor(System(probes=0), past, trials=1)
    order = few.begin(0, "here")
    only_threads = Choices("a processor", 8, knobs={"threads": (2, 1)})
    said = Taken(0, 9, 10.0, 10, NO_ENERGY, rates={"user s": 1.0, "page faults": 900.0}, choices=only_threads)
    assert few.next(0, "here", said).setting == {}
    assert order.setting == {}


def test_entries_say_what_was_learned_and_nothing_of_trials_that_are_known_already() -> None:
    conductor = SystemConductor(System(probes=6), trials=3)
    for trial in range(3):
        train(conductor, trial)
    [first, *_] = found = conductor.learned(lambda work: "abcdef0123456789", at_s=1.7e9)
    assert len(found) == 2  # the third trial began with the best, so it has no profile by default
    assert first.best == {"loader_workers": 1}
    costs = {key(one.setting): round(one.cost, 3) for one in first.costs}
    assert (costs[key({})], costs[key({"loader_workers": 1})]) == (1.0, 0.6)
    assert len(conductor.learned(lambda work: "abcdef0123456789", at_s=1.7e9, apart_from={0, 2})) == 1


def test_a_study_that_goes_on_knows_what_it_was_told_before() -> None:
    before, after = (SystemConductor(System(probes=6), trials=4) for _ in range(2))
    order = before.begin(0, "here")
    for epoch in range(12):
        said = taken(order, epoch, epochs=20, cost=busy_loader, tells=epoch == 0)
        order = before.next(0, "here", said)
        assert after.next(0, "here", said) == order


def test_a_similarity_that_fails_is_left_aside_and_settings_are_tried() -> None:
    class Broken:
        def fit(self, past: Any, groups: Any) -> Any:
            raise RuntimeError("no clusters today")

    past = Past()
    teacher = SystemConductor(System(probes=6), trials=1)
    train(teacher, 0)
    past.found += teacher.learned(lambda work: "abcdef0123456789", at_s=1.7e9)
    conductor = SystemConductor(System(similarity=Broken()), past, trials=1)
    assert any(order.phase is Phase.PROBE for order in train(conductor, 0))
    assert conductor.notes == ["Earlier studies are left aside, since RuntimeError was raised: no clusters today"]


def test_a_failure_of_ours_leaves_the_machine_as_it_is_and_says_so() -> None:
    class Gone:
        def entries(self, *, machine: str, objective: str) -> Sequence[Entry]:
            raise RuntimeError("no file today")

    conductor = SystemConductor(System(), Gone(), trials=1)
    assert all(order.setting == {} for order in train(conductor, 0))
    assert conductor.notes == ["Machines are not tuned any more, since RuntimeError was raised: no file today"]


def test_without_an_energy_an_objective_of_energy_decides_nothing() -> None:
    conductor = SystemConductor(System(objective="energy", probes=6), trials=1)
    assert all(order.setting == {} for order in train(conductor, 0))


@pytest.mark.parametrize(
    ("label", "notes"),
    [
        ("measured", []),
        (
            "modelled",
            [
                "Energy is only modelled here (a source), and may be off by 40 % and more: a setting that is said to "
                "take less of it may not."
            ],
        ),
        (
            "unavailable",
            [
                "objective='energy' cannot be made small here, since nothing tells the energy: a source. Pass "
                "objective='time', or the address of a power meter."
            ],
        ),
    ],
)
def test_how_the_energy_is_known_that_is_made_small_is_said_once(label: str, notes: list[str]) -> None:
    joules = (1.0, 0.6, 1.4) if label != "unavailable" else ()
    told = Taken(0, 9, 10.0, 10, Joules(label, "a source", *joules), choices=choices())
    for objective, said in (("energy", notes), ("time", [])):
        conductor = SystemConductor(System(objective=objective), trials=9)
        for trial in (0, 1):
            conductor.begin(trial, "here")
            conductor.next(trial, "here", told)
        assert conductor.notes == said


def test_nothing_is_learned_from_an_epoch_in_which_a_trial_was_stopped() -> None:
    conductor = SystemConductor(System(probes=6), trials=8)
    order = conductor.begin(0, "here")
    for epoch in range(3):
        order = conductor.next(0, "here", taken(order, epoch, epochs=20, cost=busy_loader, tells=epoch == 0))
    assert order.phase is Phase.PROBE
    stopped = replace(taken(order, 3, epochs=20, cost=lambda _: 0.01), whole=False)
    before = conductor.learned(lambda work: "abcdef0123456789", at_s=0.0)
    assert conductor.next(0, "here", stopped) == order
    assert conductor.learned(lambda work: "abcdef0123456789", at_s=0.0) == before


def test_a_training_too_short_to_try_anything_says_so() -> None:
    conductor = SystemConductor(System(), trials=1)
    train(conductor, 0, epochs=2)
    assert conductor.notes == [
        "A training of 2 epochs is too short to try anything: the first one shows what kind of work it is, the second "
        "what it costs. What is known of similar work is used."
    ]


def test_where_some_trials_are_longer_the_first_one_says_nothing_and_more_may_be_tried() -> None:
    conductor = SystemConductor(System(), trials=9, varied=True)
    train(conductor, 0, epochs=1)
    assert conductor.notes == []
    assert sum(order.phase is Phase.PROBE for order in train(conductor, 1, epochs=80)) >= 4  # one of twenty of 9 x 80


def test_a_named_knob_that_is_lacking_is_said() -> None:
    conductor = SystemConductor(System(knobs=["compile"]), trials=1)
    said = Taken(
        0, 9, 10.0, 10, NO_ENERGY, choices=Choices("a processor", 8, lacks={"compile": "there is no compiler."})
    )
    conductor.begin(0, "here")
    conductor.next(0, "here", said)
    assert conductor.notes == [
        "compile is not tuned: there is no compiler.",
        "There is nothing to tune on this machine: no knob has another value that is worth trying.",
    ]


def test_a_grid_tries_every_combination_as_in_the_paper() -> None:
    conductor = SystemConductor(System(probing="grid", probes=9), trials=1)
    tried = [order.setting for order in train(conductor, 0) if order.phase is Phase.PROBE]
    assert tried == [
        {"threads": 1},
        {"loader_workers": 1},
        {"loader_workers": 2},
        {"threads": 1, "loader_workers": 1},
        {"threads": 1, "loader_workers": 2},
    ]


def test_one_of_twenty_epochs_may_try_something_and_a_few_of_a_short_study() -> None:
    def probes(epochs: int, trials: int) -> int:
        conductor = SystemConductor(System(probing="grid"), trials=trials)
        orders = [order for trial in range(trials) for order in train(conductor, trial, epochs=epochs)]
        return sum(order.phase is Phase.PROBE for order in orders)

    assert probes(10, 1) == 3  # a third of a short training
    assert probes(60, 1) == 5  # of six that it may, all that there are


def waiting(share: float | None, setting: Order, epoch: int, *, cpu_s: float = 1.0) -> Taken:
    """Return an epoch of which a share was waiting for loaders."""
    said = taken(setting, epoch, epochs=20, cost=busy_loader, cpu_s=cpu_s, tells=epoch == 0)
    return msgspec.structs.replace(said, waited_s=None if share is None else share * said.seconds)


@pytest.mark.parametrize(
    ("system", "share", "tries_workers"),
    [
        (System(probes=9), 0.4, True),
        (System(probes=9), 0.001, False),
        (System(probes=9), None, True),  # nobody counted
        (System(knobs=["threads", "loader_workers"], probes=9), 0.001, True),  # they were named
    ],
)
def test_loader_knobs_are_left_untried_where_the_first_epoch_waited_for_nothing(
    system: System, share: float | None, tries_workers: bool
) -> None:
    conductor = SystemConductor(system, trials=1)
    orders = [conductor.begin(0, "here")]
    for epoch in range(12):
        orders.append(conductor.next(0, "here", waiting(share, orders[-1], epoch)))
    tried = {name for order in orders for name in order.setting if order.phase is Phase.PROBE}
    assert tried == ({"threads", "loader_workers"} if tries_workers else {"threads"})


def test_work_that_waits_and_work_that_does_not_are_two_and_stay_what_they_are() -> None:
    conductor = SystemConductor(System(probes=9), trials=4)
    works = []
    for trial, (share, cpu_s) in enumerate([(0.0, 1.0), (0.4, 9.0), (0.4, 1.0), (0.0, 9.0)]):
        order = conductor.begin(trial, "here")
        for epoch in range(12):
            order = conductor.next(trial, "here", waiting(share, order, epoch, cpu_s=cpu_s))
        conductor.ended(trial)
        works.append(order.work)
        assert order.setting == ({} if cpu_s == 1.0 else {"loader_workers": 1})
    assert works == ["work 1", "work 2", "work 1", "work 2"]


def test_a_value_that_somebody_wrote_into_a_history_is_not_set_where_it_cannot_be() -> None:
    past = Past()
    teacher = SystemConductor(System(probes=6), trials=6)
    for trial in range(6):
        train(teacher, trial, cpu_s=1.0 + 0.001 * trial)
    good = teacher.learned(lambda work: "abcdef0123456789", at_s=1.7e9)
    for best in ({"loader_workers": 500}, {"loader_workers": True}, {"loader_workers": -1}):
        past.found = [dataclasses.replace(one, best=best, costs=(Probed({}, 1.0), Probed(best, 0.1))) for one in good]
        orders = train(SystemConductor(System(probes=0), past, trials=1), 0)
        assert all(order.setting == {} for order in orders)
