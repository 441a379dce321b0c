"""Chaos: run a study while its processes are killed, stopped and started again, and say what came of it.

The study's driver is a process of its own, so that it can be killed as well, and is started again by the same call.
From outside, every few facts of its journal, one fault falls on one of its processes, in an order that a seed gives:

    kill attempt, kill template, kill worker, kill driver       SIGKILL
    stop attempt, stop template, stop worker, stop driver       SIGSTOP, and SIGCONT a little later

A driver that is killed stands still for a while first in every other case: then trainings end of which it never hears.
Where one was killed, it is noted which outcomes are whole in journal and spools (``etude.testing.known``); then half a
transaction is put after the last commit of its journal, and half an outcome at the end of each spool. All the while
messages between driver and workers come late and twice (``etude.testing.unruly``).

**What is spared.** An attempt that is lost counts against its trial's ``retries``, whoever killed it; a trial that
loses more fails, and that is no fault of Étude's. So no fault that would cost an attempt falls on a worker whose trial
has none left, nor on anybody while such a trial waits for a worker. It is put off to the next fact, when another
may fall. How often that was so is in the report.

Linux only: processes are found by what stands in their environment.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError, JournalError, StudyError
from etude.core.events import AnyFact, Assigned
from etude.core.history import History
from etude.core.lifecycle import FINAL, LIVE
from etude.core.metrics import Metrics
from etude.core.numbers import amount, seed_of, whole
from etude.core.text import brief
from etude.store.journal import FILE, Journal
from etude.testing import tears
from etude.testing.aftermath import Chaos, broken
from etude.testing.known import Known
from etude.testing.victims import MARK, Victim, end_what_is_left, send, victims
from etude.wire import spool
from etude.worker import processes

MESSAGES: Final = "ETUDE_CHAOS_MESSAGES"
"""Names the file in which the driver notes each message that it delayed or doubled."""
LOG: Final = "ETUDE_CHAOS_LOG"
"""Names a file for the training function: what it appends a line ``done N`` to, as the last thing that trial N does,
tells how many completions died before their outcome was written."""

KINDS: Final[Mapping[str, float]] = {
    "kill attempt": 6,
    "kill template": 2,
    "kill worker": 3,
    "kill driver": 2,
    "stop attempt": 2,
    "stop template": 1,
    "stop worker": 2,
    "stop driver": 2,
}
"""Kinds of faults, and how often each falls compared with the others."""

LOOK_S: Final = 0.02
STOPPED_S: Final = (0.05, 1.0)
"""Shortest and longest time, in seconds, for which a process is stopped."""


def chaos(
    target: str | Path | Callable[[], object],
    *arguments: str,
    studies: str | Path,
    faults: int = 200,
    every: int = 5,
    seed: int = 0,
    kinds: Mapping[str, float] = KINDS,
    retries: int = 2,
    limit_s: float = 900.0,
) -> Chaos:
    """Run a study under faults until it has ended, and return what came of it. It asserts nothing.

    Args:
        target: A script that runs one study, or a function of a module that does.
        arguments: What the script is given.
        studies: A folder for the study, which is ETUDE_STUDIES for the script. It holds no other study.
        faults: How many faults fall, at most: a study may end before.
        every: How many facts of the journal there are between two faults, on average.
        seed: Gives the kinds of the faults, their victims as far as these can be told apart, and the times.
        kinds: How often each kind of fault falls compared with the others. See ``KINDS``.
        retries: What the study is called with.
        limit_s: Seconds after which a study that has not ended is given up.

    Raises:
        ConfigError: It cannot be started, there is no such kind of fault, or a number cannot be.
        StudyError: It had not ended after ``limit_s``.

    Example:
        >>> from etude.testing import chaos
        >>> chaos("train.py", studies="chaos", faults=20)  # doctest: +SKIP
    """
    faults = whole("faults", faults, 0, "fewer than none cannot fall")
    every = whole("every", every, 1, "there is a fact at least between two faults")
    retries = whole("retries", retries, 0, "no trial has fewer than none")
    limit_s = amount("limit_s", limit_s, above=True)
    seed = seed_of(seed)
    kinds = _checked(kinds)
    if not processes.LINUX:
        raise ConfigError(f"chaos finds processes in /proc, which {sys.platform} has not. Run it on Linux.")
    with tempfile.TemporaryDirectory() as place:
        storm = _Storm(
            _command(target, arguments),
            _path("studies", studies, "Give that of a folder, which may be a new one.").absolute(),
            Path(place),
            rng=random.Random(seed),
            turns=random.Random(f"{seed} kinds"),
            kinds=kinds,
            every=every,
            retries=retries,
        )
        return storm.rage(faults, limit_s)


def _command(target: str | Path | Callable[[], object], arguments: Sequence[str]) -> list[str]:
    if callable(target):
        module, name = target.__module__, getattr(target, "__qualname__", "")
        if module == "__main__" or not name.isidentifier():
            raise ConfigError(
                f"{target!r} cannot be started again in another process: it is no function of a module that can be "
                "imported. Give the path of the script."
            )
        return [f"{module}:{name}", *arguments]
    if not _path("target", target, "Give that of a script, or a function.").is_file():
        raise ConfigError(f"There is no script {target}. Give the path of one that runs a study.")
    return [str(target), *arguments]


def _path(name: str, value: Any, mend: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name}={brief(value)} is no path. {mend}")
    return Path(value)


def _checked(kinds: Any) -> dict[str, float]:
    if not isinstance(kinds, Mapping):
        raise ConfigError(f"kinds={brief(kinds)} is no mapping. Pass kinds with weights, as {{'kill worker': 1}}.")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ConfigError(f"kinds has {unknown[0]!r}, which is no kind of fault. There are: {', '.join(KINDS)}.")
    weights = {kind: amount(f"kinds[{kind!r}]", weight) for kind, weight in kinds.items()}
    if not any(weights.values()):
        raise ConfigError(
            f"kinds={brief(dict(kinds))} leaves no kind that ever falls. Give one a weight above 0; "
            "faults=0 is for no faults."
        )
    return weights


@dataclass
class _Storm:
    """One study under faults."""

    command: list[str]
    studies: Path
    place: Path
    rng: random.Random
    """Gives victims and times."""
    turns: random.Random
    """Gives the kinds; of its own, since how often the other one is asked depends on who is there."""
    kinds: Mapping[str, float]
    every: int
    retries: int
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    fallen: Counter[str] = field(default_factory=Counter)
    tails: Counter[str] = field(default_factory=Counter)
    spools: int = 0
    spared: int = 0
    starts: int = 0
    stopped: dict[int, float] = field(default_factory=dict)
    """Pid -> when it may go on."""
    known: Known = field(default_factory=Known)
    hit: set[tuple[int, int]] = field(default_factory=set)
    """Attempts that a fault has fallen on, whether the journal knows or not."""

    def rage(self, faults: int, limit_s: float) -> Chaos:
        """Let faults fall until the study has ended."""
        began = time.monotonic()
        self._start()
        try:
            due = 0
            while self._driver.poll() is None:
                if time.monotonic() - began > limit_s:
                    raise StudyError(
                        f"The study in {self.studies} had not ended after {limit_s:g} s and {self.fallen.total()} "
                        "faults. Its folder is there to be looked at; give it a longer limit_s if it was just slow."
                    )
                self._let_go()
                seq = self._seq()
                if self.fallen.total() < faults and seq >= due:
                    fell = self._strike()
                    due = self._seq() + (self.rng.randint(1, 2 * self.every - 1) if fell else 1)
                time.sleep(LOOK_S)
            returncode = self._driver.returncode
        finally:
            self._let_go(all_of_them=True)
            if self._driver.poll() is None:
                self._driver.kill()
                self._driver.wait()
            left = end_what_is_left(self.token)
        return self._told(returncode, left, time.monotonic() - began)

    # --- the driver -------------------------------------------------------------------------------

    def _start(self) -> None:
        self.starts += 1
        environment = {
            **os.environ,
            "ETUDE_STUDIES": str(self.studies),
            "ETUDE_PROGRESS": "0",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            MARK: self.token,
            MESSAGES: str(self.place / "messages"),
            LOG: os.environ.get(LOG, str(self.place / "log")),
        }
        command = [sys.executable, "-m", "etude.testing.unruly", f"{self.rng.random()}", *self.command]
        with (self.place / "output").open("w") as out, (self.place / "errors").open("a") as err:
            self._driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)

    def _start_again(self) -> None:
        self._driver.wait()
        with contextlib.suppress(StudyError):
            folder = self._folder()
            told = self._facts()
            self.known.note(told[0], _history(told), spool.read_all(folder / "spool"))  # before anything is torn
            if kind := tears.tear_tail(folder, self.rng):
                self.tails[kind] += 1
            self.spools += tears.tear_spool(folder, self.rng)
        self._start()

    # --- faults -----------------------------------------------------------------------------------

    def _strike(self) -> bool:
        """Let one fault fall, and say whether there was anybody on whom it may."""
        (kind,) = self.turns.choices(list(self.kinds), weights=list(self.kinds.values()))
        act, _, role = kind.partition(" ")
        if role == "driver":
            found = [Victim(self._driver.pid, "")]
        else:
            them = victims(role, driver=self._driver.pid, token=self.token)
            found = [v for v in them if v.pid not in self.stopped]
        if not found:
            return False
        victim = self.rng.choice(found)
        if act == "stop":
            self._signal(victim.pid, signal.SIGSTOP)
            self.stopped[victim.pid] = time.monotonic() + self.rng.uniform(*STOPPED_S)
        elif role == "driver":
            if self.rng.choice((True, False)):  # so that outcomes come to be in spools and nowhere else
                self._signal(victim.pid, signal.SIGSTOP)
                time.sleep(self.rng.uniform(*STOPPED_S))
            self._driver.kill()
            self.stopped.pop(victim.pid, None)
            self._start_again()
        else:
            with self._driver_standing_still():
                if not self._may_fall(victim):
                    self.spared += 1
                    return False
                self._signal(victim.pid, signal.SIGKILL)
        self.fallen[kind] += 1
        return True

    def _may_fall(self, victim: Victim) -> bool:
        """Say whether no trial can fail by this: the driver stands still, so the journal says who holds what."""
        try:
            history = _history(self._facts())
        except JournalError:
            return False  # it stands still with the file locked, as it does for a moment when it opens it
        worker = history.workers.get(victim.worker)
        if worker is None:
            return False  # it has not joined yet, and three of those in a row are the end of a study
        for trial in history.trials:
            if trial.state in FINAL:
                continue
            hit = (trial.number, trial.attempt) in self.hit and trial.state in LIVE  # and not yet in the journal
            if trial.losses + hit >= self.retries and (hit or trial.state not in LIVE or trial.worker == worker.name):
                return False
        if worker.trial is not None:
            self.hit.add((worker.trial, history.trials[worker.trial].attempt))
        return True

    @contextlib.contextmanager
    def _driver_standing_still(self) -> Iterator[None]:
        was_stopped = self._driver.pid in self.stopped
        self._signal(self._driver.pid, signal.SIGSTOP)
        until = time.monotonic() + 1.0
        while not processes.is_stopped(self._driver.pid) and time.monotonic() < until and self._driver.poll() is None:
            time.sleep(0.001)
        try:
            yield
        finally:
            if not was_stopped:
                self._signal(self._driver.pid, signal.SIGCONT)

    def _let_go(self, *, all_of_them: bool = False) -> None:
        now = time.monotonic()
        for pid in [pid for pid, at in self.stopped.items() if all_of_them or now >= at]:
            del self.stopped[pid]
            self._signal(pid, signal.SIGCONT)

    def _signal(self, pid: int, number: int) -> None:
        if pid == self._driver.pid:
            self._driver.send_signal(number)
        else:
            send(pid, number, token=self.token)

    # --- the journal ------------------------------------------------------------------------------

    def _folder(self) -> Path:
        found = list(self.studies.glob(f"*/{FILE}"))
        if len(found) != 1:
            raise StudyError(f"{self.studies} holds {len(found)} studies, and one was expected.")
        return found[0].parent

    def _seq(self) -> int:
        with contextlib.suppress(StudyError), contextlib.closing(Journal.read(self._folder())) as journal:
            return journal.seq
        return -1

    def _facts(self) -> tuple[list[AnyFact], Metrics]:
        with contextlib.closing(Journal.read(self._folder())) as journal:
            return list(journal.facts()), Metrics(journal.meta()["metrics"])

    def _told(self, returncode: int, left: Sequence[str], seconds: float) -> Chaos:
        facts, metrics = self._facts()
        history = _history((facts, metrics))
        finished = sum(trial.state.value == "finished" for trial in history.trials)
        messages = Counter(_lines(self.place / "messages"))
        again = self.known.again(facts)
        log = _lines(Path(os.environ.get(LOG, self.place / "log")))
        done = sum(line.startswith("done ") for line in log)
        return Chaos(
            faults={kind: self.fallen[kind] for kind in self.kinds},
            delayed=messages["delayed"],
            doubled=messages["doubled"],
            tails=dict(self.tails),
            spools=self.spools,
            spared=self.spared,
            starts=self.starts,
            attempts=sum(isinstance(fact, Assigned) for fact in facts),
            finished=finished,
            unfinished=len(history.trials) - finished,
            left_whole=len(self.known.left),
            died=done - finished - len(again) if log else None,
            broken=[*broken(facts), *again, *self.known.gone(facts)],
            left=left,
            returncode=returncode,
            output=(self.place / "output").read_text(),
            errors=(self.place / "errors").read_text(),
            folder=self._folder(),
            seconds=seconds,
        )


def _history(told: tuple[Sequence[AnyFact], Metrics]) -> History:
    facts, metrics = told
    history = History(metrics)
    for fact in facts:
        history.apply(fact)
    return history


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
