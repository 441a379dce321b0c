"""Trials of several ranks on Ray and on Spark: the numbers of this machine, with a worker lost in between."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from apart import above, command, from_others, started
from ranks_script import RANKS_SCRIPT
from support import facts_of, table, write_script

import etude
from etude.core.events import Joined, Resumed
from etude.worker import processes

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("torch", reason="PyTorch is not installed, and gradients of it alone are averaged")

SCRIPT = (
    RANKS_SCRIPT
    + """
    def tell(run):
        print("rank", run.rank, "of", run.ranks, "with", os.environ["OMP_NUM_THREADS"], "threads")

    def hold(run):
        while run.trial == 0 and not (PROJECT / "go").exists():
            (PROJECT / f"held-{run.rank}-{os.getpid()}").touch()
            time.sleep(0.01)

    if __name__ == "__main__":
        try:
            search = experiment.tune(
                {"lr": etude.uniform(0.01, 0.1)}, trials=2, workers=1, ranks=int(sys.argv[2]), sampler="random",
                stopper="none", engine=sys.argv[1], name="study", resources="cpus=1",
            )
        except etude.ConfigError as error:
            print(error)
        else:
            print(search.counts(), search.notes)
"""
)

ROOM = os.cpu_count() or 1


@pytest.fixture(scope="module")
def of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """Give the table of a study whose ranks were all on this machine, and that nobody disturbed."""
    if not any(map(importlib.util.find_spec, ("ray", "pyspark"))):
        pytest.skip("neither Ray nor Spark is installed: pip install 'etude[ray]', or 'etude[spark]'")
    folder = tmp_path_factory.mktemp("here")
    (folder / "go").touch()
    with started(write_script(folder, SCRIPT), "local", "2", environment={}) as driver:
        driver.end()
    return table(driver.study)


def check_ranks(
    folder: Path,
    engine: str,
    too_small: str,
    *,
    says: str,
    environment: Mapping[str, str],
    like: list[tuple[Any, ...]],
) -> None:
    """Run a study whose trials two ranks train, lose a worker in the middle, and compare the table that it has.

    Args:
        folder: An empty one, for the script.
        engine: What starts the workers.
        too_small: What would start them, but for one that it has no room for.
        says: What is said of that.
        environment: Variables for the script.
        like: The table of one of this machine.
    """
    script = write_script(folder, SCRIPT)
    with started(script, too_small, str(ROOM + 1), environment=dict(environment)) as driver:
        assert says in driver.end()
        assert not driver.study.exists(), "nothing was begun"
    with started(script, engine, "2", environment=dict(environment)) as driver:
        held = driver.study / "trials" / "00000" / "attempt-1" / "checkpoints"
        driver.wait_for(lambda: len(list(folder.glob("held-*"))) == 2 and any(held.glob("0-00002*")), "both are held")
        [rank_1] = folder.glob("held-1-*")
        pid = int(rank_1.name.rpartition("-")[2])
        processes.kill(next(found for found in above(pid) if "etude.worker.supervisor" in command(found)))
        driver.wait_for(lambda: resumed(driver.study), "a gang goes on")
        (folder / "go").touch()
        assert driver.end().startswith("{'finished': 2}")
    search = etude.open(driver.study)
    assert [trial.attempts for trial in search.trials] == [2, 1]
    for trial in search.trials:
        assert (trial.folder / "log.txt").read_text() == "rank 0 of 2 with 1 threads\n"
        assert (trial.folder / "rank-1" / "log.txt").read_text() == "rank 1 of 2 with 1 threads\n"
        assert (trial.folder / "rank-1" / "weights.bin").stat().st_size == 300_000
    assert resumed(driver.study), "from a state, and not from the start"
    assert all(fact.worker.startswith("g") for fact in facts_of(driver.study, Joined))
    assert table(driver.study) == like


def resumed(study: Path) -> list[Resumed]:
    """Return from which states attempts have gone on."""
    return [fact for fact in facts_of(study, Resumed) if fact.origin.key is not None]


def test_ranks_on_ray_give_the_table_of_those_of_this_machine(
    tmp_path: Path, of_this_machine: list[tuple[Any, ...]]
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")
    says = f"The {ROOM + 1} ranks of a trial start together, and the Ray cluster has room for {ROOM} in all: each asks "
    with from_others() as environment:
        check_ranks(tmp_path, "ray", "ray", says=says, environment=environment, like=of_this_machine)


def test_ranks_on_spark_give_the_table_of_those_of_this_machine(
    tmp_path: Path, of_this_machine: list[tuple[Any, ...]]
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed; see the extra etude[spark]")
    says = f"The {ROOM + 1} ranks of a trial start together, and Spark at 'local[{ROOM},4]' runs {ROOM} task"
    with from_others() as environment:
        check_ranks(
            tmp_path,
            "spark",
            f"spark(master='local[{ROOM},4]')",
            says=says,
            environment=environment,
            like=of_this_machine,
        )
