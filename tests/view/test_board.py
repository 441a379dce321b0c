"""The board: what viewers see of a study, and what of it is new since they looked last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from etude.core.events import AnyFact, Assigned, Checkpoint, Checkpointed, Origin, Reported, Resumed, Settled
from etude.core.lifecycle import Turn
from etude.core.metrics import Metrics
from etude.testing.written import Written, begin_study
from etude.view.board import COLUMNS, MOST_CURVES, MOST_POINTS, Board


def facts_of(folder: Path, trials: list[Written], **given: Any) -> list[AnyFact]:
    journal, facts = begin_study(folder, trials, **given)
    journal.lease.release()
    journal.close()
    return facts


def board_of(facts: list[AnyFact], **modes: str) -> Board:
    board = Board(Metrics(modes or {"accuracy": "max"}))
    for fact in facts:
        board.apply(fact)
    return board


def rows(told: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in told["trials"]}


class Viewer:
    """Keeps what it is told, as the page does."""

    def __init__(self) -> None:
        self.seq = 0
        self.trials: dict[int, Any] = {}
        self.curves: dict[int, dict[int, Any]] = {}
        self.spans: list[Any] = []
        self.best: list[int] = []
        self.under_way: list[Any] = []

    def take(self, told: dict[str, Any]) -> None:
        self.trials.update(rows(told))
        for one in told["curves"]:
            known = {step: value for step, value in self.curves.get(one["trial"], {}).items() if step <= one["after"]}
            self.curves[one["trial"]] = known | dict(zip(one["steps"], one["values"], strict=True))
        self.spans += told["spans"]
        self.best += told["best"]
        self.under_way = told["under_way"]
        self.seq = told["seq"]


TRIALS = [
    Written({"lr": 0.1, "act": "relu"}, 0.7, curve=[0.5, 0.6, 0.7]),
    Written({"lr": 0.2, "act": "tanh"}, state="failed", curve=[0.1], reason="it exploded"),
    Written({"lr": 0.3, "depth": 2}, 0.9, curve=[0.5, 0.8, 0.9]),
    Written({"lr": 0.4}, 0.8, curve=[0.4, 0.8]),
    Written({"lr": 0.5}, state="running", curve=[0.3, 0.35]),
    Written({"lr": 0.6}, state="queued"),
]


def test_a_board_shows_each_trial_once_with_all_that_its_row_holds(tmp_path: Path) -> None:
    told = board_of(facts_of(tmp_path / "s", TRIALS, complete=False)).since(0)
    shown = rows(told)
    assert told["parameters"] == ["lr", "act", "depth"]
    assert {number: (row["state"], row["values"], row["params"]) for number, row in shown.items()} == {
        0: ("finished", [0.7], [0.1, "relu", None]),
        1: ("failed", [None], [0.2, "tanh", None]),
        2: ("finished", [0.9], [0.3, None, 2]),
        3: ("finished", [0.8], [0.4, None, None]),
        4: ("running", [None], [0.5, None, None]),
        5: ("queued", [None], [0.6, None, None]),
    }
    assert shown[1]["reason"] == "it exploded"
    assert (shown[0]["started"], shown[0]["ended"], shown[0]["attempts"], shown[0]["reports"]) == (1.0, 11.0, 1, 3)
    assert (shown[4]["ended"], shown[4]["last"], shown[4]["worker"]) == (None, 0.35, "w0")
    assert told["best"] == [0, 2]
    assert [span[1] for span in told["spans"]] == [0, 1, 2, 3]
    assert [(span[1], span[-1]) for span in told["under_way"]] == [(4, "running")]


@given(data=st.data())
def test_whoever_looks_whenever_ends_up_with_the_same(data: st.DataObject, tmp_path_factory: Any) -> None:
    facts = facts_of(tmp_path_factory.mktemp("studies") / "s", TRIALS, complete=False)
    board, viewer = board_of([]), Viewer()
    looks = data.draw(st.sets(st.integers(1, len(facts))))
    for nth, fact in enumerate(facts, 1):
        board.apply(fact)
        if nth in looks:
            viewer.take(board.since(viewer.seq))
    viewer.take(board.since(viewer.seq))
    anew = Viewer()
    anew.take(board.since(0))
    assert viewer.trials == {n: {**row, "params": viewer.trials[n]["params"]} for n, row in anew.trials.items()}
    assert (viewer.curves, viewer.spans, viewer.best, viewer.under_way) == (
        anew.curves,
        anew.spans,
        anew.best,
        anew.under_way,
    )


def test_nothing_is_told_twice(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "s", TRIALS, complete=False)
    board = board_of(facts[:-1])
    seq = board.seq
    board.apply(facts[-1])
    told = board.since(seq)
    assert len(told["trials"]) <= 1
    assert (told["spans"], told["best"]) == ([], [])
    assert board.since(board.seq) | {"now": None, "under_way": None} == {
        "seq": board.seq,
        "columns": COLUMNS,
        "parameters": ["lr", "act", "depth"],
        "trials": [],
        "curves": [],
        "spans": [],
        "under_way": None,
        "best": [],
        "now": None,
    }


def test_a_running_curve_is_told_by_what_it_has_grown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "s", [Written(curve=[0.1, 0.2, 0.3], state="running")], complete=False)
    board = board_of(facts[:-1])
    seq = board.seq
    board.apply(facts[-1])
    assert board.since(seq)["curves"] == [{"trial": 0, "after": 2, "steps": [3], "values": [0.3]}]
    assert board.since(0)["curves"] == [{"trial": 0, "after": 0, "steps": [1, 2, 3], "values": [0.1, 0.2, 0.3]}]


def test_a_curve_that_goes_on_from_a_checkpoint_withdraws_what_came_after_it(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "s", [Written(curve=[0.1, 0.2, 0.3], state="running")], complete=False)
    saved = Checkpoint(attempt=1, loop=0, epoch=1, step=1, digests=("", ""), sizes=(1, 1))
    at = facts[-1].at
    board, viewer = board_of([*facts[:-2], Checkpointed(at=at - 1, trial=0, checkpoint=saved), *facts[-2:]]), Viewer()
    viewer.take(board.since(0))
    board.apply(Settled(at=at + 1, trial=0, turn=Turn.LOST, attempt=1, reason="its process was killed", charged=True))
    worker = next(iter(board.history.idle))
    board.apply(Assigned(at=at + 2, trial=0, attempt=2, worker=worker))
    viewer.take(board.since(viewer.seq))
    assert viewer.curves[0] == {1: 0.1, 2: 0.2, 3: 0.3}, "nothing came in its place yet"
    board.apply(Resumed(at=at + 3, trial=0, attempt=2, origin=Origin((1, 0, 1), 1)))
    board.apply(Reported(at=at + 4, trial=0, attempt=2, step=2, metrics={"accuracy": 0.25}))
    viewer.take(board.since(viewer.seq))
    assert viewer.curves[0] == {1: 0.1, 2: 0.25}
    assert viewer.trials[0]["attempts"] == 2
    assert [(span[2], span[-1]) for span in viewer.spans] == [(1, "lost")]


def test_of_many_curves_and_of_long_ones_a_part_is_shown_with_the_best_and_the_running(tmp_path: Path) -> None:
    n = 3 * MOST_CURVES
    trials = [Written({"x": k}, k / n, curve=[k / n], took_s=1.0) for k in range(n)]
    trials += [Written(curve=[step / 1000 for step in range(1000)], state="running")]
    told = board_of(facts_of(tmp_path / "s", trials, complete=False)).since(0)
    shown = {one["trial"]: one for one in told["curves"]}
    assert MOST_CURVES <= len(shown) <= MOST_CURVES + 2
    assert {n, n - 1, 0} <= shown.keys()
    long = shown[n]["steps"]
    assert len(long) == MOST_POINTS
    assert (long[0], long[-1]) == (1, 1000)
    assert len(told["trials"]) == n + 1


def test_numbers_that_json_does_not_have_are_told_in_words(tmp_path: Path) -> None:
    trials = [Written({"x": float("nan"), "y": (1, 2)}, float("nan"), curve=[float("inf"), float("-inf")])]
    told = board_of(facts_of(tmp_path / "s", trials)).since(0)
    assert rows(told)[0]["values"] == ["NaN"]
    assert rows(told)[0]["params"] == ["NaN", "(1, 2)"]
    assert told["curves"][0]["values"] == ["∞", "-∞"]


def test_arms_and_several_metrics_have_no_best_so_far(tmp_path: Path) -> None:
    arms = [Written(value=0.5, arm="base"), Written(value=0.4, arm="layer:conv2")]
    told = board_of(facts_of(tmp_path / "a", arms, verb="ablate")).since(0)
    assert [row["arm"] for row in rows(told).values()] == ["base", "layer:conv2"]
    assert told["best"] == []
    modes = {"accuracy": "max", "latency_s": "min"}
    several = [Written(value=0.5, metrics={"latency_s": 0.1})]
    told = board_of(facts_of(tmp_path / "b", several, metrics=modes), **modes).since(0)
    assert rows(told)[0]["values"] == [0.5, 0.1]
    assert told["best"] == []
