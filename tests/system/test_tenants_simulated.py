"""Many jobs on one machine, simulated: what the benchmark makes of tables, known answers and bounds. All made up."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from benchmarks import system_tenants
from benchmarks.pipetune import tables
from benchmarks.tenants import jobs, queue
from benchmarks.tenants.jobs import Job
from benchmarks.tenants.made_up import made_up

from etude.core.system import Phase
from etude.system.budget import Amount, Want
from etude.system.tuner import Decision

TABLES = made_up()


def job(table: tables.Table, draw: random.Random, nth: int = 0) -> Job:
    return Job(nth, table, jobs.workload_rates(draw), system_tenants.digest(draw), f"job {nth}")


def test_jobs_that_take_the_whole_machine_run_first_in_first_out():
    found = queue.serve([0.0, 1.0, 20.0], [5.0, 5.0, 5.0].__getitem__)
    assert [(one.name, one.ended_s, one.response_s, one.waited_s) for one in found] == [
        ("0", 5.0, 5.0, 0.0),
        ("1", 10.0, 9.0, 4.0),
        ("2", 25.0, 5.0, 0.0),
    ]


def test_jobs_that_take_half_of_it_run_two_at_a_time():
    half = Want(Amount(1), Amount(1))
    found = queue.serve([0.0, 1.0, 2.0], [5.0, 9.0, 5.0].__getitem__, half)
    assert [(one.name, one.ended_s) for one in found] == [("0", 5.0), ("1", 10.0), ("2", 10.0)]


def test_the_mean_response_of_a_busy_machine_is_that_of_the_formula():
    """Exponential arrivals and equal jobs: Pollaczek and Khinchine have the mean wait, load / 2 / (1 - load) jobs."""
    load, n = 0.5, 40_000
    arrive_s = queue.arrivals(n, mean_s=1 / load, draw=random.Random(0))
    found = queue.serve(arrive_s, lambda _: 1.0)
    assert sum(one.waited_s for one in found) / n == pytest.approx(load / 2 / (1 - load), rel=0.05)


def test_brackets_are_those_of_hyperband():
    """The table of the paper for at most 81 epochs, and a third that survive."""
    found = list(jobs.hyperband(81))
    assert found[0] == [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]
    assert [bracket[0] for bracket in found[1:]] == [(34, 3), (15, 9), (8, 27), (5, 81)]


def test_nobody_is_faster_than_who_knows_the_table_and_all_train_the_same_epochs():
    draw = random.Random(1)
    for table in TABLES:
        one = job(table, draw)
        v1, v2, best = (approach.run(one, 9) for approach in (jobs.V1(), jobs.V2(), jobs.Best()))
        tuned = jobs.PipeTune([], most=12).run(one, 9)
        assert v1.epochs == v2.epochs == best.epochs == tuned.epochs
        assert best.seconds <= min(v1.seconds, v2.seconds, tuned.seconds)
        assert tuned.seconds <= v1.seconds * 1.1


STAYING = {"loader_workers": 2, "persistent_workers": True}


def started(first_s: float) -> tables.Table:
    """Return a table whose epochs take 1 s by default and .5 s with workers that stay; a first one by default 2 s."""
    settings = {"plain": {"loader_workers": 0}, "staying": {"loader_workers": 2, "persistent_workers": True}}
    plain, staying = (
        tables.Row(setting, (seconds,), None, first)
        for setting, seconds, first in zip(settings.values(), (1.0, 0.5), (2.0, first_s), strict=True)
    )
    return tables.Table("t", "I", plain.setting, {tables.spelled(row.setting): row for row in (plain, staying)})


class Later(jobs.Approach):
    """Turns workers on after the first epoch of a trial."""

    def next(self, trial: int, now: Decision, seconds: float) -> Decision:
        return Decision(STAYING, Phase.KEEP, "")


def test_workers_that_stay_are_paid_for_in_the_epoch_that_begins_them():
    table = started(first_s=3.5)
    assert table.late_s({}, None) == 1.0
    assert table.late_s(STAYING, None) == 3.0
    assert table.late_s(STAYING, {}) == 2.0, "what the default's first epochs pay as well does not come again"
    assert table.late_s(STAYING, STAYING) == table.late_s({}, STAYING) == 0.0


def test_a_trial_that_begins_workers_late_pays_for_them_as_one_that_begins_with_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "hyperband", lambda most: [[(1, most)]])
    for first_s in (0.5, 1.2, 3.5):
        one = job(started(first_s), random.Random(4))
        later, static = Later().run(one, 9), jobs.Static(STAYING).run(one, 9)
        by_default = jobs.V1().run(one, 9)
        assert jobs.Best().run(one, 9).seconds == min(static.seconds, by_default.seconds)
        assert later.seconds > static.seconds, "an epoch by default is the slower one"
    assert later.seconds - static.seconds < 0.5 * (by_default.seconds - 1.0) / 9 * 1.001


def test_what_is_saved_is_not_the_luck_of_the_draw():
    """Both settings have the same median and very different epochs, so nobody gains by either."""
    rows = {
        tables.spelled(setting): tables.Row(setting, epochs, None, 1.0)
        for setting, epochs in (({"threads": 2}, (0.1, 1.0, 1.9)), ({"threads": 1}, (0.9, 1.0, 1.1)))
    }
    one = job(tables.Table("t", "I", {"threads": 2}, rows), random.Random(5))
    took = {approach.run(one, 9).seconds for approach in (jobs.V1(), jobs.Best(), jobs.PipeTune([], most=0))}
    assert len(took) == 1


def test_what_is_unknown_is_probed_and_what_the_campaign_showed_is_not():
    draw = random.Random(2)
    known = [job(table, draw) for table in TABLES]
    history = jobs.campaign(known, draw)
    seen = jobs.PipeTune(history, most=12).run(known[0], 9)
    unseen = jobs.PipeTune(history, most=12).run(job(TABLES[0], draw), 9)
    assert (seen.reused, seen.probes) == (True, 0)
    assert not unseen.reused
    once = len(TABLES[0].changes())
    assert once <= unseen.probes <= once + 1, "each setting once, and what may be better once more"


def test_one_in_five_jobs_is_like_none_before_and_types_take_turns():
    draw = random.Random(3)
    known = [job(table, draw) for table in TABLES]
    trace = system_tenants.jobs_of(known, ("I", "II"), 40, draw, seed="s")
    digests = {one.digest for one in known}
    assert sum(one.digest not in digests for one in trace) == 8
    assert [one.table.name[-1] for one in trace[:6]] == ["A", "C", "B", "D", "A", "C"]


def test_a_table_of_the_file_is_read_by_what_a_setting_changes(tmp_path: Path):
    settings = {
        "threads=2,loader_workers=0": {"setting": {"threads": 2, "loader_workers": 0}, "epoch_s": [1.0, 3.0, 2.0]},
        "threads=1,loader_workers=0": {"setting": {"threads": 1, "loader_workers": 0}, "epoch_s": [1.5]},
    }
    told = {name: {**one, "joules": None, "first_epoch_s": 4.0} for name, one in settings.items()}
    file = tmp_path / "epochs.json"
    one = {"type": "I", "default": "threads=2,loader_workers=0", "settings": told}
    file.write_text(json.dumps({"machine": {}, "workloads": {"a net": one}}))
    (table,) = tables.read(file)
    assert (table.name, table.kind, table.gain) == ("a net", "I", pytest.approx(4 / 3))
    assert (table.row({}).seconds, table.row({}).extra_s) == (2.0, 2.0)
    assert table.changes() == ({"threads": 1},)
    assert table.best_change == {"threads": 1}
