"""Trials of several ranks whose workers come with nodes: as on this machine, whatever becomes of a node."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import support
from ranks_script import RANKS_SCRIPT
from support import facts_of, running, start_script, table, write_script
from typer.testing import CliRunner

import etude
from etude.cli import app
from etude.core.events import Checkpointed, Joined, Resumed, Settled
from etude.files.scripts import load

SCRIPT = (
    RANKS_SCRIPT
    + """
    def tell(run):
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS")
        print("meets", *(os.environ[name] for name in names), os.environ.get("GLOO_SOCKET_IFNAME"))
        print("on", os.environ.get("NODE"), "with", os.environ.get("CUDA_VISIBLE_DEVICES"))

    def hold(run):
        if "HOLD" in os.environ and run.folder.parts[-2 if run.rank else -1] == "attempt-1":
            aside = PROJECT / f".held-{run.trial}-{run.rank}"
            aside.write_text(str(os.getpid()))
            aside.rename(PROJECT / f"held-{run.trial}-{run.rank}")
            while not (PROJECT / "go").exists():
                time.sleep(0.005)

    if __name__ == "__main__":
        options = json.loads(os.environ.get("OPTIONS", "{}"))
        if "workers" in options and isinstance(options["workers"], list):
            options["workers"] = tuple(options["workers"])
        search = experiment.tune(
            {"lr": etude.uniform(0.01, 0.1)}, trials=int(sys.argv[1]), sampler="random", stopper="none",
            engine=sys.argv[2], name="study", **{"ranks": 2, "workers": 1, "resources": "cpus=1", **options},
        )
        print(search.counts(), search.notes)
"""
)

ETUDE = "from etude.cli import main; main()"
OWN_NAME = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')
"""Runs what follows a name on a machine of that name, as far as it can tell."""

PATIENCE_S = 180.0
"""Each process here imports torch, and some start a dozen."""

SHARDED = '{"parallel": "fsdp"}'

only_for_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a node a host's name of its own")


def wait_for(what: Callable[[], object]) -> None:
    support.wait_for(what, patience_s=PATIENCE_S)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return write_script(tmp_path / "project", SCRIPT)


def folder_of(script: Path) -> Path:
    return script.parent / "studies" / "study"


def credentials_of(script: Path) -> Path:
    path = folder_of(script) / "credentials.json"
    wait_for(path.exists)
    return path


@contextlib.contextmanager
def node(
    credentials: Path, workers: int, *, name: str = "", behind: Sequence[str] = (), **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Bring workers to a study, as somebody on another machine does."""
    as_another = (*OWN_NAME, name) if name else ()
    command = [sys.executable, "-c", ETUDE, "worker", "--credentials", str(credentials), "--workers", str(workers)]
    process = subprocess.Popen(
        [*behind, *as_another, *command],
        env={**os.environ, "NODE": name, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running(process):
        yield process


def line_of(script: Path, word: str, rank: int, *, trial: int = 0) -> str:
    """Return what the log of a rank has after a word; torch has a say in it as well."""
    folder = folder_of(script) / "trials" / f"{trial:05d}" / "attempt-1"
    lines = (folder / (f"rank-{rank}" if rank else "") / "log.txt").read_text().splitlines()
    return next(line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} "))


def end(driver: subprocess.Popen[str]) -> str:
    """Wait until a study has ended well, and return what its driver printed."""
    out, err = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, err
    return out


@contextlib.contextmanager
def at_home(script: Path) -> Iterator[None]:
    """Be where a script is, for calls in this process: they find its workers warm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(script.parent)
        patch.setenv("ETUDE_STUDIES", str(folder_of(script).parent))
        patch.setattr(sys, "path", list(sys.path))
        yield
    sys.modules.pop(script.stem, None)


@pytest.fixture(scope="module")
def of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """Give the table of a study whose ranks were all on this machine, and that nobody disturbed."""
    script = write_script(tmp_path_factory.mktemp("here"), SCRIPT)
    with at_home(script):
        load(f"{script.name}:experiment")[0].tune(
            {"lr": etude.uniform(0.01, 0.1)}, trials=2, sampler="random", stopper="none", name="study", workers=1,
            ranks=2, resources="cpus=1",
        )  # fmt: skip
    return table(folder_of(script))


@pytest.mark.thorough
def test_ranks_of_a_node_give_the_table_of_those_of_this_machine_and_what_they_write_comes_home(
    script: Path, of_this_machine: list[tuple[object, ...]]
) -> None:
    with running(start_script(script, "2", "cluster")) as driver, node(credentials_of(script), 2):
        end(driver)
    assert etude.open(folder_of(script)).counts() == {"finished": 2}
    for trial in range(2):
        assert line_of(script, "meets", 0, trial=trial) == "0 2 0 2 127.0.0.1 1 lo"
        assert line_of(script, "meets", 1, trial=trial) == "1 2 1 2 127.0.0.1 1 lo"
        attempt = folder_of(script) / "trials" / f"{trial:05d}" / "attempt-1"
        assert {p.relative_to(attempt).as_posix() for p in attempt.rglob("weights.bin")} == {
            "weights.bin",
            "rank-1/weights.bin",
        }
    assert table(folder_of(script)) == of_this_machine


def processes_of(ranks: Sequence[int], script: Path) -> list[int]:
    """Wait until ranks of trial 0 are held in the middle, and return their processes."""
    places = [script.parent / f"held-0-{rank}" for rank in ranks]
    wait_for(lambda: all(place.exists() for place in places))
    wait_for(lambda: len(list((folder_of(script) / "trials" / "00000").glob("attempt-1/checkpoints/*"))) > 1)
    return [int(place.read_text()) for place in places]


@pytest.fixture(scope="module")
def sharded_on_this_machine(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """Give the same of ranks that shard the model."""
    script = write_script(tmp_path_factory.mktemp("sharded"), SCRIPT)
    with running(start_script(script, "2", "local", OPTIONS=SHARDED)) as driver:
        end(driver)
    return table(folder_of(script))


@only_for_root
@pytest.mark.thorough
def test_shards_of_states_come_home_from_their_machines_and_go_to_those_that_go_on(
    script: Path, sharded_on_this_machine: list[tuple[object, ...]]
) -> None:
    with running(start_script(script, "2", "cluster", OPTIONS=SHARDED)) as driver, contextlib.ExitStack() as on:
        credentials = credentials_of(script)
        on.enter_context(node(credentials, 1, name="first", HOLD="1"))
        second = on.enter_context(node(credentials, 1, name="second", HOLD="1"))
        processes_of([0, 1], script)
        wait_for(lambda: facts_of(folder_of(script), Checkpointed))
        second.kill()
        on.enter_context(node(credentials, 1, name="third"))
        wait_for(lambda: len(facts_of(folder_of(script), Resumed)) == 1)
        (script.parent / "go").touch()
        end(driver)
    [resumed] = facts_of(folder_of(script), Resumed)
    assert resumed.origin.key is not None, "from a state, and not from the start"
    assert resumed.origin.reason == ""
    assert {saved.checkpoint.ranks for saved in facts_of(folder_of(script), Checkpointed)} == {2}
    assert table(folder_of(script)) == sharded_on_this_machine
    for trial in etude.open(folder_of(script)).trials:
        assert trial.weights.load()["net"]["weight"].shape == (2, 4)


@only_for_root
@pytest.mark.thorough
def test_ranks_of_two_machines_meet_and_a_machine_that_is_lost_is_replaced_by_one_that_comes_late(
    script: Path, of_this_machine: list[tuple[object, ...]]
) -> None:
    with running(start_script(script, "2", "cluster")) as driver, contextlib.ExitStack() as on:
        credentials = credentials_of(script)
        first = on.enter_context(node(credentials, 1, name="first", HOLD="1"))
        assert not facts_of(folder_of(script), Joined), "a worker alone is no gang"
        on.enter_context(node(credentials, 1, name="second", HOLD="1"))
        processes_of([0, 1], script)
        [gang] = facts_of(folder_of(script), Joined)
        assert sorted(machine.partition("/")[0] for machine in gang.machine.split(" ")) == ["first", "second"]
        first.kill()
        on.enter_context(node(credentials, 1, name="third"))
        wait_for(lambda: len(facts_of(folder_of(script), Resumed)) == 1)
        (script.parent / "go").touch()
        end(driver)
    assert {line_of(script, "on", rank, trial=1).split()[0] for rank in (0, 1)} == {"second", "third"}
    assert all(line_of(script, "meets", rank, trial=1).startswith(f"{rank} 2 0 1 127.0.0.1 ") for rank in (0, 1))
    [lost, *_] = facts_of(folder_of(script), Settled)
    assert lost.outcome.how.value == "lost"
    [resumed] = facts_of(folder_of(script), Resumed)
    assert (resumed.trial, resumed.attempt) == (0, 2)
    assert resumed.origin.key is not None, "from a state, and not from the start"
    assert [trial.attempts for trial in etude.open(folder_of(script)).trials] == [2, 1]
    assert table(folder_of(script)) == of_this_machine


@pytest.mark.parametrize("how", ["killed", "Ctrl-C", "etude stop", "deadline"])
@pytest.mark.thorough
def test_a_study_whose_gangs_were_at_work_when_it_ended_goes_on_here(
    script: Path, how: str, of_this_machine: list[tuple[object, ...]]
) -> None:
    options = '{"deadline_s": 4}' if how == "deadline" else "{}"
    with (
        running(start_script(script, "2", "cluster", OPTIONS=options)) as driver,
        node(credentials_of(script), 2, HOLD="1") as far,
    ):
        if how != "deadline":
            processes_of([0, 1], script)
        if how == "killed":
            driver.kill()
        elif how == "Ctrl-C":
            driver.send_signal(signal.SIGINT)
        elif how == "etude stop":
            command = [sys.executable, "-c", ETUDE, "stop", str(folder_of(script))]
            assert subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0
        assert driver.wait(PATIENCE_S) == {"killed": -9, "Ctrl-C": -2, "etude stop": 0, "deadline": 0}[how]
        assert far.wait(PATIENCE_S) == (1 if how == "killed" else 0), "its ranks end with it"
    with at_home(script):
        said = CliRunner().invoke(app, ["resume", "study", "--engine", "local", "--no-limits", "--quiet"])
    assert said.exit_code == 0, said.stderr
    search = etude.open(folder_of(script))
    assert (search.counts(), search.meta["call"]["ranks"]) == ({"finished": 2}, 2)
    assert table(folder_of(script)) == of_this_machine


@pytest.mark.thorough
def test_each_rank_has_gpus_of_its_own_and_trials_that_fit_together_run_at_the_same_time(script: Path) -> None:
    """Of a node with three GPUs and one with one, one gang each could be; they are one gang of two, and one of both."""
    options = '{"workers": [1, 2], "resources": "gpus=1,cpus=0.01"}'
    with running(start_script(script, "4", "cluster", OPTIONS=options)) as driver:
        credentials = credentials_of(script)
        with (
            node(credentials, 3, CUDA_VISIBLE_DEVICES="5,6,7"),
            node(credentials, 4, CUDA_VISIBLE_DEVICES="GPU-a"),
        ):
            end(driver)
    seen = [{line_of(script, "on", rank, trial=trial).partition("with ")[2] for rank in (0, 1)} for trial in range(4)]
    assert all(len(gpus) == 2 for gpus in seen)
    assert set().union(*seen) <= {"5", "6", "7", "GPU-a"}
    assert "this machine has 1 (GPU-a). It carries 1." in " ".join(etude.open(folder_of(script)).notes)


@contextlib.contextmanager
def two_networks() -> Iterator[list[tuple[tuple[str, ...], str]]]:
    """Give two network namespaces, each as what runs a command in it, and its address; a cable is between the two."""
    names = [f"etude-{os.getpid()}-{side}" for side in "ab"]
    networks = [(("ip", "netns", "exec", name), f"10.213.7.{number}") for number, name in enumerate(names, 1)]
    with contextlib.ExitStack() as stack:
        try:
            for name in names:
                subprocess.run(["ip", "netns", "add", name], capture_output=True, check=True)
                stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=True)
            cable = ["ip", "link", "add", "v0", "netns", names[0], "type", "veth", "peer", "name", "v0"]
            subprocess.run([*cable, "netns", names[1]], capture_output=True, check=True)
            for within, address in networks:
                for what in (f"address add {address}/24 dev v0", "link set v0 up", "link set lo up"):
                    subprocess.run([*within, "ip", *what.split()], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error).encode()
            pytest.skip(f"no network namespaces can be made here: {said.decode().strip()}")
        yield networks


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are of Linux")
@pytest.mark.thorough
def test_ranks_in_two_networks_meet_over_the_cable_between_them(
    script: Path, of_this_machine: list[tuple[object, ...]]
) -> None:
    """Both say that they are the same machine: where they are reached tells that they are not."""
    with two_networks() as [(here, address), (there, other)]:
        environment = {"ETUDE_STUDIES": str(script.parent / "studies"), "ETUDE_PROGRESS": "0"}
        driving = subprocess.Popen(
            [*here, sys.executable, script.name, "2", f"cluster(bind={address!r})"],
            cwd=script.parent,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        unnamed = {"GLOO_SOCKET_IFNAME": ""}
        with (
            running(driving) as driver,
            node(credentials_of(script), 1, behind=here, **unnamed),
            node(credentials_of(script), 1, behind=there, **unnamed),
        ):
            end(driver)
    told = [line_of(script, "meets", rank).split() for rank in (0, 1)]
    assert {words[4] for words in told} <= {address, other}
    assert [words[-1] for words in told] == ["v0", "v0"]
    assert table(folder_of(script)) == of_this_machine
