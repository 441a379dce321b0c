"""Two studies on one machine share its cores by one ledger: none holds what another one runs on."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PATIENCE_S, running, start_script, wait_for, write_script

from etude.studies.tenancy import Tenancy
from etude.system.budget import Amount
from etude.system.ledger import Ledger

CORES = Amount.of(cores=4)


def came(path: Path, name: str, *, most: int = 4, cores: int = 1) -> Tenancy:
    return Tenancy(Ledger.open(CORES, path), name, Amount.of(cores=cores), wanted=lambda: most, most=most)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_a_study_alone_has_all_cores(path: Path) -> None:
    one = came(path, "one")
    assert (one.room, one.note) == (4, "")
    one.close()


def test_what_a_trial_gives_back_goes_to_the_study_that_has_come(path: Path) -> None:
    one = came(path, "one")
    for trial in range(4):
        one.begun(trial)
    two = came(path, "two")
    assert (two.room, two.note) == (
        0,
        "Other studies hold the cores of this machine: this one begins when they leave some.",
    )
    one.ended(0)
    assert one.room == 3
    two.fill()
    assert two.room == 1
    one.ended(1)
    two.fill()
    assert (one.room, two.room) == (2, 2)
    one.ended(2)
    assert one.room == 2  # shares are equal: its next trial may begin
    one.close()
    two.fill()
    assert two.room == 4
    two.close()


def test_a_trial_on_fewer_cores_leaves_some_to_others_and_asks_for_them_again(path: Path) -> None:
    one, two = came(path, "one", cores=2, most=1), came(path, "two")
    one.begun(0)
    assert two.room == 2
    assert one.resize(0, {"threads": 1})
    two.fill()
    assert two.room == 3
    assert not one.resize(0, {})  # both again: the other study holds one
    assert one.resize(0, {"threads": 1})
    two.close()
    assert one.resize(0, {})
    one.close()


def test_slots_that_nobody_wants_any_more_go_back(path: Path) -> None:
    wanted = 4
    one = Tenancy(Ledger.open(CORES, path), "one", Amount.of(cores=1), wanted=lambda: wanted, most=4)
    wanted = 1
    one.fill()
    assert one.room == 1
    one.close()


SCRIPT = """
    import os, sys, time
    import etude

    def train(x: int, epochs: int = 3, run=None):
        with open("at-work.txt", "a") as log:
            log.write(f"+ {os.environ['WHO']}\\n")
        while not os.path.exists("go"):
            time.sleep(0.01)
        with open("at-work.txt", "a") as log:
            log.write(f"- {os.environ['WHO']}\\n")
        return float(x)

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        experiment.tune(
            {"x": [1, 2, 3, 4]}, sampler="grid", workers=int(sys.argv[1]), name=os.environ["WHO"],
            system=etude.System(ledger="ledger.sqlite", history=False),
        )
"""


def test_two_studies_that_run_at_once_never_hold_more_cores_than_there_are(tmp_path: Path) -> None:
    from etude.worker.processes import available_cores

    cores = available_cores()
    script = write_script(tmp_path, SCRIPT)
    log = tmp_path / "at-work.txt"

    def at_work() -> list[str]:
        return log.read_text().splitlines() if log.exists() else []

    with running(start_script(script, str(cores), WHO="one")) as one:
        wait_for(lambda: len(at_work()) == cores)
        with running(start_script(script, str(cores), WHO="two")) as two:
            with Ledger.open(Amount.of(cores=cores), tmp_path / "ledger.sqlite") as ledger:
                wait_for(lambda: len(ledger.tenants()) == 2)
            assert at_work() == ["+ one"] * cores  # it waits
            (tmp_path / "go").touch()
            assert one.wait(PATIENCE_S) == 0
            assert two.wait(PATIENCE_S) == 0
    most = now = 0
    for line in at_work():
        now += 1 if line.startswith("+") else -1
        most = max(most, now)
    assert most <= cores
    assert len(at_work()) == 16
    with Ledger.open(Amount.of(cores=cores), tmp_path / "ledger.sqlite") as ledger:
        assert ledger.tenants() == []
        responses = {response.name: response for response in ledger.response_times()}
    assert responses["two"].waited_s > 0
    assert all(response.response_s > 0 for response in responses.values())
