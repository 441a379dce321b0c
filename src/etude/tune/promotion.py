"""Searches with a fidelity: trials run with a small budget to their end, and the best are run again with a larger one.

A promoted trial is a new trial with the same configuration, the next budget, and ``promotes`` naming the one before
it. It goes on from that one's state, if that was kept (``run.keep``), and else starts from scratch.

Both plans know what they know from the trials alone, so one that takes a study up in the middle goes on as the one
before it would have. What has ended stays as it is, so each trial is looked at once.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from etude.core.events import Params
from etude.core.history import Trial
from etude.core.lifecycle import State
from etude.core.metrics import Fidelity
from etude.core.plan import Answer, Decision, Done, Halt, Propose, Report, Standing, Wait
from etude.core.text import count
from etude.tune.halving import shares
from etude.tune.plan import checked, unheard, used_up_by
from etude.tune.stop import Stopper


@dataclass
class _Promotions:
    """What both plans have in common.

    Attributes:
        trials: How many in all, promoted ones included, those of earlier runs as well.
        seed: The training seed of all trials.
        fidelity: Which parameter is the budget, and what it can be.
        eta: One in so many is promoted.
        stopper: Ends trials on their reports, beside that.
        size: How many different configurations there are to propose; None if there is no end of them.
        start: Configurations that are tried first.
        wants_reports: The stopper, as it was asked for, if it needs reports; see ``SearchPlan``.
        points: Never given: a sampler that comes to an end is refused, since promoted trials take its numbers.
        resumes: Whether a promoted trial goes on from the state of the one before, if there is one.
    """

    trials: int
    seed: int
    fidelity: Fidelity
    eta: int
    stopper: Stopper
    size: int | None = None
    start: tuple[Params, ...] = ()
    wants_reports: str = ""
    points: None = None
    resumes: bool = True
    _looked_at: int = field(default=0, init=False, repr=False, compare=False)
    """How many of those that ended were looked at."""
    _seen: int = field(default=0, init=False, repr=False, compare=False)
    _roots: int = field(default=0, init=False, repr=False, compare=False)
    """How many trials were promoted by none."""
    _distinct: int = field(default=0, init=False, repr=False, compare=False)
    """How many different configurations were tried."""
    _dropped: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    """Of those that ended, which are not promoted any more; as long as nobody has asked."""

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let the stopper decide; promotion has no say before a trial has come to its end."""
        return checked(self.stopper, report, standing)

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Promote a trial if one is to be; else begin a new one."""
        self._take_in(standing)
        if self.wants_reports and (problem := unheard(self.wants_reports, standing, all_asked=False)):
            return Halt(problem)
        if len(standing.trials) + len(pending) >= self.trials:
            return Done(f"all {count(self.trials, 'trial')} ended")
        promoted = self._promotion(standing, pending)
        if promoted is not None:
            trial, rung, because = promoted
            own = {name: value for name, value in trial.params.items() if name != self.fidelity.name}
            return Propose(self.seed, own, self._budget(rung), promotes=trial.number, because=because)
        roots = [wanted for wanted in pending if wanted.promotes is None]
        rung_of_next = self._begins_at(self._roots + len(roots))
        used_up = self._used_up(len(roots))
        if rung_of_next is None or used_up:
            if pending or len(standing.ended) < len(standing.trials):
                return Wait()
            return Done(used_up_by(self.size or 0))
        nth = self._roots + len(roots)
        params = self.start[nth] if nth < len(self.start) else None
        return Propose(self.seed, params, self._budget(rung_of_next))

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return trials that have come to the largest budget, or that too many others have beaten."""
        self._take_in(standing)
        self._drop(left=max(0, self.trials - len(standing.trials)))
        dropped, self._dropped = self._dropped, []
        return dropped

    def _take_in(self, standing: Standing) -> None:
        for trial in standing.trials[self._seen :]:
            if trial.promotes is None:
                self._queued(trial, self._roots)
                self._roots += 1
                self._distinct += trial.same_as is None
            else:
                self._carried_on(standing.trials[trial.promotes], trial)
        self._seen = len(standing.trials)
        for trial in standing.ended[self._looked_at :]:
            self._ended(trial, _loss(trial, standing))
        self._looked_at = len(standing.ended)

    def _used_up(self, more: int) -> bool:
        if self.size is None:
            return False
        return self._roots + more >= self.size and self._distinct + more >= self.size

    def _budget(self, rung: int) -> Params:
        return {self.fidelity.name: self.fidelity.rungs[rung]}

    # --- what they differ in ----------------------------------------------------------------------

    def _queued(self, trial: Trial, nth: int) -> None:
        """Take in the ``nth`` trial that was promoted by none."""

    def _carried_on(self, earlier: Trial, trial: Trial) -> None:
        """Take in that a trial carries on an earlier one."""
        raise NotImplementedError

    def _ended(self, trial: Trial, loss: float) -> None:
        """Take in that a trial has ended."""
        raise NotImplementedError

    def _drop(self, left: int) -> None:
        """Add to those that are not promoted any more, with so many trials left to come."""
        raise NotImplementedError

    def _because(self, trial: Trial, best: int, of: int) -> str:
        """Say why a trial is promoted: it is among the best of its rung."""
        budget = f"{self.fidelity.name}={trial.params[self.fidelity.name]}"
        among = "the best" if best == 1 else f"among the best {best}"
        return f"trial {trial.number} is {among} of {of} with {budget}"

    def _promotion(self, standing: Standing, pending: Sequence[Propose]) -> tuple[Trial, int, str] | None:
        """Return a trial that is to be promoted now, the rung that it comes to, and why."""
        raise NotImplementedError

    def _begins_at(self, nth: int) -> int | None:
        """Return the rung on which the ``nth`` trial that is promoted by none begins; None if there is to be none."""
        raise NotImplementedError


@dataclass
class AsyncHalving(_Promotions):
    """Promote as soon as a trial is among the best 1/eta of those that ended on its rung, and wait for nobody.

    Failed trials count as worst, invalid ones and those that share another's result do not count.

    Source:
        Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934, algorithm 2.
    """

    def __post_init__(self) -> None:
        self._rungs = [_Rung() for _ in self.fidelity.rungs[:-1]]

    def _queued(self, trial: Trial, nth: int) -> None:
        self._comes_to(trial)

    def _carried_on(self, earlier: Trial, trial: Trial) -> None:
        self._rungs[self.fidelity.rung(earlier.params)].waiting_no_more(earlier.number)
        self._comes_to(trial)

    def _comes_to(self, trial: Trial) -> None:
        rung = self.fidelity.rung(trial.params)
        if 0 <= rung < len(self._rungs):
            self._rungs[rung].there += 1

    def _ended(self, trial: Trial, loss: float) -> None:
        rung = self.fidelity.rung(trial.params)
        if 0 <= rung < len(self._rungs) and _counts(trial):
            self._rungs[rung].add(trial.number, loss)
        else:
            self._dropped.append(trial.number)

    def _drop(self, left: int) -> None:
        for rung in self._rungs:
            self._dropped += rung.beaten((rung.there + left) // self.eta)

    def _promotion(self, standing: Standing, pending: Sequence[Propose]) -> tuple[Trial, int, str] | None:
        asked = {wanted.promotes for wanted in pending}
        for below in reversed(range(len(self._rungs))):
            rung = self._rungs[below]
            best = len(rung.losses) // self.eta
            number = rung.best_of_first(best, asked)
            if number is not None:
                trial = standing.trials[number]
                return trial, below + 1, self._because(trial, best, len(rung.losses))
        return None

    def _begins_at(self, nth: int) -> int | None:
        return 0


@dataclass
class Brackets(_Promotions):
    """Hyperband: brackets of halving, in which a rung is promoted when all of it has ended.

    A bracket begins its ``n`` configurations with one budget; of each rung the best 1/eta are promoted, the best one
    in any case. While one bracket waits for its last trials the next one begins. After a full set comes another one,
    until there are ``trials``; the last bracket is as large as they allow. Where less was promoted than planned, since
    trials failed, the trials that are left have the largest budget.

    Failed trials count as worst; invalid ones and those that share another's result do not count, so their rung is
    smaller by one.

    Source:
        Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", arXiv:1603.06560.
        Our departure: brackets overlap.
    """

    def __post_init__(self) -> None:
        self._brackets = [
            _Group(*planned) for planned in plan_brackets(len(self.fidelity.rungs), self.eta, self.trials)
        ]
        self._begins = [bracket for bracket in self._brackets for _ in range(bracket.size)]
        self._group_of: dict[int, _Group] = {}
        """Trial -> its bracket."""
        self._first_open = 0
        self._before = 0
        """How many configurations the brackets before the first open one begin with."""

    def _queued(self, trial: Trial, nth: int) -> None:
        if nth < len(self._begins):
            group = self._group_of[trial.number] = self._begins[nth]
            # Not the rung that the bracket begins at: with fewer trials in all it may have been another bracket's.
            group.there(self.fidelity.rung(trial.params)).add(trial.number)
            group.quiet = False

    def _carried_on(self, earlier: Trial, trial: Trial) -> None:
        group = self._group_of.get(earlier.number)
        if group is not None:
            group.carried_on.add(earlier.number)
            group.quiet = False
            group.there(self.fidelity.rung(trial.params)).add(trial.number)
            self._group_of[trial.number] = group

    def _ended(self, trial: Trial, loss: float) -> None:
        group = self._group_of.get(trial.number)
        if group is not None:
            rung = self.fidelity.rung(trial.params)
            group.quiet = False
            group.ended.setdefault(rung, {})[trial.number] = loss if _counts(trial) else None
            self._dropped += group.beaten(rung, self.eta, top=len(self.fidelity.rungs) - 1)
        else:
            self._dropped.append(trial.number)

    def _drop(self, left: int) -> None:
        """A bracket knows beforehand how many it promotes: who is beaten is dropped as soon as others end."""

    def _promotion(self, standing: Standing, pending: Sequence[Propose]) -> tuple[Trial, int, str] | None:
        asked = {wanted.promotes for wanted in pending if wanted.promotes is not None}
        begun = self._roots + sum(wanted.promotes is None for wanted in pending)
        exhausted = begun == self._roots and self._used_up(0)
        before = self._before
        for nth in range(self._first_open, len(self._brackets)):
            group = self._brackets[nth]
            if before >= begun:
                break
            before += group.size
            filled = before <= self._roots or exhausted
            found = self._of_group(group, asked, filled=filled) if not group.quiet else None
            if found is not None:
                trial, rung = standing.trials[found[0]], found[1]
                counted = sum(loss is not None for loss in group.ended[rung - 1].values())
                return trial, rung, self._because(trial, max(1, counted // self.eta), counted)
            group.quiet = filled
            if group.done and nth == self._first_open:
                self._first_open += 1
                self._before = before
        return None

    def _of_group(self, group: _Group, asked: set[int], *, filled: bool) -> tuple[int, int] | None:
        top = len(self.fidelity.rungs) - 1
        if not filled:
            return None
        for rung in range(group.begins_at, top):
            there, ended = group.there(rung), group.ended.get(rung, {})
            if not there:  # nobody on the rung below was worth it
                break
            if len(ended) < len(there):
                return None
            counted = {number: loss for number, loss in ended.items() if loss is not None}
            best = sorted((loss, number) for number, loss in counted.items() if loss < math.inf)
            wanted = max(1, len(counted) // self.eta)
            gone = there & (group.carried_on | asked)
            due = [number for _, number in best[:wanted] if number not in gone]
            if due and len(gone) < wanted:
                return due[0], rung + 1
            if there & asked:
                return None
        group.done = len(group.ended.get(top, {})) == len(group.there(top))
        return None

    def _begins_at(self, nth: int) -> int | None:
        if nth < len(self._begins):
            return self._begins[nth].begins_at
        if self._first_open < len(self._brackets):
            return None
        return len(self.fidelity.rungs) - 1  # fewer were promoted than were planned for: the rest has all it can have


class _Rung:
    """Those that ended on a rung, and those of them that were not promoted."""

    def __init__(self) -> None:
        self.there = 0
        """How many have come to it, ended or not."""
        self.losses: list[tuple[float, int]] = []
        self._waiting: list[tuple[float, int]] = []
        self._loss_of: dict[int, float] = {}
        """Of those that wait."""
        self._gone: set[int] = set()

    def add(self, number: int, loss: float) -> None:
        insort(self.losses, (loss, number))
        if number not in self._gone and loss < math.inf:
            insort(self._waiting, (loss, number))
            self._loss_of[number] = loss

    def waiting_no_more(self, number: int) -> None:
        self._gone.add(number)
        loss = self._loss_of.pop(number, None)
        if loss is not None:
            del self._waiting[bisect_left(self._waiting, (loss, number))]

    def beaten(self, n: int) -> list[int]:
        """Drop those that wait and are not among the best ``n``, and return them: more will never be promoted."""
        dropped = []
        while self._waiting and bisect_left(self.losses, self._waiting[-1]) >= n:
            number = self._waiting.pop()[1]
            del self._loss_of[number]
            dropped.append(number)
        return dropped

    def best_of_first(self, n: int, asked: set[int | None]) -> int | None:
        """Return the best that waits, if it is among the first ``n`` of all; the earliest of equals."""
        for loss, number in self._waiting:
            if number not in asked:
                return number if bisect_left(self.losses, (loss, number)) < n else None
        return None


class _Group:
    """A bracket as it stands."""

    def __init__(self, begins_at: int, size: int) -> None:
        self.begins_at = begins_at
        self.size = size
        self.carried_on: set[int] = set()
        self.ended: dict[int, dict[int, float | None]] = {}
        """Rung -> trial that ended there -> its loss; None if it does not count."""
        self.done = False
        self.quiet = False
        """Whether nothing has happened since there was nothing to promote."""
        self._there: dict[int, set[int]] = {}
        self._dropped: set[int] = set()

    def beaten(self, rung: int, eta: int, *, top: int) -> list[int]:
        """Drop those that ended on a rung and are not promoted any more, and return them."""
        most = self.size
        for _ in range(self.begins_at, rung + 1):
            most = max(1, most // eta)
        ended = self.ended[rung]
        ranked = sorted((loss, number) for number, loss in ended.items() if loss is not None)
        gone = [number for number, loss in ended.items() if loss is None]
        gone += [number for _, number in (ranked if rung == top else ranked[most:])]
        dropped = [number for number in gone if number not in self._dropped]
        self._dropped |= set(dropped)
        return dropped

    def there(self, rung: int) -> set[int]:
        """Return the trials on a rung."""
        return self._there.setdefault(rung, set())


def plan_brackets(rungs: int, eta: int, trials: int | None) -> list[tuple[int, int]]:
    """Return the brackets that so many trials are enough for: where each begins, and with how many configurations.

    Args:
        rungs: How many budgets there are.
        eta: One in so many is promoted.
        trials: How many trials there will be, promoted ones included; None for one full set of brackets.

    Example:
        >>> plan_brackets(4, 3, None)
        [(0, 27), (1, 12), (2, 6), (3, 4)]
        >>> plan_brackets(4, 3, 45)
        [(0, 27), (1, 3)]
    """
    sizes = shares(rungs, eta)
    if trials is None:
        return list(enumerate(sizes))
    planned: list[tuple[int, int]] = []
    left = trials
    while left > 0:
        rung = len(planned) % rungs
        fits = next(n for n in range(sizes[rung], 0, -1) if n == 1 or in_all(n, rungs - rung, eta) <= left)
        planned.append((rung, fits))
        left -= in_all(fits, rungs - rung, eta)
    return planned


def in_all(n: int, rungs: int, eta: int) -> int:
    """Return how many trials a bracket comes to that begins with ``n`` and has so many rungs.

    Example:
        >>> in_all(27, 4, 3)
        40
    """
    total = 0
    for _ in range(rungs):
        total += n
        n = max(1, n // eta)
    return total


def full_set(rungs: int, eta: int) -> int:
    """Return how many trials a full set of brackets comes to.

    Example:
        >>> full_set(4, 3)
        69
    """
    return sum(in_all(n, rungs - rung, eta) for rung, n in plan_brackets(rungs, eta, None))


def _counts(trial: Trial) -> bool:
    return trial.state is not State.INVALID and trial.same_as is None


def _loss(trial: Trial, standing: Standing) -> float:
    """Return the loss of a trial that ended; infinite if it did not come to the end of its budget."""
    if trial.value is None:
        return math.inf
    return standing.metrics.loss(standing.metrics.values(trial)[standing.metrics.watched])
