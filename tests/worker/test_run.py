"""The run handle: what is reported arrives as numbers, and a stop or pause is seen and cannot be swallowed."""

import math
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from etude.core.errors import ResultError
from etude.worker.run import Hold, NoLine, Run, Stop


class FakeLine(NoLine):
    """The other end, which writes down what it is told."""

    def __init__(self) -> None:
        self.halted = False
        self.held = False
        self.reports: list[tuple[int, dict[str, float]]] = []

    def report(self, step: int, metrics: dict[str, float]) -> None:
        self.reports.append((step, metrics))


@pytest.fixture
def line() -> FakeLine:
    return FakeLine()


@pytest.fixture
def run(line: FakeLine) -> Run:
    return Run(metrics=["accuracy"], params={"lr": 0.1}, seed=7, line=line)


def refusal(call: Any) -> str:
    with pytest.raises(ResultError) as refused:
        call()
    return str(refused.value)


# --- reports --------------------------------------------------------------------------------------


def test_keywords_and_mappings_are_the_same(run: Run, line: FakeLine) -> None:
    run.report(accuracy=0.5, loss=1.0)
    run.report({"accuracy": 0.5, "top-5": 0.9}, loss=1.0)
    run.report(MappingProxyType({"accuracy": 0.5}))
    assert line.reports == [
        (1, {"accuracy": 0.5, "loss": 1.0}),
        (2, {"accuracy": 0.5, "top-5": 0.9, "loss": 1.0}),
        (3, {"accuracy": 0.5}),
    ]
    assert run.last == {"accuracy": 0.5, "loss": 1.0, "top-5": 0.9}


@pytest.mark.parametrize(
    "value",
    [
        0.5,
        np.float32(0.5),
        np.array([0.5]),
        torch.tensor(0.5),
        torch.tensor([[0.5]], requires_grad=True),
        torch.tensor(0.5, dtype=torch.float16),
    ],
    ids=repr,
)
def test_anything_with_one_element_is_a_number(run: Run, line: FakeLine, value: Any) -> None:
    run.report(loss=value)
    assert line.reports == [(0, {"loss": 0.5})]
    assert type(line.reports[0][1]["loss"]) is float


def test_nan_and_whole_numbers_are_numbers(run: Run, line: FakeLine) -> None:
    run.report(accuracy=math.nan, n=3, done=True)
    assert repr(line.reports) == "[(1, {'accuracy': nan, 'n': 3.0, 'done': 1.0})]"


def test_what_the_user_gave_is_neither_changed_nor_kept(run: Run, line: FakeLine) -> None:
    given = {"accuracy": np.float32(0.5), "loss": 1}
    run.report(given)
    assert given == {"accuracy": np.float32(0.5), "loss": 1}
    assert type(given["accuracy"]) is np.float32
    given["accuracy"] = np.float32(0.0)
    run.last["loss"] = 9.0
    assert line.reports == [(1, {"accuracy": 0.5, "loss": 1.0})]


def test_a_step_is_a_report_of_the_studys_metric_alone(run: Run, line: FakeLine) -> None:
    run.report(loss=3.0)
    run.report(accuracy=0.1)
    run.report(loss=2.0)
    run.report(accuracy=0.2, loss=1.0)
    assert [step for step, _ in line.reports] == [0, 1, 1, 2]


def test_a_report_of_nothing_is_none_and_still_a_place_to_stop(run: Run, line: FakeLine) -> None:
    run.report()
    run.report({})
    assert line.reports == []
    line.halted = True
    with pytest.raises(Stop):
        run.report()


def test_the_name_of_a_metric_may_be_any_kind_of_str(run: Run, line: FakeLine) -> None:
    class Name(StrEnum):
        LOSS = "loss"

    run.report({Name.LOSS: 0.5})
    assert line.reports == [(0, {"loss": 0.5})]
    assert type(next(iter(line.reports[0][1]))) is str


def test_what_is_no_number_is_refused_and_nothing_is_reported(run: Run, line: FakeLine) -> None:
    assert refusal(lambda: run.report(accuracy=0.5, loss=torch.ones(2))) == (
        "run.report(loss=...) got tensor([1., 1.]) (Tensor), which is no single number (a Tensor with 2 elements "
        "cannot be converted to Scalar). Report a number: .mean() or .item() makes one of a tensor."
    )
    assert refusal(lambda: run.report(loss="0.5")) == (
        "run.report(loss=...) got '0.5' (str), which is no single number (text is no number). Report a number: "
        ".mean() or .item() makes one of a tensor."
    )
    assert refusal(lambda: run.report(loss=None)) == (
        "run.report(loss=...) got None (NoneType), which is no single number (float() argument must be a string or a "
        "real number, not 'NoneType'). Report a number: .mean() or .item() makes one of a tensor."
    )
    assert line.reports == []
    assert run.last == {}
    run.report(accuracy=0.5)
    assert line.reports == [(1, {"accuracy": 0.5})]


@pytest.mark.parametrize("value", [0.93, 0, np.array([1.0, 2.0])], ids=repr)
def test_a_number_without_a_name_is_refused(run: Run, value: Any) -> None:
    message = refusal(lambda: run.report(value))
    assert message.startswith(f"run.report got {value!r} (")
    assert message.endswith("), which has no name. Name what you report: run.report(accuracy=...).")


def test_a_name_that_is_no_str_is_refused(run: Run) -> None:
    assert refusal(lambda: run.report({0: 0.5})) == (
        "run.report got 0 (int) as the name of a metric, and a name is a str. Write run.report({'0': ...})."
    )


# --- stop and pause -------------------------------------------------------------------------------


def test_a_stop_is_raised_at_the_next_report_after_it_was_passed_on(run: Run, line: FakeLine) -> None:
    run.report(accuracy=0.5)
    line.halted = True
    assert not run.stop_seen
    with pytest.raises(Stop):
        run.report(accuracy=0.6)
    assert run.stop_seen
    assert len(line.reports) == 2


def test_a_stop_is_raised_again_at_every_later_report_and_turn(run: Run, line: FakeLine) -> None:
    line.halted = True
    for _ in range(3):
        with pytest.raises(Stop):
            run.report(loss=0.5)
        with pytest.raises(Stop):
            next(run.epochs(3))


def test_except_exception_swallows_neither_stop_nor_pause(run: Run, line: FakeLine) -> None:
    def careless() -> None:
        for _ in run.epochs(9):
            try:
                run.report(accuracy=0.5)
            except Exception:
                pytest.fail("it was swallowed")

    line.halted = True
    with pytest.raises(Stop):
        careless()
    line.halted, line.held = False, True
    with pytest.raises(Hold):
        careless()


def test_a_stop_ends_the_epochs_at_their_next_turn(run: Run, line: FakeLine) -> None:
    seen: list[Any] = []

    def train() -> None:
        for epoch in run.epochs(5):
            seen.append((epoch, run.epoch))
            line.halted = epoch == 2

    with pytest.raises(Stop):
        train()
    assert seen == [(0, 0), (1, 1), (2, 2)]
    assert run.stop_seen


def test_a_pause_waits_for_the_turn_of_an_epoch(run: Run, line: FakeLine) -> None:
    seen = []

    def train() -> None:
        for epoch in run.epochs(5):
            line.held = epoch == 1
            run.report(accuracy=0.5)
            seen.append(epoch)

    with pytest.raises(Hold):
        train()
    assert seen == [0, 1]
    assert not run.stop_seen


def test_without_either_all_epochs_are_given(run: Run) -> None:
    assert run.epoch is None
    assert list(run.epochs(3)) == [0, 1, 2]
    assert run.epoch == 2
    assert list(run.epochs(0)) == []


# --- the rest -------------------------------------------------------------------------------------


def test_in_a_plain_call_reports_go_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(metrics=["accuracy"], params={}, seed=0)
    run.report(accuracy=0.5)
    assert run.last == {"accuracy": 0.5}
    assert (run.trial, run.device, run.folder) == (None, "cpu", Path())
    assert (NoLine.halted, NoLine.held) == (False, False)


def test_a_named_generator_depends_on_seed_and_name_alone(run: Run) -> None:
    def draws(run: Run, name: str) -> list[float]:
        return [*run.generator(name).random(3), run.random(name).random()]

    first = draws(run, "augment")
    np.random.seed(0)
    run.generator("other").random(100)
    assert draws(run, "augment") == first
    assert draws(run, "mixup") != first
    assert draws(Run(metrics=["m"], params={}, seed=8), "augment") != first
    assert draws(Run(metrics=["m"], params={}, seed=7, trial=3), "augment") == first


def test_a_line_of_log_is_printed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.log("epoch", 3, "done")
    assert capsys.readouterr().out == "epoch 3 done\n"


def test_the_folder_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    asked = []

    def folder() -> Path:
        asked.append(True)
        return tmp_path

    run = Run(metrics=["accuracy"], params={}, seed=0, folder=folder)
    assert asked == []
    assert run.folder == tmp_path
    assert asked == [True]
