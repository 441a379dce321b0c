"""Studies whose states lie elsewhere: in a folder that all workers reach, and on a server that speaks S3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import left_behind_by, run_script, running, start_script, wait_for, write_script

import etude
from etude.core.events import Checkpointed, Resumed
from etude.results.housekeeping import clear, usage
from etude.store.journal import Journal

SCRIPT = """
    import os, random, signal, sys, time
    from pathlib import Path
    import etude
    from etude.core.events import Checkpointed
    from etude.store.journal import Journal

    PLACE = Path(__file__).parent

    def is_saved(trial, epoch):
        journal = Journal.read(PLACE / "studies" / "killed")
        saved = {(f.trial, f.checkpoint.epoch) for f in journal.facts() if isinstance(f, Checkpointed)}
        journal.close()
        return (trial, epoch) in saved

    def train(run, lr: float):
        kept = run.keep(total=0.0, values=[0.5] * 1000)
        for epoch in run.epochs(4):
            with (PLACE / f"epochs-{os.environ['HOW']}-{run.trial}").open("a") as log:
                print(epoch, file=log)
            kept.total += lr * random.random()
            run.report(score=kept.total)
            killed = PLACE / f"killed-{run.trial}-{epoch}"
            if os.environ["HOW"] == "killed" and epoch in (1, 2) and not killed.exists():
                while not is_saved(run.trial, epoch):
                    time.sleep(0.01)
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return kept.total

    if __name__ == "__main__":
        search = etude.Experiment(train, metric="score", mode="max").tune(
            {"lr": etude.uniform(0, 1)}, trials=4, workers=2, retries=5, sampler="random", stopper="none",
            name=os.environ["HOW"], states=os.environ.get("STATES"),
        )
        print([(trial.value, trial.curve) for trial in search.trials])
        print(search.notes, file=sys.stderr)
"""


def cli(folder: Path, *args: str, **environment: str) -> Any:
    """Call the command line on the studies of a folder, and return what it says to programs."""
    done = subprocess.run(
        [sys.executable, "-c", "from etude.cli import main; main()", *args, "--json"],
        cwd=folder,
        env={**os.environ, "ETUDE_STUDIES": str(folder / "studies"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def facts(folder: Path, kind: type[Any]) -> list[Any]:
    journal = Journal.read(folder)
    try:
        return [fact for fact in journal.facts() if isinstance(fact, kind)]
    finally:
        journal.close()


@pytest.fixture(scope="module", params=["folder", "s3"])
def states(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment that names a place for states and leads there."""
    if request.param == "folder":
        return {"STATES": str(tmp_path_factory.mktemp("states"))}
    pytest.importorskip("s3fs")
    return {"STATES": "s3://bucket/states", **request.getfixturevalue("s3")}


@pytest.mark.thorough
def test_killed_trials_go_on_from_states_elsewhere_and_come_to_the_same_end(
    states: dict[str, str], tmp_path: Path
) -> None:
    script = write_script(tmp_path, SCRIPT)
    quiet = run_script(script, HOW="quiet")
    killed = run_script(script, HOW="killed", **states)
    assert (quiet.returncode, killed.returncode) == (0, 0), quiet.stderr + killed.stderr
    assert killed.stdout == quiet.stdout
    study = tmp_path / "studies" / "killed"
    assert len(list(tmp_path.glob("killed-*"))) == 8
    resumed = facts(study, Resumed)
    assert sorted(fact.origin.key[2] for fact in resumed) == [1] * 4 + [2] * 4
    assert [fact.origin.reason for fact in resumed] == [""] * 8
    for trial in range(4):
        assert (tmp_path / f"epochs-killed-{trial}").read_text().split() == ["0", "1", "1", "2", "2", "3"]
    assert not list(study.glob("trials/*/*/checkpoints/*")), "nothing of it is in the study's folder"
    url = etude.open(study).meta["states"]
    assert url.startswith(f"{states['STATES']}/killed-")
    for secret in ("testing", "AWS_SECRET"):
        assert secret.encode() not in (study / "journal.sqlite").read_bytes()

    environment = {name: value for name, value in states.items() if name != "STATES"}
    [row] = cli(tmp_path, "du", "killed", **environment)["studies"]
    assert (row["states"], row["surplus"], row["weights"] > 0) == (0, 0, True)
    sizes = {(f.trial, f.checkpoint.key): f.checkpoint.sizes for f in facts(study, Checkpointed)}
    assert row["weights"] <= 6 * max(weights for weights, _ in sizes.values())


@pytest.mark.thorough
def test_what_a_kill_leaves_on_a_server_is_found_and_removed(s3: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    script = write_script(tmp_path, SCRIPT)
    assert run_script(script, HOW="quiet", STATES="s3://bucket/other", **s3).returncode == 0
    url = etude.open(tmp_path / "studies" / "quiet").meta["states"]
    leave = f"""
        import fsspec
        files, path = fsspec.core.url_to_fs({url!r})
        files.pipe_file(path + "/00001/attempt-1/checkpoints/0-00001.rest.safetensors", b"1234567")
    """
    assert run_script(write_script(tmp_path, leave, "leave.py"), **s3).returncode == 0
    [row] = cli(tmp_path, "du", **s3)["studies"]
    assert row["surplus"] == 7
    [found] = cli(tmp_path, "gc", **s3)["studies"]
    assert found["bytes"] == 7
    [row] = cli(tmp_path, "du", **s3)["studies"]
    assert (row["surplus"], row["weights"] > 0) == (0, True)


def test_a_server_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    script = write_script(tmp_path, SCRIPT)
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hidden"}
    refused = run_script(script, HOW="quiet", STATES="s3://bucket/states", **nowhere)
    assert refused.returncode == 1
    assert "ConfigError: states='s3://bucket/states' cannot keep states: " in refused.stderr
    assert "or leave states= out, and they lie in the study's folder." in refused.stderr
    assert "hidden" not in refused.stderr
    assert not (tmp_path / "studies" / "quiet").exists()
    assert not list(tmp_path.glob("epochs-*"))


HANGING = """
    import os, time
    import etude

    def train(run, lr: float):
        kept = run.keep(total=0.0)
        for epoch in run.epochs(5):
            with open(os.environ["EPOCHS"], "a") as log:
                print(epoch, file=log)
            kept.total += lr
            run.report(score=kept.total)
            while epoch == 3 and os.environ.get("HANGS"):
                time.sleep(0.01)
        return kept.total

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=1, workers=1, sampler="random", stopper="none", name="lost",
            states=os.environ["STATES"], mirror=os.environ["MIRROR"],
        )
"""


def test_a_study_whose_machine_is_lost_goes_on_within_its_trials(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here, there = (write_script(tmp_path / name, HANGING) for name in ("here", "there"))
    mirror, epochs = tmp_path / "mirrors" / "lost", tmp_path / "epochs"
    places = {"STATES": str(tmp_path / "states"), "MIRROR": str(mirror.parent), "EPOCHS": str(epochs)}

    def shipped() -> bool:
        if not list(mirror.glob("segments/*.seg")):
            return False
        saved = facts(etude.open(str(mirror)).folder, Checkpointed)
        return 3 in {fact.checkpoint.epoch for fact in saved}

    with running(start_script(here, HANGS="1", **places)) as driver:
        wait_for(shipped)
        driver.kill()
        driver.wait()
        wait_for(lambda: not left_behind_by(driver))
    shutil.rmtree(here.parent)
    shown = cli(there.parent, "resume", str(mirror), **places)
    assert shown["counts"] == {"finished": 1}
    assert epochs.read_text().split() == ["0", "1", "2", "3", "3", "4"]


def train(run: Any, lr: float, fails: str = "") -> float:
    kept = run.keep(total=0.0)
    for epoch in run.epochs(3):
        kept.total += lr
        run.report(score=kept.total)
        if fails and epoch == 1:
            os.rename(fails, f"{fails}-away")
            Path(fails).write_text("in the way")
    return kept.total


def tune(**given: Any) -> Any:
    call = {"trials": 2, "workers": 1, "sampler": "random", "stopper": "none", "name": "one"}
    fixed = {"fails": given.pop("fails")} if "fails" in given else {}
    space = {"lr": etude.uniform(0, 1), **fixed}
    return etude.Experiment(train, metric="score", mode="max").tune(space, **{**call, **given})


def test_a_study_keeps_its_states_where_it_began_to(tmp_path: Path) -> None:
    search = tune(states=tmp_path / "states")
    assert usage("one").weights > 0
    assert clear("one").found == ()
    with pytest.raises(etude.ConfigError) as refused:
        tune(states=tmp_path / "elsewhere", trials=3)
    assert str(refused.value) == (
        f"states={str(tmp_path / 'elsewhere')!r} is not where the study 'one' keeps its states: that is "
        f"{tmp_path / 'states'}, since it began. Leave states= out, or give this study another name."
    )
    before = {path for path in (tmp_path / "states").rglob("*") if path.is_file()}
    assert tune(trials=3).counts() == {"finished": 3}
    after = {path for path in (tmp_path / "states").rglob("*") if path.is_file()}
    assert len(after) == 3 > len(before) == 2
    assert search.meta["states"] == etude.open("one").meta["states"]


def test_a_study_in_its_own_folder_stays_there(tmp_path: Path) -> None:
    tune()
    with pytest.raises(etude.ConfigError, match="keeps its states: that is its folder, since it began"):
        tune(states=tmp_path / "states", trials=3)


def test_a_place_that_fails_later_costs_states_and_no_trial(tmp_path: Path) -> None:
    place = tmp_path / "states"
    search = tune(states=place, fails=str(place), trials=1)
    assert search.counts() == {"finished": 1}
    assert [len(trial.curve) for trial in search.trials] == [3]
    assert sum("could not be saved" in note for note in search.notes) == 1


def test_states_of_a_simulated_study_are_refused(tmp_path: Path) -> None:
    with pytest.raises(etude.ConfigError) as refused:
        tune(states=tmp_path, engine=etude.Simulated(curves=lambda lr: [lr]))
    assert str(refused.value).endswith("was given for a simulated study, whose trials have none. Leave states= out.")
