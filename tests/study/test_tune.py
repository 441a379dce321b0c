"""A search as users see it: it runs, goes on, extends, and says the same again."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from support import run_script, wait_for, write_script

import etude
from etude.core.events import Judged
from etude.store.journal import Journal
from etude.testing.replay import check_decisions, check_proposals
from etude.tune.plan import SearchPlan
from etude.tune.sampler import Request
from etude.tune.samplers import TPE
from etude.tune.spaces import Space
from etude.tune.stop import MedianRule


def parabola(lr: float, width: int = 8, *, run, seed):
    for epoch in run.epochs(6):
        run.report(score=-((lr - 0.3) ** 2) - 0.5 / (epoch + 1), epoch=epoch)
    return {"score": -((lr - 0.3) ** 2), "where": Path("here"), "curve": [1, 2], "seed_seen": seed}


def test_a_search_finds_its_way_and_says_so() -> None:
    experiment = etude.Experiment(parabola, metric="score", mode="max")
    search = experiment.tune({"lr": etude.uniform(0, 1), "width": [8, 16]}, trials=30, workers=2)
    assert search is experiment.last
    assert search.complete
    assert len(search.trials) == 30
    best = search.best
    assert best.value == max(t.value for t in search.trials if t.value is not None)
    assert best.metrics == {"where": "here", "curve": [1, 2], "seed_seen": 0}
    assert [r.step for r in best.reports] == [1, 2, 3, 4, 5, 6]
    assert best.reports[2].metrics.keys() == {"score", "epoch"}
    assert experiment.run(**best.params, seed=best.seed)["score"] == best.value
    assert search.summary().startswith(f"Study {search.name}: 30 trials (")
    assert search._repr_html_().count("<tr>") == 6
    again = etude.open(search.folder)
    assert again.rows() == search.rows()


def test_tpe_and_the_median_rule_say_the_same_when_the_journal_is_fed_again() -> None:
    experiment = etude.Experiment(parabola, metric="score", mode="max")
    given = {"lr": etude.uniform(0, 1), "width": etude.integers(1, 64, log=True)}
    search = experiment.tune(given, trials=40, workers=2, seed=7)
    space, metrics = Space.of(given), search.metrics
    journal = Journal.read(search.folder)
    facts = list(journal.facts())
    journal.close()
    stopped = check_decisions(facts, SearchPlan(40, 7, MedianRule()), metrics=metrics)
    assert stopped == sum(isinstance(fact, Judged) for fact in facts) > 0
    modelled = check_proposals(facts, TPE, lambda k, redraw: Request(k, redraw, space, 7), metrics=metrics)
    assert modelled == 30
    with pytest.raises(AssertionError, match="proposal"):
        check_proposals(facts, TPE, lambda k, redraw: Request(k, redraw, space, 8), metrics=metrics)


def test_more_trials_extend_a_finished_study_and_change_nothing_before() -> None:
    experiment = etude.Experiment(parabola, metric="score", mode="max")
    space = {"lr": etude.uniform(0, 1)}
    first = experiment.tune(space, trials=5, workers=2, sampler="random", stopper="none")
    more = experiment.tune(space, trials=9, workers=1, sampler="random", stopper="none")
    assert more.folder == first.folder
    assert len(more.trials) == 9
    assert more.rows()[:5] == first.rows()
    assert [t.attempts for t in more.trials] == [1] * 9


@pytest.mark.parametrize("workers", [1, 3])
def test_random_configurations_and_values_do_not_depend_on_the_number_of_workers(workers: int) -> None:
    experiment = etude.Experiment(parabola, metric="score", mode="max")
    space = {"lr": etude.uniform(0, 1), "width": [1, 2, 3]}
    rows = [
        experiment.tune(space, trials=12, workers=n, sampler="random", stopper="none", name=f"n{n}").rows()
        for n in (2, workers)
    ]
    assert rows[0] == rows[1]


def test_a_small_space_is_used_up_and_says_so() -> None:
    def train(x: int, y: bool):
        return x + y

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune({"x": [1, 2, 3], "y": [True, False]}, trials=100, workers=2)
    distinct = {tuple(t.params.values()) for t in search.trials if t.same_as is None}
    assert len(distinct) == 6
    assert len(search.trials) < 100
    assert search.complete
    assert "used up: 6 configurations" in search._history.closed.reason
    for trial in search.trials:
        if trial.same_as is not None:
            assert trial.value == search.trials[trial.same_as].value
            assert trial.attempts == 0


def test_values_keep_their_types_on_the_way_to_the_function_and_back() -> None:
    def train(a, b, c, d, e):
        return {"score": 1.0, "types": [type(v).__name__ for v in (a, b, c, d, e)], "same": [a, b, c, d, list(e)]}

    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"a": None, "b": True, "c": 1, "d": 1.0, "e": etude.choice([(1, 2.0)])}
    trial = experiment.tune(space, trials=1, workers=1).trials[0]
    assert trial.metrics["types"] == ["NoneType", "bool", "int", "float", "tuple"]
    assert trial.params == {"a": None, "b": True, "c": 1, "d": 1.0, "e": (1, 2.0)}
    assert [type(v) for v in trial.params.values()] == [type(None), bool, int, float, tuple]


@dataclasses.dataclass
class Optimizer:
    name: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1


def test_groups_and_conditional_spaces_reach_the_function() -> None:
    def train(optimizer: Optimizer, kind: str = "a", depth: int = 0):
        return {"score": optimizer.lr, "told": [optimizer.name, kind, depth]}

    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {
        "optimizer.lr": etude.uniform(0.2, 0.4),
        "kind": etude.choice({"a": {}, "b": {"depth": etude.integers(5, 9)}}),
    }
    search = experiment.tune(space, trials=15, workers=2)
    for trial in search.trials:
        if trial.state == "finished":
            name, kind, depth = trial.metrics["told"]
            assert (name, kind) == ("sgd", trial.params["kind"])
            assert (depth >= 5) == (kind == "b") == ("depth" in trial.params)
            assert 0.2 <= trial.value <= 0.4


def test_one_process_may_serve_many_trials() -> None:
    def train(run, x: int):
        if run.trial == 3:
            os._exit(1)
        print("trial", run.trial)
        return {"score": x, "pid": os.getpid()}

    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"x": etude.integers(0, 10**6)}
    search = experiment.tune(space, trials=12, workers=1, sampler="random", retries=0, reuse_child=True)
    pids = [t.metrics["pid"] for t in search.trials if t.state == "finished"]
    assert len(set(pids[:3])) == 1
    assert len(set(pids[3:])) == 1
    assert pids[0] != pids[3]
    assert [t.log.read_text() for t in search.trials if t.number != 3] == [f"trial {n}\n" for n in range(12) if n != 3]


def test_without_reuse_every_attempt_has_a_process_of_its_own() -> None:
    def train(x: int):
        return {"score": x, "pid": os.getpid(), "session": os.getsid(0)}

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune({"x": etude.integers(0, 10**6)}, trials=6, workers=1, sampler="random")
    pids = [t.metrics["pid"] for t in search.trials]
    assert len(set(pids)) == 6
    assert [t.metrics["session"] for t in search.trials] == pids


def test_what_an_attempt_prints_is_in_its_log_and_its_cost_in_the_journal() -> None:
    def train(run, x: int):
        print("hello", run.trial)
        print("trouble", file=sys.stderr)
        os.write(1, b"raw\n")
        subprocess.run(["echo", "from a child"], check=True)
        run.log("a line")
        block = bytearray(64 * 2**20)
        sum(i * i for i in range(200_000))
        return float(len(block))

    experiment = etude.Experiment(train, metric="score", mode="max")
    trial = experiment.tune({"x": [1]}, trials=1, workers=1).trials[0]
    assert trial.log.read_text() == "hello 0\ntrouble\nraw\nfrom a child\na line\n"
    assert trial.usage.memory_mb > 64
    assert trial.usage.cpu_s > 0
    assert trial.usage.wall_s > 0


ALLOCATES = "x = bytearray(300 * 2**20)\nx[::4096] = b'.' * len(x[::4096])"


def test_the_memory_of_a_trial_is_also_that_of_what_it_has_started_and_waited_for() -> None:
    def train(lr: float) -> float:
        subprocess.run([sys.executable, "-c", ALLOCATES], check=True)
        return lr

    search = etude.Experiment(train, metric="value", mode="max").tune({"lr": [0.1]}, trials=1, workers=1)
    [trial] = search.trials
    assert trial.usage is not None
    assert trial.usage.memory_mb > 300


@pytest.mark.parametrize("how", ["forked", "spawned", "by the module itself"])
def test_what_the_script_set_up_for_logging_reaches_the_log_of_each_attempt(how: str, tmp_path: Path) -> None:
    in_workers = {
        "forked": "",
        "spawned": "    threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "by the module itself": "    logging.basicConfig(format='mine: %(message)s', level=logging.DEBUG)",
    }
    mine = f"import logging, os, threading\nif 'ETUDE_WORKER' in os.environ:\n    pass\n{in_workers[how]}\n"
    write_script(tmp_path, mine, "mine.py")
    script = write_script(
        tmp_path,
        """
        import logging, etude, mine

        def train(run, x: int):
            logging.getLogger("train").debug("too fine")
            logging.getLogger("train").info("begun %d", run.trial)
            mine.logging.warning("odd")
            return 1.0

        logging.basicConfig(level=logging.INFO, format="%(levelname)s of %(name)s: %(message)s")
        search = etude.Experiment(train, metric="score", mode="max").tune(
            {"x": etude.integers(0, 1000)}, trials=2, workers=1, sampler="random")
        for trial in search.trials:
            print(trial.log.read_text(), end="")
        """,
    )
    done = run_script(script)
    line = "INFO of train: begun {0}\nWARNING of root: odd\n"
    if how == "by the module itself":  # as it does where no study is
        line = "mine: too fine\nmine: begun {0}\nmine: odd\n"
    assert done.stdout == line.format(0) + line.format(1), done.stderr


def test_every_report_reaches_the_journal_in_order_and_not_only_the_newest() -> None:
    def train(run, x: int):
        for step in range(5000):
            run.report(score=step, half=step / 2)
        return 1.0

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune({"x": [1, 2]}, trials=2, workers=2, sampler="random", stopper="none")
    for trial in search.trials:
        if trial.same_as is None:
            told = [(r.step, r.metrics) for r in trial.reports]
            assert told == [(s + 1, {"score": float(s), "half": s / 2}) for s in range(5000)]


def test_a_fixed_stateless_value_is_no_part_of_what_the_study_is() -> None:
    def train(x: int, where: etude.Stateless[str]):
        return {"score": x, "where": where}

    experiment = etude.Experiment(train, metric="score", mode="max")
    here = experiment.tune({"x": [1, 2, 3], "where": "here"}, trials=2, workers=1, name="s", sampler="random")
    there = experiment.tune({"x": [1, 2, 3], "where": "there"}, trials=3, workers=1, name="s", sampler="random")
    assert here.folder == there.folder
    assert {t.metrics["where"] for t in here.trials} == {"here"}
    assert [t.params["where"] for t in there.trials][:2] == ["here", "here"]


@pytest.mark.parametrize("sampler", ["random", "tpe", "qmc"])
def test_a_stateless_value_may_come_later_and_changes_no_draw(sampler: str) -> None:
    def train(x: float, y: float, where: etude.Stateless[str] = "here"):
        return x + y

    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"x": etude.uniform(0, 1), "y": etude.uniform(0, 1)}
    engine = etude.Simulated(curves=lambda params, seed: iter([(1.0, {"score": params["x"]})]), workers=1)

    def drawn(name: str, trials: int, **where: str) -> list[tuple[object, ...]]:
        found = experiment.tune({**where, **space}, trials=trials, name=name, sampler=sampler, engine=engine)
        return [(trial.params["x"], trial.params["y"]) for trial in found.trials]

    assert drawn("without", 14) == drawn("with", 14, where="there")
    live = {"workers": 1, "name": "live", "sampler": sampler, "reuse_child": True}
    first = experiment.tune(space, trials=2, **live)
    again = experiment.tune({"where": "there", **space}, trials=4, **live)
    assert first.folder == again.folder
    assert [trial.params.get("where") for trial in again.trials] == [None, None, "there", "there"]


def test_tpe_learns_from_configurations_that_cannot_be() -> None:
    def train(kind: str, x: float):
        if kind != "right":
            raise etude.Invalid("wrong kind")
        return x

    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"kind": ["a", "b", "c", "right"], "x": etude.uniform(0, 1)}
    search = experiment.tune(space, trials=60, workers=2)
    valid = [t.state == "finished" for t in search.trials]
    assert sum(valid[-30:]) > 2 * sum(valid[:10])


@pytest.mark.thorough
def test_a_live_search_can_be_watched_stopped_and_taken_up_again(tmp_path: Path) -> None:
    def train(run, x: int):
        while run.trial > 2 and not (tmp_path / "go").exists():
            run.report(score=0.0)
        return float(x)

    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"x": etude.integers(0, 10**6)}
    call = {"space": space, "trials": 6, "workers": 2, "sampler": "random", "stopper": "none"}
    live = experiment.tune(**call, wait=False)
    wait_for(lambda: live.counts().get("finished", 0) >= 3)
    assert live.running
    with pytest.raises(etude.StudyInUseError, match="works on this study"):
        experiment.tune(**call)
    live.stop()
    assert not live.running
    assert not live.complete
    assert "stopped by hand" in live.summary()
    (tmp_path / "go").touch()
    done = experiment.tune(**call)
    assert done.counts() == {"finished": 6}
    assert done.folder == live.folder


@pytest.mark.parametrize("given", ["nothing", "constraint=lambda lr: True", "stopper=Own()"])
def test_a_summary_names_the_ways_on_that_there_are(given: str, tmp_path: Path) -> None:
    """The same words while the study lives as from its folder."""
    path = write_script(
        tmp_path,
        f"""
        import etude
        from etude.core.plan import GO_ON

        class Own:
            def decide(self, report, standing):
                return GO_ON

        def train(run, lr: float):
            while True:
                run.report(score=lr)

        given = dict({"" if given == "nothing" else given})
        experiment = etude.Experiment(train, metric="score", mode="max")
        live = experiment.tune({{"lr": [0.1, 0.2]}}, trials=2, workers=1, wait=False, name="one", **given)
        live.stop()
        print(live.summary().splitlines()[-1])
        print(etude.open("one").summary().splitlines()[-1])
        """,
    )
    done = run_script(path)
    assert done.returncode == 0, done.stderr
    ways = f", or `etude resume {tmp_path}/studies/one`, goes on." if given == "nothing" else " goes on."
    assert done.stdout.splitlines() == [f"Not complete: stopped by hand. The same call{ways}"] * 2


def test_a_study_of_a_closure_goes_on_by_its_call_alone() -> None:
    def train(run, lr: float):
        while True:
            run.report(score=lr)

    experiment = etude.Experiment(train, metric="score", mode="max")
    live = experiment.tune({"lr": [0.1, 0.2]}, trials=2, workers=1, wait=False)
    live.stop()
    assert live.meta["experiment"] is None
    assert live.summary().splitlines()[-1] == "Not complete: stopped by hand. The same call goes on."


def test_a_named_study_refuses_another_definition_and_shows_the_difference() -> None:
    experiment = etude.Experiment(parabola, metric="score", mode="max")
    experiment.tune({"lr": etude.uniform(0, 1)}, trials=2, workers=1, name="mine")
    with pytest.raises(etude.DefinitionChangedError) as refused:
        experiment.tune({"lr": etude.uniform(0, 2)}, trials=2, workers=1, name="mine")
    assert "space lr: uniform(0.0, 1.0) -> uniform(0.0, 2.0)" in str(refused.value)
    assert "name=..." in str(refused.value)
    same = experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, workers=2, name="mine", retries=5)
    assert len(same.trials) == 3


EDITED = """
    import etude
    def train(lr: float):
        return lr  # a comment changes nothing
    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune({"lr": etude.uniform(0, 1)}, trials=2, workers=1)
    print(search.name)
"""


def test_an_edit_starts_a_new_unnamed_study_and_one_line_says_so(tmp_path: Path) -> None:
    first = run_script(write_script(tmp_path, EDITED), ETUDE_PROGRESS="1")
    assert "new study" not in first.stderr
    comment = run_script(write_script(tmp_path, EDITED.replace("a comment", "another")), ETUDE_PROGRESS="1")
    assert comment.stdout == first.stdout
    edited = run_script(write_script(tmp_path, EDITED.replace("return lr", "return lr * 2")), ETUDE_PROGRESS="1")
    assert edited.stdout != first.stdout
    assert edited.stderr.count("this is a new study") == 1
    assert edited.stdout.startswith("script-")


def test_no_main_guard_is_needed_and_closures_travel(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import etude
        FACTOR = 3
        class Scale:
            def __init__(self, by): self.by = by
            def __call__(self, x): return x * self.by
        def make(scale):
            def train(lr: float):
                return scale(FACTOR)
            return train
        search = etude.Experiment(make(Scale(2)), metric="score", mode="max").tune({"lr": [0.1]}, trials=1)
        print(search.best.value)
        """,
    )
    done = run_script(script)
    assert done.stdout == "6.0\n", done.stderr


def test_numbers_come_from_named_streams_and_are_the_same_in_a_plain_call() -> None:
    def data():
        return [random.random() for _ in range(3)]

    def model():
        return random.random()

    def train(model, data, run, x: int):
        return {"score": 1.0, "told": [model(), data(), random.random(), float(run.generator("noise").random())]}

    experiment = etude.Experiment(train, model=model, data=data, metric="score", mode="max")
    search = experiment.tune({"x": [1, 2, 3]}, trials=3, workers=2, sampler="random", stopper="none", seed=5)
    told = [t.metrics["told"] for t in search.trials if t.same_as is None]
    assert all(t == told[0] for t in told), "trials of a search share one training seed"
    assert experiment.run(x=9, seed=5)["told"] == told[0]
    assert experiment.run(x=9, seed=6)["told"] != told[0]


def test_nan_counts_as_worst_and_is_kept() -> None:
    def train(x: int):
        return math.nan if x == 1 else float(x)

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune({"x": [0, 1]}, trials=2, workers=1, sampler="random")
    values = {t.params["x"]: t.value for t in etude.open(search.folder).trials if t.same_as is None}
    assert search.best.params["x"] == 0 or 0 not in values
    if 1 in values:
        assert math.isnan(values[1])


def test_what_was_recorded_says_how_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "very-secret-value")
    experiment = etude.Experiment(parabola, metric="score", mode="max")
    search = experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, workers=1)
    journal = Journal.read(search.folder)
    meta = journal.meta()
    journal.close()
    assert "def parabola" in "".join(meta["definition"].values())
    assert meta["call"]["trials"] == 3
    assert search.meta == meta, "which is known as soon as the search is over"
    run = meta["run 1"]
    assert run["packages"]["msgspec"]
    assert run["hardware"]["cores"] >= 1
    assert "very-secret-value" not in (search.folder / "journal.sqlite").read_bytes().decode("latin-1")


def test_cached_functions_of_a_script_travel_with_an_empty_cache(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import functools
        import etude

        @functools.cache
        def table():
            return [1.0, 2.0]

        @functools.lru_cache(maxsize=1)
        def scaled(by):
            return [by * x for x in table()]

        def train(x: int):
            assert table.cache_info().currsize == 0
            return sum(scaled(x)) + scaled.cache_parameters()["maxsize"]

        table()
        search = etude.Experiment(train, metric="y", mode="max").tune({"x": [1, 2]}, trials=2, workers=1)
        print(sorted(trial.value for trial in search.trials))
        """,
    )
    done = run_script(script)
    assert (done.stdout, done.stderr) == ("[4.0, 7.0]\n", "")


def test_classes_of_a_script_travel_and_pickle_inside_a_trial(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import dataclasses, enum, pickle
        from concurrent.futures import ProcessPoolExecutor
        import etude

        class Kind(enum.Enum):
            SGD = "sgd"
            ADAM = "adam"

        @dataclasses.dataclass
        class Optim:
            lr: float = 0.1
            betas: tuple[float, float] = (0.9, 0.99)
            names: list[str] = dataclasses.field(default_factory=list)

        class Net:
            pass

        def double(x):
            return 2 * x

        def train(optim: Optim, kind: Kind = Kind.SGD, other: Kind | None = None):
            assert isinstance(pickle.loads(pickle.dumps(Net())), Net)
            with ProcessPoolExecutor(1) as pool:
                assert list(pool.map(double, [1, 2])) == [2, 4]
            assert isinstance(kind, Kind)
            return {"score": optim.lr, "kind": kind.value, "names": optim.names, "beta": optim.betas[0]}

        search = etude.Experiment(train, metric="score", mode="max").tune(
            {"optim.lr": etude.uniform(0, 1), "kind": ["sgd", "adam"]}, trials=3, workers=1)
        print(search.counts(), [t.reason for t in search.trials if t.state == "failed"])
        """,
    )
    done = run_script(script)
    assert done.stdout == "{'finished': 3} []\n", done.stderr


def test_names_that_are_columns_already_do_not_overwrite_each_other() -> None:
    def train(trial: int, state: str):
        return {"score": 1.0, "seed": 7, "state": "ok"}

    experiment = etude.Experiment(train, metric="score", mode="max")
    (row,) = experiment.tune({"trial": 5, "state": "a"}, trials=1, workers=1).rows()
    assert row == {
        "trial": 0, "state": "finished", "score": 1.0, "params.trial": 5, "params.state": "a", "seed": 0,
        "metrics.seed": 7, "metrics.state": "ok", "same_as": None,
    }  # fmt: skip


def test_a_driver_that_works_on_something_else_is_not_swept(tmp_path: Path) -> None:
    from etude.engines.local import DRIVER_ID, DRIVER_MARK, sweep_after
    from etude.worker import processes

    def train(run, x: int):
        while not (tmp_path / "go").exists():
            pass
        return 1.0

    experiment = etude.Experiment(train, metric="score", mode="max")
    live = experiment.tune({"x": etude.integers(0, 100)}, trials=2, workers=1, sampler="random", wait=False)
    wait_for(lambda: live.counts().get("running"))
    assert processes.marked(DRIVER_MARK, DRIVER_ID)
    assert sweep_after(DRIVER_ID) == 0
    (tmp_path / "go").touch()
    assert live.wait().counts() == {"finished": 2}
    assert [t.attempts for t in live.trials] == [1, 1]


def test_a_folder_that_is_removed_ends_the_study_and_says_so(tmp_path: Path) -> None:
    import shutil

    def train(run, x: int):
        while not (tmp_path / "go").exists():
            pass
        return 1.0

    experiment = etude.Experiment(train, metric="score", mode="max")
    live = experiment.tune({"x": etude.integers(0, 100)}, trials=2, workers=1, wait=False)
    wait_for(lambda: live.counts().get("running"))
    shutil.rmtree(live.folder)
    with pytest.raises(etude.StudyError, match="is gone: somebody removed or moved"):
        live.wait()
