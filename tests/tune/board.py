"""A study at hand: its trials report and end when the test says so."""

from dataclasses import dataclass, field

from etude.core.events import AnyFact, Assigned, How, Joined, Judged, Outcome, Queued, Reported, Settled
from etude.core.history import History
from etude.core.lifecycle import Turn
from etude.core.metrics import Fidelity, Metrics, Mode
from etude.core.plan import Report


@dataclass
class Board:
    """A study whose trials report when the test says so, each on a worker of its own."""

    mode: Mode = "max"
    fidelity: Fidelity | None = None
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(Metrics({"m": self.mode}, fidelity=self.fidelity))

    def _fold(self, *facts: AnyFact) -> None:
        for fact in facts:
            self.history.apply(fact)

    def start(self, same_as: int | None = None) -> int:
        number = len(self.history.trials)
        self._fold(
            Joined(at=0.0, worker=str(number)),
            Queued(at=0.0, trial=number, params={"n": number}, seed=0, same_as=same_as),
        )
        if same_as is None:
            self.assign(number)
        return number

    def join(self, trial: int) -> None:
        self._fold(Joined(at=0.0, worker=str(trial)))
        self.assign(trial)

    def ask_to_stop(self, trial: int) -> None:
        self._fold(Judged(at=0.0, trial=trial, attempt=1, turn=Turn.STOP_ASKED, reason="it was bad"))

    def assign(self, trial: int) -> None:
        attempt = self.history.trials[trial].attempt + 1
        self._fold(Assigned(at=0.0, trial=trial, attempt=attempt, worker=str(trial)))

    def report(self, trial: int, value: float) -> Report:
        attempt = self.history.trials[trial].attempt
        step = len(self.history.trials[trial].curve) + 1
        self._fold(Reported(at=0.0, trial=trial, attempt=attempt, step=step, metrics={"m": value}))
        return Report(trial, step, value, 1.0)

    def settle(self, trial: int, turn: Turn = Turn.FINISHED) -> None:
        how = How.FINISHED if turn in (Turn.FINISHED, Turn.REUSED) else How.LOST
        self._fold(Settled(at=0.0, trial=trial, turn=turn, outcome=Outcome(how, value=0.0)))

    def finish(self, *curve: float) -> int:
        trial = self.start()
        for value in curve:
            self.report(trial, value)
        self.settle(trial)
        return trial
