"""What a study has taken so far, over all its runs; and the limits that its user set to that.

A run lasts from the fact that opens it to the one that closes it; of a run whose driver was killed it is known up to
its last fact. A worker costs from when it joined to when it left, whether it had work or not: that is what is paid for.

While the driver stands still (SIGSTOP, a frozen container) nobody works on the study, so that time is not the study's.
The bill goes on, though: who rents a machine pays for it while its processes stand still, and whether workers on other
machines went on meanwhile, nobody can tell. A limit to money that guesses may be exceeded. So it counts for that.
"""

from __future__ import annotations

from typing import Final

import msgspec

from etude.core.errors import ConfigError
from etude.core.text import count, seconds

HOUR_S: Final = 3600.0

HAIRSBREADTH_S: Final = 1e-6
"""A clock that counts from 1970 cannot tell moments apart that are nearer than that."""


class Spending(msgspec.Struct):
    """Seconds that the driver and the workers of a study were there: a fold over its facts.

    Attributes:
        earlier_s: Seconds that all runs before this one took.
        earlier_worker_s: Seconds of all workers that are gone.
        opened_at: When this run began; None while none goes on.
        still_s: Seconds of this run in which it stood still.
        joined: Worker -> seconds from the beginning of this run to its coming.
        joined_sum_s: Their sum.
    """

    earlier_s: float = 0.0
    earlier_worker_s: float = 0.0
    opened_at: float | None = None
    still_s: float = 0.0
    joined: dict[str, float] = {}
    joined_sum_s: float = 0.0

    def worked_s(self, now_s: float) -> float:
        """Return the seconds that the study has been worked on."""
        return self.earlier_s + (now_s - self.opened_at - self.still_s if self.opened_at is not None else 0.0)

    def worker_s(self, now_s: float) -> float:
        """Return the seconds that workers have been there, all of them together."""
        if self.opened_at is None:
            return self.earlier_worker_s
        return self.earlier_worker_s + len(self.joined) * (now_s - self.opened_at) - self.joined_sum_s

    def begin(self, at: float) -> None:
        """Take in that a run begins."""
        self.opened_at = at

    def stand_still(self, seconds: float) -> None:
        """Take in that nobody worked on it for so long."""
        if self.opened_at is not None:
            self.still_s += seconds

    def come(self, worker: str, at: float) -> None:
        """Take in that a worker is there."""
        if self.opened_at is not None:
            self.joined[worker] = at - self.opened_at
            self.joined_sum_s += at - self.opened_at

    def go(self, worker: str, at: float) -> None:
        """Take in that a worker is gone."""
        joined = self.joined.pop(worker, None)
        if joined is not None and self.opened_at is not None:
            self.joined_sum_s = self.joined_sum_s - joined if self.joined else 0.0
            self.earlier_worker_s += at - self.opened_at - joined

    def end(self, at: float) -> None:
        """Take in that the run has ended, and all its workers with it."""
        self.earlier_worker_s = self.worker_s(at)
        self.earlier_s = self.worked_s(at)
        self.opened_at = None
        self.still_s = 0.0
        self.joined.clear()
        self.joined_sum_s = 0.0


def check_priced(max_cost: float | None, price_per_hour: float | None) -> None:
    """Refuse a limit to money where nothing has a price.

    Raises:
        ConfigError: There is one.
    """
    if max_cost is not None and price_per_hour is None:
        raise ConfigError(
            f"max_cost={max_cost!r} was given without a price, so nobody knows what the study costs. Pass "
            "price_per_hour=<what an hour of one worker costs> as well."
        )


class Ceiling(msgspec.Struct, frozen=True):
    """What a study may take in all, by the will of its user. None stands for no limit.

    Attributes:
        deadline_s: Seconds that it may be worked on.
        max_failures: How many of its trials may fail; one more ends it.
        max_cost: What its workers may cost.
        price_per_hour: What an hour of one worker costs, in the same money.
    """

    deadline_s: float | None = None
    max_failures: int | None = None
    max_cost: float | None = None
    price_per_hour: float | None = None

    def reached(self, spending: Spending, *, failed: int, now_s: float) -> tuple[str, str] | None:
        """Return the limit that is reached, and a sentence that says so; None if there is none.

        Args:
            spending: What the study has taken.
            failed: How many of its trials have failed.
            now_s: The driver's clock.
        """
        if self.max_failures is not None and failed > self.max_failures:
            return self._said("max_failures", self.max_failures, f"{count(failed, 'trial')} failed")
        if self.deadline_s is not None:
            worked_s = spending.worked_s(now_s)
            if worked_s >= self.deadline_s - HAIRSBREADTH_S:
                return self._said("deadline_s", self.deadline_s, f"the study was at work for {seconds(worked_s)}")
        if self.max_cost is not None and self.price_per_hour is not None:
            hours = spending.worker_s(now_s) / HOUR_S
            if hours * HOUR_S >= self.max_cost / self.price_per_hour * HOUR_S - HAIRSBREADTH_S:
                cost = hours * self.price_per_hour
                used = f"{hours:.3g} worker-hours at {self.price_per_hour:g} an hour cost {cost:.4g}"
                return self._said("max_cost", self.max_cost, used)
        return None

    def next_at(self, spending: Spending, *, now_s: float) -> float | None:
        """Return when a limit is reached, if workers neither come nor go; None if never."""
        moments = []
        if self.deadline_s is not None:
            moments.append(now_s + self.deadline_s - spending.worked_s(now_s))
        if self.max_cost is not None and self.price_per_hour is not None and spending.joined:
            left_s = self.max_cost / self.price_per_hour * HOUR_S - spending.worker_s(now_s)
            moments.append(now_s + left_s / len(spending.joined))
        return min(moments, default=None)

    def _said(self, name: str, limit: float, used: str) -> tuple[str, str]:
        return name, f"{name}={limit:g} is reached: {used}, over all its runs"


NO_CEILING: Final = Ceiling()
