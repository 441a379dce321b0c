"""A study outlives its machine: drivers that are killed, folders that are deleted, mirrors on real places."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from support import left_behind_by, run_script, running, start_script, wait_for, write_script

import etude
from etude.core.events import Assigned
from etude.store.journal import Journal
from etude.studies.crew import Crew
from etude.wire.messages import Forget, Message

SCRIPT = """
    import json, os, sys, time
    import etude

    if acks := os.environ.get("ACKS"):  # what the workers are told that is safe
        from etude.studies.crew import Crew
        from etude.wire.messages import Forget

        send = Crew.send

        def told(self, worker, message):
            if isinstance(message, Forget):
                with open(acks, "a") as file:
                    file.write(f"{message.trial}\\n")
            return send(self, worker, message)

        Crew.send = told

    def train(lr: float, run):
        with open(os.environ["STARTS"], "a") as file:
            file.write(f"{run.trial}\\n")
        for epoch in run.epochs(3):
            time.sleep(0.02)
            run.report(score=lr * (epoch + 1))
        (run.folder / "weights.txt").write_text(f"weights of {run.trial}")
        print(f"trained {run.trial}")
        while run.trial >= int(os.environ.get("FROM", "0")) and os.path.exists(os.environ.get("HANGS", "nowhere")):
            time.sleep(0.02)
            run.report(score=lr)
        return lr

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=16, workers=2, sampler="random", stopper="none", name="study",
            mirror=os.environ.get("MIRROR"),
        )
        print(json.dumps(search.rows(), sort_keys=True))
"""


@pytest.fixture(scope="module", params=["path", "folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """Give a place for mirrors, and the environment that it needs."""
    if request.param == "path":
        return str(tmp_path_factory.mktemp("mirrors")), {}
    if request.param == "folder":
        return f"file://{tmp_path_factory.mktemp('mirrors')}", {}
    pytest.importorskip("s3fs")
    return "s3://bucket/studies", request.getfixturevalue("s3")


def cli(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call the command line in a folder, with the studies in it."""
    return subprocess.run(
        [sys.executable, "-c", "from etude.cli import main; main()", *args],
        cwd=folder,
        env={**os.environ, "ETUDE_STUDIES": str(folder / "studies"), "ETUDE_PROGRESS": "0", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def machine(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return write_script(folder, SCRIPT)


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.thorough
def test_killed_and_its_folder_deleted_a_study_goes_on_elsewhere_and_nothing_acknowledged_is_lost(
    tmp_path: Path, place: tuple[str, dict[str, str]]
) -> None:
    url, environment = place
    calm = machine(tmp_path, "calm")
    undisturbed = run_script(calm, STARTS=str(tmp_path / "calm-starts"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    here, starts, acks = machine(tmp_path, "here"), tmp_path / "starts", tmp_path / "acks"
    hangs = {"HANGS": str(here), "FROM": "10"}  # however slow the mirror is, the study is not over before it is killed
    told = {"MIRROR": url, "STARTS": str(starts), "ACKS": str(acks), **hangs, **environment}
    with running(start_script(here, **told)) as driver:
        wait_for(lambda: len(numbers(acks)) >= 5)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        wait_for(lambda: not left_behind_by(driver))
    acknowledged = set(numbers(acks))
    assert 5 <= len(acknowledged) < 16
    shutil.rmtree(here.parent)

    there, again = machine(tmp_path, "there"), tmp_path / "starts-there"
    done = cli(there.parent, "resume", f"{url}/study", "-q", STARTS=str(again), **environment)
    assert done.returncode == 0, done.stderr
    assert acknowledged.isdisjoint(numbers(again)), "what was acknowledged is not run twice"
    search = etude.open(there.parent / "studies" / "study")
    assert json.dumps(search.rows(), sort_keys=True) == undisturbed.stdout.strip()
    assert search.complete
    for trial in search.trials:
        assert (trial.folder / "weights.txt").read_text() == f"weights of {trial.number}"
        assert trial.log.read_text() == f"trained {trial.number}\n"
        assert len(trial.reports) >= 3
    assert search.meta["call"]["mirror"] == url

    shown = cli(tmp_path, "show", f"{url}/study", "--json", XDG_CACHE_HOME=str(tmp_path / "cache"), **environment)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["counts"] == {"finished": 16}
    once_more = cli(there.parent, "resume", f"{url}/study", "-q", "--trials", "18", STARTS=str(again), **environment)
    assert once_more.returncode == 0, once_more.stderr
    assert len(numbers(again)) == len(set(numbers(again))), "the folder that there is goes on"


def test_a_mirror_in_a_folder_is_looked_at_by_its_path_and_advises_itself(tmp_path: Path) -> None:
    mirrors, here = tmp_path / "mirrors", machine(tmp_path, "here")
    hangs = {"HANGS": str(here), "FROM": "4"}
    with running(start_script(here, MIRROR=str(mirrors), STARTS=str(tmp_path / "starts"), **hangs)) as driver:
        wait_for(lambda: len(numbers(tmp_path / "starts")) >= 4)
        driver.send_signal(signal.SIGINT)
        driver.wait(60)
    shutil.rmtree(here.parent)
    listed = cli(tmp_path, "ls", str(mirrors), "--json")
    assert [row["study"] for row in json.loads(listed.stdout)] == ["study"], listed.stderr
    shown = cli(tmp_path, "show", "mirrors/study")
    assert f"`etude resume {mirrors}/study`, goes on" in shown.stdout, shown.stderr


def test_on_a_fresh_machine_the_same_script_is_refused_and_leaves_no_study_of_nothing(tmp_path: Path) -> None:
    mirrors, here, there = tmp_path / "mirrors", machine(tmp_path, "here"), machine(tmp_path, "there")
    hangs = {"HANGS": str(here), "FROM": "4"}
    with running(start_script(here, MIRROR=str(mirrors), STARTS=str(tmp_path / "starts"), **hangs)) as driver:
        wait_for(lambda: len(numbers(tmp_path / "starts")) >= 4)
        driver.send_signal(signal.SIGINT)
        driver.wait(60)
    refused = run_script(there, MIRROR=str(mirrors), STARTS=str(tmp_path / "starts"))
    assert f"etude resume {mirrors}/study" in refused.stderr
    assert list((there.parent / "studies").iterdir()) == []


def test_two_machines_on_one_mirror_the_second_is_refused_until_it_is_forced(tmp_path: Path) -> None:
    url, hangs = f"file://{tmp_path}/mirrors", tmp_path / "hangs"
    hangs.touch()
    told = {"MIRROR": url, "HANGS": str(hangs)}
    here, there = machine(tmp_path, "here"), machine(tmp_path, "there")
    with running(start_script(here, STARTS=str(tmp_path / "starts"), **told)) as first:
        wait_for(lambda: len(numbers(tmp_path / "starts")) >= 2)
        wait_for(lambda: list(tmp_path.glob("mirrors/study/segments/*.seg")))
        second = run_script(there, STARTS=str(tmp_path / "no-starts"), **told)
        assert second.returncode == 1
        assert f"StudyInUseError: Another driver (process {first.pid} on " in second.stderr
        refused = cli(there.parent, "resume", f"{url}/study", STARTS=str(tmp_path / "no-starts"))
        assert (refused.returncode, "--force" in refused.stderr) == (1, True)
        assert not numbers(tmp_path / "no-starts")
        shutil.rmtree(there.parent / "studies")
        forced = cli(there.parent, "resume", f"{url}/study", "--force", "-q", STARTS=str(tmp_path / "starts-there"))
        assert forced.returncode == 0, forced.stderr
        _, err = first.communicate(timeout=60)
        assert first.returncode == 1
        assert "has taken over the mirror" in err
    search = etude.open(there.parent / "studies" / "study")
    assert search.counts() == {"finished": 16}


def trains(run, lr: float, folder: str):
    while not (Path(folder) / f"go-{run.trial}").exists():
        time.sleep(0.01)
    return lr


def test_workers_are_told_to_forget_only_what_the_mirror_has_and_hand_outs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[int] = []
    send = Crew.send

    def told(self: Crew, worker: str, message: Message) -> bool:
        if isinstance(message, Forget):
            forgotten.append(message.trial)
        return send(self, worker, message)

    monkeypatch.setattr(Crew, "send", told)
    monkeypatch.setattr("etude.store.mirror.BACKOFF_S", 0.05)
    place = tmp_path / "mirrors"
    place.mkdir()
    (place / "study").write_text("a file where the mirror's folder should be")
    experiment = etude.Experiment(trains, metric="score", mode="max")
    space = {"lr": etude.uniform(0, 1), "folder": [str(tmp_path)]}
    call = {"workers": 1, "sampler": "random", "stopper": "none", "name": "study", "mirror": place}
    search = experiment.tune(space, trials=4, wait=False, **call)
    for trial in 0, 1, 2:
        (tmp_path / f"go-{trial}").touch()
    wait_for(lambda: search.counts().get("finished", 0) >= 3)
    assert forgotten == []
    (place / "study").unlink()  # the mirror can be reached now
    wait_for(lambda: len(forgotten) >= 3)
    assert not search.complete
    (tmp_path / "go-3").touch()
    search.wait()
    assert search.complete
    (journal,) = [Journal.read(search.folder)]
    assert max(Counter(f.trial for f in journal.facts() if isinstance(f, Assigned)).values()) == 1
    journal.close()


def at_once(lr: float):
    return lr


@pytest.mark.parametrize("harm", ["removed", "renamed away and back", "its lease alone is removed"])
def test_a_mirror_that_vanishes_under_a_study_ends_nothing_and_is_whole_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr("etude.store.mirror.BACKOFF_S", 0.05)
    monkeypatch.setattr("etude.store.mirror.EVERY_S", 0.05)
    mirror = tmp_path / "mirrors" / "study"
    experiment = etude.Experiment(trains, metric="score", mode="max")
    space = {"lr": etude.uniform(0, 1), "folder": [str(tmp_path)]}
    call = {"workers": 1, "sampler": "random", "stopper": "none", "name": "study", "mirror": mirror.parent}
    search = experiment.tune(space, trials=4, wait=False, **call)
    study = search._handle.study
    (tmp_path / "go-0").touch()
    wait_for(lambda: list(mirror.glob("segments/*.seg")) and search.counts().get("finished") == 1)
    if harm == "removed":
        shutil.rmtree(mirror.parent, ignore_errors=True)
        shutil.rmtree(mirror.parent, ignore_errors=True)  # what was written meanwhile
    elif harm == "renamed away and back":
        mirror.parent.rename(tmp_path / "away")
    else:
        (mirror / "lease.json").unlink()
    (tmp_path / "go-1").touch()
    wait_for(lambda: any("cannot be reached" in note for note in study.notes))
    if harm == "renamed away and back":
        (tmp_path / "away").rename(mirror.parent)
    for trial in 2, 3:
        (tmp_path / f"go-{trial}").touch()
    search.wait()
    assert search.complete
    again = experiment.tune(space, trials=4, **call)
    assert again.counts() == {"finished": 4}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copied = etude.open(mirror.as_uri())
    assert copied.complete
    assert copied.rows() == search.rows()


def test_a_mirror_that_is_never_reached_stops_nothing_and_that_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mirrors").mkdir()
    (tmp_path / "mirrors" / "alone").write_text("in the way")
    experiment = etude.Experiment(at_once, metric="score", mode="max")
    call = {"workers": 1, "sampler": "random", "stopper": "none", "name": "alone", "mirror": tmp_path / "mirrors"}
    search = experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, progress=True, **call)
    assert search.complete
    said = capfd.readouterr().err
    assert said.count("cannot be reached") == 1
    assert f"The mirror {tmp_path / 'mirrors'}/alone has not got everything" in said


def test_the_environment_may_name_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_MIRROR", "memory://studies")
    experiment = etude.Experiment(at_once, metric="score", mode="max")
    experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, workers=1, sampler="random", name="kept")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    search = etude.open("memory://studies/kept")
    assert search.complete
    assert [t.state for t in search.trials] == ["finished"] * 3
    assert [len(t.reports) for t in search.trials] == [0] * 3


def test_a_mirror_that_cannot_be_is_refused_before_anything_starts() -> None:
    experiment = etude.Experiment(at_once, metric="score", mode="max")
    with pytest.raises(etude.ConfigError) as refused:
        experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, mirror=5)  # type: ignore[arg-type]
    assert str(refused.value) == (
        "mirror=5 (int) is no place. Pass a URL that fsspec understands, such as s3://bucket/studies, or a folder."
    )
    with pytest.raises(etude.ConfigError, match="Protocol not known: gopher"):
        experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, mirror="gopher://host")
    for place in "/dev/null", "/dev/null/deeper", "file:///dev/null":
        with pytest.raises(etude.ConfigError) as refused:
            experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, mirror=place)
        assert str(refused.value) == (
            f"mirror={place!r} cannot be a place for mirrors: /dev/null is no folder. Pass a folder, which need not "
            "exist, or a URL such as s3://bucket/studies."
        )
    studies = Path(os.environ["ETUDE_STUDIES"]).absolute()
    for place in str(studies), str(studies / "study"), (studies / "study" / "trials").as_uri():
        with pytest.raises(etude.ConfigError) as refused:
            experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, name="study", mirror=place)
        assert str(refused.value) == (
            f"mirror={place!r} would put the mirror into the study's own folder, {studies / 'study'}: with that, both "
            "would be lost. Pass a folder on another disk, or a URL such as s3://bucket/studies."
        )
    assert not Path(os.environ["ETUDE_STUDIES"]).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_a_mirror_in_what_the_kernel_makes_up_is_refused() -> None:
    experiment = etude.Experiment(at_once, metric="score", mode="max")
    with pytest.raises(etude.ConfigError) as refused:
        experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, mirror="/proc/mirrors")
    assert str(refused.value) == (
        "mirror='/proc/mirrors' cannot be a place for mirrors: what is in /proc is made up by the kernel, and keeps no "
        "files. Pass a folder on a disk, or a URL such as s3://bucket/studies."
    )
