"""Workers that come from elsewhere, with real nodes: each is a process of its own that knows but a credentials file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import facts_of, processes, running, running_at_once, start_script, table, wait_for, write_script

import etude
from etude.core.events import Checkpointed, How, Joined, Resumed, Settled
from etude.engines.local import WORKER_MARK
from etude.wire.credentials import read_invitation

HELPER = """
import os

if os.environ.get("BAD_MACHINE"):
    raise ImportError("libnothing.so is not on this machine")


def score(lr):
    return -((lr - 0.3) ** 2)
"""

SCRIPT = """
    import json, os, sys, time
    import etude
    from helper import score

    def train(lr: float, run):
        (run.folder / "sub").mkdir()
        (run.folder / "sub" / "weights.bin").write_bytes(b"w" * 600_000)
        print("printed by", run.trial, "in", os.getcwd())
        print("sees", os.environ.get("CUDA_VISIBLE_DEVICES"), "with threads", os.environ["OMP_NUM_THREADS"])
        if hold := os.environ.get("HOLD"):
            with open(os.path.join(hold, os.environ["ETUDE_WORKER"]), "w") as file:
                file.write(os.environ["CUDA_VISIBLE_DEVICES"])
            while not os.path.exists(os.path.join(hold, "go")):
                time.sleep(0.01)
        while run.trial and (awaited := os.environ.get("AWAITED")) and not os.path.exists(awaited):
            time.sleep(0.01)
        for epoch in run.epochs(3):
            run.report(score=score(lr))
            time.sleep(float(os.environ.get("EPOCH_S", "0")))
        return score(lr)

    experiment = etude.Experiment(train, metric="score", mode="max")
    WORKERS = json.loads(os.environ.get("WORKERS", "2"))

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=int(sys.argv[1]), workers=WORKERS, sampler="random", stopper="none",
            engine=sys.argv[2], name="study", resources=os.environ.get("RESOURCES"),
        )
        print(search.counts(), search.notes)
"""


ETUDE = "from etude.cli import main; main()"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "helper.py").write_text(HELPER)
    return write_script(tmp_path / "project", SCRIPT)


def folder_of(script: Path) -> Path:
    return script.parent / "studies" / "study"


def credentials_of(script: Path) -> Path:
    path = folder_of(script) / "credentials.json"
    wait_for(path.exists)
    return path


@contextlib.contextmanager
def node(
    credentials: Path, *options: str, behind: tuple[str, ...] = (), program: str = ETUDE, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Bring workers to a study, as somebody on another machine does."""
    process = subprocess.Popen(
        [*behind, sys.executable, "-c", program, "worker", "--credentials", str(credentials), *options],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running(process):
        yield process


def test_workers_of_elsewhere_give_the_table_of_local_ones(script: Path, tmp_path: Path) -> None:
    with running(start_script(script, "8", "cluster")) as driver, node(credentials_of(script), "--workers", "2") as far:
        assert driver.wait(60) == 0
        assert far.wait(30) == 0, "the node leaves when the study is over"
    there = table(folder_of(script))
    shutil.move(folder_of(script), tmp_path / "there")
    with running(start_script(script, "8", "local")) as driver:
        assert driver.wait(60) == 0
    assert table(folder_of(script)) == there


def test_what_attempts_write_elsewhere_is_here_when_they_have_ended(script: Path) -> None:
    with running(start_script(script, "4", "cluster")) as driver, node(credentials_of(script)):
        assert driver.wait(60) == 0
    for trial in etude.open(folder_of(script)).trials:
        assert (trial.folder / "sub" / "weights.bin").read_bytes() == b"w" * 600_000
        assert f"printed by {trial.number} in " in (trial.folder / "log.txt").read_text()


def test_a_file_that_cannot_be_sent_costs_that_file_and_no_more(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import os
        import etude

        def train(x: float, run):
            for name in (b"good", b"bad-\\xff", b"z-good"):
                with open(os.path.join(os.fsencode(run.folder), name), "w") as file:
                    file.write("kept")
            return x

        experiment = etude.Experiment(train, metric="score", mode="max")

        if __name__ == "__main__":
            search = experiment.tune(
                {"x": etude.uniform(0, 1)}, trials=2, workers=1, sampler="random", engine="cluster", name="study"
            )
            print(*search.notes, sep="\\n")
        """,
    )
    with running(start_script(script)) as driver, node(credentials_of(script)):
        said, _ = driver.communicate(timeout=60)
    assert said.count("A file of trial ") == 2
    assert "'utf-8' codec can't encode character '\\udcff'" in said
    search = etude.open(folder_of(script))
    assert [(t.state, t.attempts) for t in search.trials] == [("finished", 1)] * 2
    assert all((t.folder / name).read_text() == "kept" for t in search.trials for name in ("good", "z-good"))


def test_arms_of_an_ablation_are_trained_elsewhere_and_are_pairs(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import etude

        def data():
            return {"age": [31.0, 45.0, 28.0], "fare": [7.5, 71.25, 8.0], "y": [0.0, 1.0, 0.0]}

        def train(data, seed, share: float = 0.5):
            return share * sum(map(sum, data().values())) + seed % 97

        experiment = etude.Experiment(train, data=data, metric="score", mode="max")

        if __name__ == "__main__":
            experiment.ablate(
                ["feature:age", "share"], seeds=2, force=True, workers=2, engine="cluster", name="study"
            )
        """,
    )
    with running(start_script(script)) as driver, node(credentials_of(script)):
        assert driver.communicate(timeout=60) is not None
    assert driver.returncode == 0
    ablation = etude.open(folder_of(script))
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 6}
    assert [arm.effect for arm in ablation.arms[1:]] == [52.0, 95.875]
    assert ablation.paired() == {"feature:age": (2, 2), "share": (2, 2)}


def test_what_an_attempt_prints_elsewhere_is_read_here_while_it_runs(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import os, sys, time
        import etude

        def train(x: float):
            print("begun", "." * 100_000, flush=True)
            while not os.path.exists(os.environ["GO"]):
                time.sleep(0.01)
            print("done", flush=True)
            return x

        experiment = etude.Experiment(train, metric="score", mode="max")

        if __name__ == "__main__":
            experiment.tune(
                {"x": etude.uniform(0, 1)}, trials=2, workers=2, sampler="random", engine="cluster", name="study"
            )
        """,
    )
    whole = f"begun {'.' * 100_000}\n"
    with running(start_script(script)) as driver, node(credentials_of(script), "--workers", "2", GO=f"{script}.go"):
        logs = [folder_of(script) / "trials" / f"{trial:05d}" / "attempt-1" / "log.txt" for trial in range(2)]
        wait_for(lambda: all(log.exists() and log.read_text() == whole for log in logs))
        Path(f"{script}.go").touch()
        assert driver.wait(60) == 0
    assert [t.log.read_text() for t in etude.open(folder_of(script)).trials] == [f"{whole}done\n"] * 2


def test_a_node_that_is_killed_costs_nothing_but_time(script: Path) -> None:
    with running(start_script(script, "8", "cluster", EPOCH_S="0.1")) as driver:
        credentials = credentials_of(script)
        with node(credentials, "--workers", "2") as first:
            wait_for(lambda: any(t.state == "finished" for t in etude.open(folder_of(script)).trials))
            first.kill()
            with node(credentials, "--workers", "2"):
                assert driver.wait(60) == 0
    search = etude.open(folder_of(script))
    assert search.counts() == {"finished": 8}
    assert max(t.attempts for t in search.trials) == 2


def test_a_node_that_is_told_to_leave_leaves_and_others_go_on(script: Path) -> None:
    with running(start_script(script, "40", "cluster", WORKERS="[2, 2]", EPOCH_S="0.1")) as driver:
        credentials = credentials_of(script)
        with node(credentials) as leaving, node(credentials):
            wait_for(lambda: etude.open(folder_of(script)).counts().get("running") == 2)
            leaving.send_signal(signal.SIGTERM)
            _, said = leaving.communicate(timeout=30)
            assert "what they had begun goes back into the queue" in said
            assert driver.wait(60) == 0
    assert etude.open(folder_of(script)).counts() == {"finished": 40}


def test_a_study_that_began_here_goes_on_elsewhere_and_ends_here(script: Path) -> None:
    for trials, engine in (("3", "local"), ("6", "cluster"), ("9", "local")):
        with running(start_script(script, trials, engine)) as driver, contextlib.ExitStack() as stack:
            if engine == "cluster":
                stack.enter_context(node(credentials_of(script)))
            assert driver.wait(60) == 0
    search = etude.open(folder_of(script))
    assert search.counts() == {"finished": 9}
    assert {t.attempts for t in search.trials} == {1}


def test_no_secret_is_seen_anywhere(script: Path, tmp_path: Path) -> None:
    with running(start_script(script, "40", "cluster", EPOCH_S="0.05")) as driver:
        credentials = credentials_of(script)
        copy = tmp_path / "copy.json"
        shutil.copy(credentials, copy)
        invitation = read_invitation(copy)
        secrets = [invitation.token.encode(), invitation.certificate.splitlines()[3].encode()]
        with node(copy) as far:
            wait_for(lambda: any(t.state == "finished" for t in etude.open(folder_of(script)).trials))
            for entry in os.listdir("/proc"):
                for name in ("cmdline", "environ") if entry.isdigit() else ():
                    with contextlib.suppress(OSError):
                        content = Path("/proc", entry, name).read_bytes()
                        assert not [s for s in secrets if s in content], f"{entry}/{name}"
            driver.send_signal(signal.SIGINT)
            told = [*driver.communicate(timeout=30), *far.communicate(timeout=30)]
    assert not credentials.exists(), "they are of no use any more"
    for text in told:
        assert not [s for s in secrets if s.decode() in text]
    for path in folder_of(script).rglob("*"):
        if path.is_file():
            assert not [s for s in secrets if s in path.read_bytes()], path


def test_a_wrong_token_is_refused_with_a_message_and_counted(script: Path, tmp_path: Path) -> None:
    with running(start_script(script, "2", "cluster")) as driver:
        credentials = credentials_of(script)
        wrong = tmp_path / "wrong.json"
        wrong.touch(mode=0o600)
        wrong.write_text(json.dumps({**json.loads(credentials.read_text()), "token": "a-token-of-another-run"}))
        with node(wrong) as stranger:
            _, said = stranger.communicate(timeout=30)
        assert stranger.returncode == 1
        assert "The token is not that of this run." in said
        assert "Traceback" not in said
        with node(credentials):
            out, _ = driver.communicate(timeout=60)
    assert "A node was not let in: it has a wrong token." in out
    assert "Not let in: 1 node with a wrong token." in out
    assert "a-token-of-another-run" not in out


def test_a_driver_that_is_gone_is_said_so(script: Path, tmp_path: Path) -> None:
    with running(start_script(script, "2", "cluster")) as driver:
        copy = tmp_path / "copy.json"
        shutil.copy(credentials_of(script), copy)
        driver.send_signal(signal.SIGINT)
        driver.wait(30)
    with node(copy) as late:
        _, said = late.communicate(timeout=60)
    assert late.returncode == 1
    assert "The driver cannot be reached at port" in said


def test_when_the_driver_is_killed_its_nodes_end(script: Path) -> None:
    driving = running(start_script(script, "20", "cluster", EPOCH_S="0.1"))
    with driving as driver, node(credentials_of(script), "--workers", "2") as far:
        wait_for(lambda: any(t.state == "running" for t in etude.open(folder_of(script)).trials))
        driver.kill()
        driver.wait()
        assert far.wait(30) == 1
        assert far.stderr is not None
        assert "The connection to the driver ended before its study did" in far.stderr.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide the driver's disk from the node")
def test_without_a_shared_disk_code_goes_there_and_files_come_back(script: Path, tmp_path: Path) -> None:
    mine = tmp_path / "node"
    mine.mkdir()
    with running(start_script(script, "4", "cluster")) as driver:
        shutil.copy(credentials_of(script), mine / "credentials.json")
        hidden = f'mount -t tmpfs none {script.parent}; exec "$@"'
        with node(mine / "credentials.json", behind=("unshare", "-m", "sh", "-c", hidden, "-"), TMPDIR=str(mine)):
            out, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, err
    assert out.startswith("{'finished': 4}")
    for trial in etude.open(folder_of(script)).trials:
        assert (trial.folder / "sub" / "weights.bin").stat().st_size == 600_000
        assert f"printed by {trial.number} in {mine}" in (trial.folder / "log.txt").read_text()
    assert os.listdir(mine) == ["credentials.json"], "nothing of the study stays behind"


def test_a_range_of_workers_waits_for_the_least_and_takes_as_many_as_come(script: Path) -> None:
    with running(start_script(script, "12", "cluster", WORKERS="[3, 9]", EPOCH_S="0.05")) as driver:
        credentials = credentials_of(script)
        with node(credentials, "--workers", "2"), node(credentials, "--workers", "2"):
            assert driver.wait(60) == 0
    joined = facts_of(folder_of(script), Joined)
    assert len(joined) == 4
    assert len({fact.at for fact in joined[:3]}) == 1, "the driver hears of all three when the third is there"


def test_more_than_may_work_are_held_in_reserve_and_take_the_place_of_those_that_go(script: Path) -> None:
    with running(start_script(script, "8", "cluster", WORKERS="1", EPOCH_S="0.1")) as driver:
        credentials = credentials_of(script)
        with node(credentials) as first:
            wait_for(lambda: any(t.state == "running" for t in etude.open(folder_of(script)).trials))
            with node(credentials):
                wait_for(lambda: etude.open(folder_of(script)).counts().get("finished", 0) >= 2)
                joined = facts_of(folder_of(script), Joined)
                assert len(joined) == 1
                first.kill()
                assert driver.wait(60) == 0
    assert etude.open(folder_of(script)).counts() == {"finished": 8}
    assert len({fact.worker for fact in facts_of(folder_of(script), Joined)}) == 2


def test_the_engine_may_come_from_the_environment(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port_file = script.parent / "by-environment.json"
    monkeypatch.setenv("ETUDE_ENGINE", f"cluster(credentials={str(port_file)!r})")
    text = script.read_text().replace("engine=sys.argv[2], ", "")
    script.write_text(text)
    with running(start_script(script, "2", "-")) as driver:
        wait_for(port_file.exists)
        with node(port_file):
            assert driver.wait(60) == 0
    assert etude.open(folder_of(script)).meta["call"]["engine"].startswith("cluster(credentials=")


def seen_in(folder: Path) -> list[str]:
    """Return what the log of each attempt says that it saw."""
    logs = [trial.folder / "log.txt" for trial in etude.open(folder).trials]
    return [next(line for line in log.read_text().splitlines() if line.startswith("sees")) for log in logs]


def workers_of(folder: Path) -> set[str]:
    return {fact.worker for fact in facts_of(folder, Joined)}


def test_a_node_shares_out_the_gpus_of_its_machine_and_carries_no_more_than_fit(script: Path) -> None:
    with running(start_script(script, "6", "cluster", RESOURCES="gpus=1,cpus=0.01", EPOCH_S="0.1")) as driver:
        credentials = credentials_of(script)
        with (
            node(credentials, "--workers", "4", CUDA_VISIBLE_DEVICES="5,6"),
            node(credentials, "--workers", "1", CUDA_VISIBLE_DEVICES="GPU-a"),
        ):
            _, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, err
    assert set(seen_in(folder_of(script))) <= {f"sees {gpu} with threads 1" for gpu in ("5", "6", "GPU-a")}
    assert len(workers_of(folder_of(script))) <= 3
    [how_to_come, note] = etude.open(folder_of(script)).notes
    assert how_to_come.startswith("Workers may come to 127.0.0.1, port ")
    assert how_to_come.endswith("They can come from this machine alone: bind='0.0.0.0' lets others in.")
    assert re.fullmatch(
        r"Node \S+: workers=4 with gpus=1 need 4 GPUs, and this machine has 2 \(5, 6\)\. It carries 2\.", note
    )


def test_on_a_node_the_gpus_of_a_worker_that_died_go_to_its_successor(script: Path, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.mkdir()

    def held() -> dict[str, str]:
        return {path.name: gpus for path in hold.iterdir() if (gpus := path.read_text())}

    with (
        running(start_script(script, "2", "cluster", RESOURCES="gpus=2", HOLD=str(hold))) as driver,
        node(credentials_of(script), "--workers", "2", CUDA_VISIBLE_DEVICES="0,1,2,3", HOLD=str(hold)) as far,
    ):
        wait_for(lambda: len(held()) == 2)
        first = held()
        assert sorted(first.values()) == ["0,1", "2,3"]
        victim = min(first)
        processes.kill(next(p for p in processes.marked(WORKER_MARK, victim) if processes.parent(p) == far.pid))
        wait_for(lambda: len(held()) == 3)
        [successor] = held().keys() - first.keys()
        assert held()[successor] == first[victim]
        (hold / "go").touch()
        assert driver.wait(60) == 0
    assert etude.open(folder_of(script)).counts() == {"finished": 2}


def test_a_machine_without_room_leaves_and_says_why_there_and_here(script: Path) -> None:
    with running(start_script(script, "2", "cluster", RESOURCES="gpus=1")) as driver:
        credentials = credentials_of(script)
        with node(credentials, CUDA_VISIBLE_DEVICES="") as small:
            _, said = small.communicate(timeout=30)
        assert small.returncode == 1
        assert "One trial with gpus=1 needs 1 GPU, and this machine has none. The study asks for that" in said
        assert "Traceback" not in said
        with node(credentials, CUDA_VISIBLE_DEVICES="0"):
            assert driver.wait(60) == 0
    [_, note] = etude.open(folder_of(script)).notes
    assert re.fullmatch(r"Node \S+: One trial with gpus=1 needs 1 GPU, and this machine has none\. It leaves\.", note)


@contextlib.contextmanager
def study_at_work(script: Path, trials: int, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Have a study with a good machine, of which one trial has finished, and the others do at the end of the block."""
    go = script.parent / "go"
    with running(start_script(script, str(trials), "cluster", WORKERS="4", AWAITED=str(go), **environment)) as driver:
        credentials = credentials_of(script)
        with node(credentials, "--workers", "2", AWAITED=str(go)):
            wait_for(lambda: etude.open(folder_of(script)).counts().get("finished", 0) >= 1)
            yield driver, credentials
            go.touch()
            assert driver.wait(60) == 0
    assert etude.open(folder_of(script)).counts() == {"finished": trials}


def test_a_machine_that_cannot_load_the_functions_is_sent_home_and_the_study_goes_on(script: Path) -> None:
    with study_at_work(script, 6) as (_, credentials), node(credentials, BAD_MACHINE="1") as bad:
        assert bad.wait(60) != 0
        assert bad.stderr is not None
        said = bad.stderr.read()
        assert "The driver sent this node home." in said
        assert "libnothing.so is not on this machine" in said
    notes = etude.open(folder_of(script)).notes
    assert any("was sent home" in note and "libnothing.so" in note for note in notes)


def test_where_no_machine_can_load_them_the_study_ends_with_the_reason(script: Path) -> None:
    with running(start_script(script, "2", "cluster")) as driver, node(credentials_of(script), BAD_MACHINE="1"):
        assert driver.wait(60) != 0
        assert driver.stderr is not None
        said = driver.stderr.read()
    assert "is of no use, and nobody else is there" in said
    assert "libnothing.so is not on this machine" in said


def test_a_machine_whose_workers_die_at_once_is_sent_home_with_their_last_words(script: Path) -> None:
    dies = f"import sys; sys.executable = '/bin/false'; {ETUDE}"
    with study_at_work(script, 6) as (_, credentials), node(credentials, program=dies) as bad:
        assert bad.wait(60) != 0
        assert bad.stderr is not None
        assert "3 workers in a row ended there before they were ready" in bad.stderr.read()


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of open files that cannot be raised again")
def test_strangers_without_end_do_not_use_up_what_the_driver_may_open(script: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))\n"
    script.write_text(limit + script.read_text())
    with contextlib.ExitStack() as strangers, study_at_work(script, 4) as (_, credentials):
        port = read_invitation(credentials).port
        for _ in range(600):
            strangers.enter_context(socket.create_connection(("127.0.0.1", port)))


def test_credentials_of_an_earlier_run_are_told_apart_from_a_driver_that_is_gone(script: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    engine = f"cluster(port={port})"
    with running(start_script(script, "2", engine)) as driver:
        old = shutil.copy(credentials_of(script), tmp_path / "old.json")
        driver.kill()
        driver.wait()
    credentials_of(script).unlink()
    again = running(start_script(script, "2", engine))
    with again as driver, node(credentials_of(script)), node(Path(old)) as late:
        assert late.wait(30) != 0
        assert late.stderr is not None
        assert "is not the run that the credentials are of" in late.stderr.read()
        assert driver.wait(60) == 0


def test_credentials_of_a_killed_run_go_when_the_study_goes_on_without_nodes(script: Path) -> None:
    with running(start_script(script, "2", "cluster")) as driver:
        credentials = credentials_of(script)
        driver.kill()
        driver.wait()
    assert credentials.exists(), "nobody was there to remove them"
    with running(start_script(script, "2", "local")) as driver:
        assert driver.wait(60) == 0
    assert etude.open(folder_of(script)).counts() == {"finished": 2}
    assert not credentials.exists()


def test_a_driver_that_falls_silent_without_hanging_up_is_left(script: Path) -> None:
    impatient = f"import etude.engines.node as n; n.SILENT_S, n.LOOK_S = 2.0, 0.1; {ETUDE}"
    with (
        running(start_script(script, "2", "cluster", EPOCH_S="60")) as driver,
        node(credentials_of(script), program=impatient) as far,
    ):
        wait_for(lambda: any(t.state == "running" for t in etude.open(folder_of(script)).trials))
        driver.send_signal(signal.SIGSTOP)
        assert far.wait(60) != 0, "though nobody hung up"
        assert far.stderr is not None
        assert "The connection to the driver ended before its study did" in far.stderr.read()
        driver.send_signal(signal.SIGCONT)


KEEPING = """
    import os, signal, sys
    import etude

    def train(lr: float, run):
        import random

        kept = run.keep(total=0.0)
        for epoch in run.epochs(6):
            kept.total += lr * random.random()
            run.report(score=kept.total)
            if epoch == 3 and os.environ.get("DIES"):
                signal.pause()  # until it is taken along
        return kept.total

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=2, workers=1, sampler="random", stopper="none", engine=sys.argv[2],
            name="study", states=os.environ.get("STATES"),
        )
        print(search.counts(), search.notes)
"""


@pytest.mark.parametrize("travels", [True, False])
def test_what_a_trial_keeps_is_where_it_goes_on_be_it_brought_there_or_not(tmp_path: Path, travels: bool) -> None:
    script = write_script(tmp_path, KEEPING)
    elsewhere = {} if travels else {"STATES": str(tmp_path / "states")}
    with running(start_script(script, "2", "cluster", **elsewhere)) as driver:
        credentials = credentials_of(script)
        with node(credentials, DIES="1") as first:
            wait_for(lambda: facts_of(folder_of(script), Checkpointed))
            first.kill()
            first.wait()
        assert any(folder_of(script).glob("trials/*/*/checkpoints/*")) is travels
        with node(credentials):
            _, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, err
    there = etude.open(folder_of(script))
    resumed = facts_of(folder_of(script), Resumed)
    assert [(fact.trial, fact.attempt) for fact in resumed] == [(0, 2)]
    assert resumed[0].origin.key is not None, "from a state, and not from the start"
    assert resumed[0].origin.step > 0
    expected = [(trial.value, trial.curve) for trial in there.trials]
    assert any(folder_of(script).glob("trials/*/*/checkpoints/*")) is travels
    assert len(list(tmp_path.glob("**/checkpoints/*.weights.safetensors"))) == 2
    shutil.move(folder_of(script), tmp_path / "there")
    with running(start_script(script, "2", "local")) as driver:
        assert driver.wait(60) == 0
    assert [(trial.value, trial.curve) for trial in etude.open(folder_of(script)).trials] == expected


OUT_OF_MEMORY = """
    import os, time
    from pathlib import Path
    import etude

    HOME = Path(os.getcwd())

    def train(x: float, run):
        (HOME / f"began-{run.trial}").touch()
        out_of_memory = HOME / "out-of-memory"
        if run.trial == 1 and not out_of_memory.exists():
            while len(list(HOME.glob("began-*"))) < 3:
                time.sleep(0.001)
            out_of_memory.touch()
            raise MemoryError("no more")
        while not out_of_memory.exists():
            time.sleep(0.001)
        for step in run.epochs(20):
            run.report(score=x)
        return x

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        experiment.tune(
            {"x": etude.uniform(0, 1)}, trials=6, workers=3, sampler="random", stopper="none", engine="cluster",
            name="study", on_oom="retry_alone",
        )
"""


def test_a_trial_that_ran_out_of_memory_on_a_node_runs_alone_there(tmp_path: Path) -> None:
    script = write_script(tmp_path, OUT_OF_MEMORY)
    with running(start_script(script)) as driver, node(credentials_of(script), "--workers", "3"):
        assert driver.wait(60) == 0
    search = etude.open(folder_of(script))
    assert search.counts() == {"finished": 6}
    assert [trial.attempts for trial in search.trials] == [1, 2, 1, 1, 1, 1]
    assert running_at_once(search.folder, 1, 1) >= {0, 2}
    assert running_at_once(search.folder, 1, 2) == set()
    assert "Out of memory: 1 attempt of trial 1; none failed for good." in search.summary()


STANDING_STILL = """
    import os, time
    from pathlib import Path
    import etude, etude.studies.crew
    from etude.launching.launch import Launch
    import msgspec

    HOME = Path(os.getcwd())

    def train(x: float, run):
        node = os.environ["NODE"]
        (HOME / f"began-{run.trial}-{node}").touch()
        (run.folder / "where").write_text(node)
        value = {"frozen": -1.0, "other": 1.0}[node]
        while run.trial == 0 and not (HOME / f"go-{node}").exists():
            time.sleep(0.001)
        for step in run.epochs(3):
            run.report(score=value)
        (HOME / f"ends-{run.trial}-{node}").touch()
        return value

    experiment = etude.Experiment(train, metric="score", mode="max")

    def impatient(launch, *args, serve=Launch._serve):
        return msgspec.structs.replace(serve(launch, *args), silence_s=SILENCE_S)

    SILENCE_S = 4.0

    if __name__ == "__main__":
        Launch._serve = impatient
        etude.studies.crew.NODE_S = 0.1
        experiment.tune(
            {"x": etude.uniform(0, 1)}, trials=3, workers=2, sampler="random", stopper="none", engine="cluster",
            name="study",
        )
"""


def below(pid: int) -> list[int]:
    """Return the processes that another one started, at any remove, the nearest first."""
    parents = {int(entry): processes.parent(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    found = [pid]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]


@pytest.mark.skipif(sys.platform != "linux", reason="what a node started is told by what /proc says")
def test_a_node_that_stands_still_is_left_and_what_it_says_afterwards_harms_nothing(tmp_path: Path) -> None:
    script = write_script(tmp_path, STANDING_STILL)

    def joined() -> list[str]:
        return [fact.worker for fact in facts_of(folder_of(script), Joined)]

    with running(start_script(script)) as driver:
        credentials = credentials_of(script)
        with node(credentials, NODE="frozen") as frozen:
            wait_for((tmp_path / "began-0-frozen").exists)
            with node(credentials, NODE="other"):
                wait_for(lambda: etude.open(folder_of(script)).counts().get("finished") == 2)
                frozen.send_signal(signal.SIGSTOP)
                (tmp_path / "go-frozen").touch()  # its worker goes on, and what it says waits in the node's line
                wait_for((tmp_path / "ends-0-frozen").exists)
                still = below(frozen.pid)
                for pid in still:
                    with contextlib.suppress(ProcessLookupError):  # the attempt may end by now
                        os.kill(pid, signal.SIGSTOP)
                wait_for((tmp_path / "began-0-other").exists)
                before = set(joined())
                for pid in [*still, frozen.pid]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                wait_for(lambda: set(joined()) - before)  # its first worker's last words come before the next one joins
                (tmp_path / "go-other").touch()
                assert driver.wait(60) == 0
                assert frozen.wait(60) == 0, "it is of use again"
    search = etude.open(folder_of(script))
    assert search.counts() == {"finished": 3}
    assert [trial.value for trial in search.trials] == [1.0, 1.0, 1.0]
    assert list(search.trials[0].curve) == [1.0] * 3
    assert (search.trials[0].folder / "where").read_text() == "other"
    first, *_, last = [fact for fact in facts_of(folder_of(script), Settled) if fact.trial == 0]
    assert first.attempt == 1
    assert first.outcome is not None
    assert first.outcome.how is How.LOST
    assert first.outcome.reason.endswith(" left: silent for 4 s")
    assert last.attempt == search.trials[0].attempts > 1


PROMOTING = """
    import sys
    import etude
    import torch
    from torch import nn

    def model():
        return nn.Linear(3, 1)

    def train(model, run, lr: float, epochs: int):
        net = model()
        print("begins with", net.weight.sum().item())
        optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        kept = run.keep(net=net, optimizer=optimizer, trained=[])
        x = torch.ones(8, 3)
        for epoch in run.epochs(epochs):
            loss = (net(x) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.trained = [*kept.trained, epoch]
            run.report(loss=loss.item())
        return {"loss": loss.item(), "trained": kept.trained}

    experiment = etude.Experiment(train, model=model, metric="loss", mode="min")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.loguniform(1e-3, 1e-1)}, trials=9, workers=2, sampler="random", stopper="asha",
            fidelity="epochs", budget=(1, 4), eta=2, name="study", engine=sys.argv[1], keep=etude.Keep(optimizers=True),
        )
        best = search.best
        weights = etude.Auto([best.weights.with_optimizer(), best.weights.shrunk()], share=1)
        options = {"name": "final", "engine": sys.argv[1], "workers": 2, "seeds": [0, 1]}
        final = experiment.fit(at={**best.params, "epochs": 4}, weights=weights, **options)
        print(best.weights.load()["net"]["weight"].sum().item(), final.trials[3].log.read_text())
"""


@pytest.mark.thorough
def test_promoted_trials_and_final_trainings_have_what_they_begin_with_on_other_machines(tmp_path: Path) -> None:
    script = write_script(tmp_path, PROMOTING)
    with running(start_script(script, "cluster")) as driver:
        with node(credentials_of(script)), node(credentials_of(script)):
            wait_for((tmp_path / "studies" / "final" / "credentials.json").exists)
        with node(tmp_path / "studies" / "final" / "credentials.json"):
            out, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, err
    search = etude.open(folder_of(script))
    promoted = [trial for trial in search.trials if trial.promotes is not None]
    assert promoted
    for trial in search.trials:
        assert trial.metrics["trained"] == list(range(trial.params["epochs"]))
    resumed = facts_of(folder_of(script), Resumed)
    assert {fact.trial: fact.origin.source for fact in resumed} == {trial.number: trial.promotes for trial in promoted}
    assert all(fact.origin.key is not None for fact in resumed)
    *_, there, _, _, here = out.split()
    assert float(here) == pytest.approx(float(there), abs=1e-6)
    final = etude.open(tmp_path / "studies" / "final")
    assert [trial.state for trial in final.trials] == ["stopped"] * 3 + ["finished"] * 2
    assert str(final.trials[3].start).endswith(", with its optimizer")
    assert final.trials[3].curve[0] < search.best.curve[-1], "moments and all: it goes on going down"


SPLIT_BY_SEED = """
    import sys

    import etude
    import torch
    from torch import nn

    rows = torch.arange(200.0).reshape(100, 2)

    def data(seed):
        order = torch.randperm(100, generator=torch.Generator().manual_seed(seed))
        return etude.Data(*(rows[order[part]] for part in (slice(60), slice(60, 80), slice(80, 100))))

    def train(model, data, run):
        net, parts = model(), data()
        print(len(parts.train), parts.valid is None)
        run.keep(net=net)
        for _ in run.epochs(1):
            run.report(loss=1.0)

    experiment = etude.Experiment(train, model=lambda: nn.Linear(2, 1), data=data, metric="loss", mode="min")

    if __name__ == "__main__":
        search = experiment.fit(name="study", engine=sys.argv[1], workers=1)
        options = {"weights": search.best.weights, "on": "train+valid", "workers": 1}
        final = experiment.fit(seeds=[0, 1], name="final", engine=sys.argv[1], **options)
        first, second = final.trials
        print(first.log.read_text().strip(), second.how, second.reason)
"""


def test_the_parts_are_joined_and_guarded_on_other_machines_as_well(tmp_path: Path) -> None:
    script = write_script(tmp_path, SPLIT_BY_SEED)
    with running(start_script(script, "cluster")) as driver:
        with node(credentials_of(script)):
            wait_for((tmp_path / "studies" / "final" / "credentials.json").exists)
        with node(tmp_path / "studies" / "final" / "credentials.json"):
            out, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, err
    assert out.startswith("80 True unusable ")
    assert "different rows of test were used to train or to choose epoch 1 of trial 0 of study, or what" in out
