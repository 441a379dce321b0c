"""A plain call whose machine is tuned: what is said, when, and that nothing of it ends a training."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import pytest

import etude
from etude.core.system import Choices, Joules, Order, Phase, Taken
from etude.system.history import History
from etude.system.remembered import Remembered
from etude.worker.plainly import Here, named


def train(run: Any, *, epochs: int = 2) -> float:
    for _ in run.epochs(epochs):
        sum(range(20_000))
    sys.stderr.write("trained\n")
    return 1.0


def call(function: Any, *, system: Any, **params: Any) -> Any:
    return etude.Experiment(function, metric="score", mode="max").run(system=system, **params)


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_what_cannot_be_is_said_with_the_first_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    asked = etude.System(knobs=["gpu_power_limit", "cores"], history=False)
    assert call(train, system=asked, epochs=2) == 1.0
    lines = told(capsys)
    before = lines[: lines.index("trained")]
    assert any(line.startswith("gpu_power_limit is not tuned: ") for line in before)
    assert any("is too short to try anything" in line for line in before) or len(before) > 1
    assert lines[-1] == "The machine was left as it was: nothing was tried."


def test_a_training_without_epochs_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    def at_once() -> float:
        return 2.0

    assert call(at_once, system=etude.System(history=False)) == 2.0
    assert told(capsys) == [
        "The machine was left as it was: it is set from epoch to epoch, and the training function has begun none. Have "
        "it train in `for epoch in run.epochs(n):`."
    ]


@pytest.mark.parametrize("name", ["empty", "rubbish", "half", "a folder", "no\0name", "nowhere/of/all"])
def test_whatever_the_history_is_a_training_ends_as_it_would(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "rubbish").write_bytes(bytes(range(256)) * 20)
    with History.open(tmp_path / "whole") as whole:
        assert not whole.trouble
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:9000])
    (tmp_path / "a folder").mkdir()
    before = (tmp_path / "half").read_bytes(), (tmp_path / "rubbish").read_bytes()
    assert call(train, system=etude.System(history=tmp_path / name), epochs=6) == 1.0
    lines = told(capsys)
    assert any(line.startswith("The machine was ") for line in lines)
    is_fine = name in ("empty", "nowhere/of/all")
    assert any(line.startswith("The system history ") for line in lines) != is_fine
    assert ((tmp_path / "half").read_bytes(), (tmp_path / "rubbish").read_bytes()) == before


def test_a_failure_to_remember_is_said_and_loses_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no memory today")

    monkeypatch.setattr(Remembered, "_keep", fail)
    assert call(train, system=etude.System(history=tmp_path / "history.sqlite"), epochs=3) == 1.0
    assert "What was learned of this machine is not remembered, since RuntimeError was raised: no memory today" in told(
        capsys
    )


def test_a_function_without_a_name_is_remembered_as_well(tmp_path: Path) -> None:
    short: Any = functools.partial(train, epochs=3)
    assert call(short, system=etude.System(history=tmp_path / "history.sqlite")) == 1.0


def test_functions_of_two_modules_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    here = named(etude.Experiment(train, metric="score", mode="max"))
    monkeypatch.setattr(train, "__module__", "elsewhere")
    assert named(etude.Experiment(train, metric="score", mode="max")) != here


def test_what_became_of_it_is_told_for_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    class Best:
        def begin(self, trial: int, machine: str, earlier: int | None = None) -> Order:
            return Order({}, Phase.PROFILE, "")

        def next(self, trial: int, machine: str, taken: Taken) -> Order:
            return Order({}, Phase.KEEP, "", best=self.best)

        def ended(self, trial: int) -> None:
            pass

        def __init__(self, **best: int) -> None:
            self.best = best

    def after(conductor: Best, *phases: Phase) -> list[str]:
        here = Here(conductor)
        for phase in phases:
            here.measured(
                Taken(0, 9, 1.0, 10, Joules("unavailable", ""), phase=phase, choices=Choices("a processor", 8))
            )
        return here.told()

    assert after(Best()) == []
    assert after(Best(), Phase.PROFILE) == ["The machine was left as it was: nothing was tried."]
    tried = Phase.PROFILE, Phase.PROBE
    assert after(Best(), *tried) == ["The machine was tuned: nothing that was tried is better than how it was."]
    assert after(Best(threads=1), *tried) == ["The machine was tuned: threads=1."]
