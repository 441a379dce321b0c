"""The machines of a study beside what it was for: time, energy and the metric of each trial, and what tuning saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etude.core.history import History
from etude.core.metrics import Metrics
from etude.core.text import count
from etude.system.energy import Energy, total
from etude.system.uses import Use, front, uses_of


@dataclass(frozen=True)
class Machines:
    """What the trials of a study took of their machines. Print it.

    Attributes:
        uses: One for each trial whose machine was tuned.
        values: Trial -> its value of the study's main metric, of those that finished.
        metrics: What the study measures.
    """

    uses: tuple[Use, ...]
    values: Mapping[int, float]
    metrics: Metrics

    @classmethod
    def of(cls, history: History) -> Machines:
        """Return those of a study."""
        values = {trial.number: trial.value for trial in history.finished if trial.value is not None}
        return cls(tuple(uses_of(history.tuned)), values, history.metrics)

    @property
    def seconds(self) -> float:
        """How long all epochs took."""
        return sum(use.seconds for use in self.uses)

    @property
    def energy(self) -> Energy:
        """What they took of energy, with the weakest label among them."""
        return total(use.energy for use in self.uses)

    @property
    def saved_s(self) -> float:
        """Seconds that were saved by settings that were kept, as far as it is known what the default takes."""
        return sum(use.saved_s or 0.0 for use in self.uses)

    @property
    def probing_s(self) -> float:
        """Seconds that trying settings took beyond what the default would have; below 0 if it took less."""
        return sum(use.probing_s or 0.0 for use in self.uses)

    @property
    def front(self) -> list[int]:
        """The finished trials that no other is better than by the metric, time or energy, and not worse by any.

        Energy is left out where it is unavailable.
        """
        known = all(use.energy.joules is not None for use in self.uses)
        return front(
            {
                use.trial: (
                    self.metrics.loss(self.values[use.trial]),
                    use.seconds,
                    *((use.energy.joules,) if known else ()),
                )
                for use in self.uses
                if use.trial in self.values
            }
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each trial."""
        best = set(self.front)
        return [
            {
                "trial": use.trial,
                self.metrics.main: self.values.get(use.trial),
                "seconds": use.seconds,
                "joules": use.energy.joules,
                "energy": use.energy.label.value,
                "epochs": use.epochs,
                "probes": use.probes,
                "saved_s": use.saved_s,
                "probing_s": use.probing_s,
                "setting": dict(use.setting),
                "on_front": use.trial in best,
            }
            for use in self.uses
        ]

    def __str__(self) -> str:
        if not self.uses:
            return "No machine was tuned in this study: pass system=True."
        lines = [
            f"{count(sum(use.epochs for use in self.uses), 'epoch')} of {count(len(self.uses), 'trial')} took "
            f"{self.seconds:.4g} s and {self.energy}.",
            f"What was found saved {self.saved_s:.3g} s; trying it cost {self.probing_s:.3g} s in "
            f"{count(sum(use.probes for use in self.uses), 'epoch')}.",
            "",
            f"{'trial':>6} {self.metrics.main:>12} {'seconds':>9} {'joules':>9} {'probes':>7} {'saved s':>8}  setting",
        ]
        best = set(self.front)
        return "\n".join([*lines, *(self._line(use, use.trial in best) for use in self.uses)])

    def _line(self, use: Use, on_front: bool) -> str:
        value = self.values.get(use.trial)
        told = [
            f"{use.trial:>5}{'*' if on_front else ' '}",
            f"{value:>12.5g}" if value is not None else f"{'-':>12}",
            f"{use.seconds:>9.4g}",
            f"{use.energy.joules:>9.4g}" if use.energy.joules is not None else f"{'-':>9}",
            f"{use.probes:>7}",
            f"{use.saved_s:>8.3g}" if use.saved_s is not None else f"{'-':>8}",
            f" {_said(use.setting)}",
        ]
        return " ".join(told)


def _said(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in setting.items()) or "as it was"


def quickest(history: History, near: Sequence[int], *, by: str) -> int | None:
    """Return the trial among several that took least; None if nobody knows what they took.

    Args:
        history: The study.
        near: Numbers of trials.
        by: ``"time"`` or ``"energy"``.
    """
    took = {use.trial: use.seconds if by == "time" else use.energy.joules for use in uses_of(history.tuned)}
    known = {trial: amount for trial in near if (amount := took.get(trial)) is not None}
    return min(known, key=known.__getitem__, default=None)
