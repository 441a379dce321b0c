"""The machine that decides on settings, told of epochs that were made up and of tables that are replayed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from etude.core.system import Phase
from etude.system.knobs import Setting, key, setting_of
from etude.system.probing import Axes, Axis, Grid, best_of
from etude.system.tuner import Decision, Tuner
from etude.system.works import Known

WORKERS = Axis(tuple({"workers": n} for n in (1, 2, 4)))
THREADS = Axis(({"threads": 1}, {"threads": 4}), ordered=False)


def unknown(profile: Any) -> Known:
    return Known(profile)


def told(tuner: Tuner[Any], costs: Callable[[Setting], float], *, epochs: int, trial: object = 0) -> list[Decision]:
    """Tell a machine of all epochs of a trial, and return what it decided."""
    decisions = [tuner.begin(trial)]
    for _ in range(epochs):
        now = decisions[-1]
        decisions.append(tuner.epoch(trial, now, costs(now.setting), "work"))
    tuner.ended(trial)
    return decisions[:epochs]


def table(costs: Mapping[str, float]) -> Callable[[Setting], float]:
    """Return what an epoch costs: a factor for each knob that is not at its default."""
    return lambda setting: math.prod(costs.get(f"{name}={value}", 1.0) for name, value in setting.items())


def test_a_grid_is_tried_in_its_order_and_the_best_stays() -> None:
    tuner = Tuner(Grid(({"workers": 1}, {"workers": 2}, {"workers": 4})), most=9, look_up=unknown)
    decisions = told(tuner, table({"workers=1": 0.9, "workers=2": 0.6, "workers=4": 0.8}), epochs=8)
    assert [one.phase for one in decisions] == [
        *(Phase.PROFILE, Phase.BASELINE),
        *[Phase.PROBE] * 3,
        *[Phase.KEEP] * 3,
    ]
    assert decisions[-1].setting == {"workers": 2}
    assert decisions[-1].evidence == {"of the default": pytest.approx(0.6), "tried": 3.0}


def test_settings_are_one_only_where_their_values_are_of_one_kind() -> None:
    keys = {key({"cache": value}) for value in (True, 1, 1.0, "1", None)}
    assert len(keys) == 5
    assert sorted(repr(setting_of(one)["cache"]) for one in keys) == ["'1'", "1", "1.0", "None", "True"]
    assert key({"threads": 2, "prefetch": 4}) == key({"prefetch": 4, "threads": 2}) != key({"threads": 2})
    assert setting_of(key({})) == {}


def test_what_was_best_of_what_was_no_better_is_the_evidence() -> None:
    tuner = Tuner(Grid(({"workers": 1}, {"workers": 2}, {"workers": 4})), most=9, look_up=unknown)
    decisions = told(tuner, table({"workers=1": 1.3, "workers=2": 1.1, "workers=4": 1.2}), epochs=8)
    assert (decisions[-1].phase, decisions[-1].evidence) == (
        Phase.DEFAULT,
        {"of the default": pytest.approx(1.1), "tried": 3.0},
    )


def test_an_axis_ends_where_a_step_is_no_better_and_the_next_begins_at_the_best() -> None:
    axes, tried = Axes((WORKERS, THREADS)), {}
    costs = table({"workers=1": 0.9, "workers=2": 0.95, "threads=4": 0.5})
    asked = []
    while (setting := axes.propose(tried)) is not None:
        asked.append(dict(setting))
        tried[key(setting)] = costs(setting)
    assert asked == [{"workers": 1}, {"workers": 2}, {"workers": 1, "threads": 1}, {"workers": 1, "threads": 4}]
    assert best_of(tried) == ({"workers": 1, "threads": 4}, pytest.approx(0.45))


def test_what_brings_nothing_is_left_at_the_default() -> None:
    tuner = Tuner(Axes((WORKERS, THREADS)), most=9, look_up=unknown)
    decisions = told(tuner, lambda setting: 1.0 + 0.1 * len(setting), epochs=12)
    assert {one.phase for one in decisions[6:]} == {Phase.DEFAULT}
    assert all(not one.setting for one in decisions[6:])


def test_similar_work_is_known_and_nothing_is_probed() -> None:
    known = Known("work", {"workers": 2}, "as 12 epochs of similar work", {"distance": 0.1})
    tuner = Tuner(Axes((WORKERS,)), most=9, look_up=lambda profile: known)
    decisions = told(tuner, table({"workers=2": 0.7}), epochs=6)
    assert [one.phase for one in decisions] == [Phase.PROFILE, Phase.BASELINE, Phase.REUSE, *[Phase.KEEP] * 3]
    assert decisions[2].why == "as 12 epochs of similar work"


def test_what_was_wrongly_reused_does_harm_for_one_epoch() -> None:
    known = Known("work", {"workers": 4})
    tuner = Tuner(Axes((WORKERS,)), most=9, look_up=lambda profile: known)
    decisions = told(tuner, table({"workers=4": 1.5, "workers=1": 0.8, "workers=2": 0.9}), epochs=8)
    assert [one.setting for one in decisions].count({"workers": 4}) == 1
    assert decisions[-1].setting == {"workers": 1}


def test_trials_share_what_they_try_and_known_work_needs_no_second_epoch_by_default() -> None:
    tuner = Tuner(Grid(({"workers": 1}, {"workers": 2})), most=9, look_up=unknown)
    costs = table({"workers=1": 1.2, "workers=2": 0.8})
    now = {trial: tuner.begin(trial) for trial in (0, 1)}
    asked = []
    for _ in range(3):
        for trial, one in now.items():
            now[trial] = tuner.epoch(trial, one, (1 + trial) * costs(one.setting), "work")
            asked += [now[trial].setting] * (now[trial].phase is Phase.PROBE)
    assert asked == [{"workers": 1}, {"workers": 2}]
    later = told(tuner, costs, epochs=3, trial=2)
    assert [one.phase for one in later] == [Phase.PROFILE, Phase.KEEP, Phase.KEEP]
    assert tuner.learned()["work"].best == {"workers": 2}


@pytest.mark.parametrize(("cost", "profiles"), [(0.8, 3), (0.5, 2), (0.2, 2)])
def test_where_all_trials_were_alike_the_next_ones_begin_with_the_best(cost: float, profiles: int) -> None:
    """And sooner where an epoch by default costs much more than that."""
    tuner = Tuner(Grid(({"workers": 2},)), most=9, look_up=unknown)
    first = [told(tuner, table({"workers=2": cost}), epochs=4, trial=trial)[0] for trial in range(5)]
    assert [one.phase for one in first] == [*[Phase.PROFILE] * profiles, *[Phase.KEEP] * (5 - profiles)]


def test_a_probe_that_is_clearly_worse_is_cut_short_and_not_before_it_has_shown_it() -> None:
    tuner = Tuner(Axes((WORKERS,)), most=9, look_up=unknown)
    now = tuner.begin(0)
    assert not tuner.is_clearly_worse(0, 99.0, 0.5)  # nothing to compare it with
    for _ in range(2):
        now = tuner.epoch(0, now, 1.0, "work")
    assert now.phase is Phase.PROBE
    assert not tuner.is_clearly_worse(0, 2.0, 0.05)
    assert tuner.is_clearly_worse(0, 2.0, 0.2)
    assert not tuner.is_clearly_worse(0, 1.1, 0.2)


def test_a_probe_that_is_much_slower_than_the_best_so_far_is_cut_short_and_the_best_goes_on() -> None:
    tuner = Tuner(Grid(({"workers": 2}, {"workers": 4})), most=9, look_up=unknown)
    now = tuner.begin(0)
    assert tuner.meanwhile(0) == {}
    for cost in (1.0, 1.0, 0.25):
        now = tuner.epoch(0, now, cost, "work")
    assert now.setting == {"workers": 4}
    assert not tuner.is_clearly_worse(0, 0.3, 0.2)
    assert tuner.is_clearly_worse(0, 0.4, 0.2)  # far better than the default, and yet no match for two workers
    assert tuner.meanwhile(0) == {"workers": 2}
    assert tuner.meanwhile("nobody") == {}


def test_another_job_begins_it_anew() -> None:
    tuner = Tuner(Grid(({"workers": 2},)), most=9, look_up=unknown)
    now = tuner.begin(0)
    for _ in range(8):
        now = tuner.epoch(0, now, 0.6 if now.setting else 1.0, "work")
    assert now.phase is Phase.KEEP
    phases = []
    for _ in range(6):  # from now on two workers are worse
        now = tuner.epoch(0, now, 2.4 if now.setting else 2.0, "work")
        phases.append(now.phase)
    assert phases == [*[Phase.KEEP] * 2, Phase.BASELINE, Phase.REUSE, Phase.DEFAULT, Phase.DEFAULT]


def test_what_was_learned_before_all_is_measured_anew_is_not_lost() -> None:
    for cost, best in ((0.6, {"workers": 2}), (1.2, {})):
        tuner = Tuner(Grid(({"workers": 2},)), most=1, look_up=unknown)
        now = tuner.begin(0)
        while now.phase in (Phase.PROFILE, Phase.BASELINE, Phase.PROBE):
            now = tuner.epoch(0, now, cost if now.setting else 1.0, "work")
        for _ in range(9):  # another job comes late
            now = tuner.epoch(0, now, cost if now.setting else 1.0, "work")
        before = tuner.learned()["work"]
        while now.phase is not Phase.BASELINE:
            now = tuner.epoch(0, now, 2.0 * (cost if now.setting else 1.0), "work")
        assert tuner.learned()["work"] == before
        assert (before.best, before.baseline) == (best, 1.0)
        for _ in range(3):
            now = tuner.epoch(0, now, 3.0 * (cost if now.setting else 1.0), "work")
        after = tuner.learned()["work"]
        assert (after.best, after.baseline) == (best, 3.0 if best else 1.0)  # nothing was tried anew, of the default


def test_a_job_that_goes_begins_it_anew_as_well() -> None:
    tuner = Tuner(Grid(({"workers": 2},)), most=9, look_up=unknown)
    phases = [one.phase for one in told(tuner, lambda setting: 2.4 if setting else 2.0, epochs=9)]
    assert phases == [Phase.PROFILE, Phase.BASELINE, Phase.PROBE, *[Phase.DEFAULT] * 6]
    now = Decision({}, Phase.DEFAULT, "")
    phases = []
    for _ in range(6):  # from now on two workers are better
        now = tuner.epoch(0, now, 0.6 if now.setting else 1.0, "work")
        phases.append(now.phase)
    assert phases == [*[Phase.DEFAULT] * 2, Phase.BASELINE, Phase.PROBE, Phase.KEEP, Phase.KEEP]


def test_epochs_that_are_slow_now_and_then_are_no_drift() -> None:
    tuner = Tuner(Grid(({"workers": 2},)), most=9, look_up=unknown)
    now = tuner.begin(0)
    for nth in range(60):
        now = tuner.epoch(0, now, (0.6 if now.setting else 1.0) * (2.0 if nth % 5 == 3 else 1.0), "work")
        assert now.phase is not Phase.BASELINE or nth < 30
    assert (now.phase, now.setting) == (Phase.KEEP, {"workers": 2})


def test_a_slow_epoch_by_default_does_not_make_all_else_look_better() -> None:
    tuner = Tuner(Grid(({"workers": 2}, {"workers": 4})), most=12, look_up=unknown)
    now, kept = tuner.begin(0), []
    draw = random.Random(3)
    for nth in range(80):
        cost = (1.1 if now.setting else 1.0) * draw.lognormvariate(0.0, 0.05) * (1.3 if nth == 1 else 1.0)
        now = tuner.epoch(0, now, cost, "work")
        kept.append(now.setting)
    assert kept[-40:] == [{}] * 40


def test_what_is_hardly_better_is_compared_with_the_default_again_and_what_is_clearly_better_is_not() -> None:
    for gain, spread in ((0.6, 0.05), (0.93, 0.1)):
        tuner, draw = Tuner(Grid(({"workers": 2},)), most=12, look_up=unknown), random.Random(5)
        decisions = told(tuner, lambda s: (gain if s else 1.0) * draw.lognormvariate(0.0, spread), epochs=60)  # noqa: B023
        by_default = sum(one.phase is Phase.BASELINE for one in decisions)
        assert (by_default == 1) if gain == 0.6 else (3 <= by_default <= 20)


def test_probes_are_bounded_for_all_kinds_of_work_together_and_then_what_was_best_for_others_is_taken() -> None:
    tuner = Tuner(Grid(tuple({"workers": n} for n in (1, 2, 4, 8))), most=6, look_up=unknown)
    costs = table({"workers=1": 0.9, "workers=2": 0.5, "workers=4": 0.8})
    phases = []
    for trial, work in enumerate(("first", "second", "third", "fourth")):
        now = tuner.begin(trial)
        for _ in range(10):
            phases.append(now.phase)
            cost = costs(now.setting) if work != "fourth" or not now.setting else 2.0
            now = tuner.epoch(trial, now, cost, work)
        tuner.ended(trial)
        assert now.setting == ({"workers": 2} if work != "fourth" else {})
    assert phases.count(Phase.PROBE) == 6
    assert phases[20:].count(Phase.REUSE) == 2  # and where that does harm, it does so for one epoch


def test_a_trial_that_goes_leaves_what_it_was_probing_to_others() -> None:
    tuner = Tuner(Grid(({"workers": 2},)), most=9, look_up=unknown)
    now = {trial: tuner.begin(trial) for trial in (0, 1)}
    for trial in (0, 1, 0):
        now[trial] = tuner.epoch(trial, now[trial], 1.0, "work")
    assert now[0].phase is Phase.PROBE
    tuner.ended(0)
    assert tuner.epoch(1, now[1], 1.0, "work").setting == {"workers": 2}


@pytest.mark.parametrize("seed", range(20))
def test_on_replayed_tables_little_is_lost_to_the_best_and_hardly_anything_to_the_default(seed: int) -> None:
    """Twenty tables of what settings cost, with noise; a study of 240 epochs in trials of 20."""
    draw = random.Random(seed)
    knobs = {"workers": (1, 2, 4), "threads": (1, 4), "prefetch": (4, 8)}
    gains = [{value: draw.uniform(0.75, 1.3) for value in values} for values in knobs.values()]
    cost = {
        key({name: value for name, value in zip(knobs, values, strict=True) if value is not None}): 1.0
        for values in itertools.product(*((None, *of) for of in knobs.values()))
    }
    for setting in cost:
        for name, value in setting_of(setting).items():
            cost[setting] *= gains[list(knobs).index(name)][value]
    axes = Axes(tuple(Axis(tuple({name: v} for v in values), ordered=False) for name, values in knobs.items()))
    tuner = Tuner(axes, most=12, look_up=unknown)
    spent, probes, n = 0.0, 0, 240
    for trial in range(n // 20):
        scale = draw.uniform(0.5, 3)
        now, took = tuner.begin(trial), 0.0
        for _ in range(20):
            exact = cost[key(now.setting)]
            probes += now.phase is Phase.PROBE
            took += exact
            now = tuner.epoch(trial, now, scale * exact * draw.gauss(1, 0.01), "work")
        tuner.ended(trial)
        spent += took
    assert probes <= 0.05 * n
    assert n * min(cost.values()) / spent >= 0.95
    assert spent <= n * 1.02
