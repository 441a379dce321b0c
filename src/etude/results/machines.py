"""The machines of a study beside what it was for: time, energy and the metric of each trial, and what tuning saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etude.core.history import History, Trial
from etude.core.metrics import Metrics
from etude.core.ranking import best_of, ranked
from etude.core.system import WITHIN, Setting
from etude.core.text import count
from etude.system.decisions import Decided, decided_in
from etude.system.energy import STRENGTH, UNSURE, Energy, Label, total
from etude.system.uses import Use, front, uses_of


@dataclass(frozen=True)
class Machines:
    """What the trials of a study took of their machines. Print it.

    Attributes:
        uses: One for each trial whose machine was tuned.
        decided: What was decided on each of their epochs, with its reason and its evidence.
        values: Trial -> its value of the study's main metric, of those that finished.
        metrics: What the study measures.
        given: The setting of all trials, where the call gave one and nothing was tuned; or else empty.
    """

    uses: tuple[Use, ...]
    decided: tuple[Decided, ...]
    values: Mapping[int, float]
    metrics: Metrics
    given: Setting = field(default_factory=dict)

    @classmethod
    def of(cls, history: History, meta: Mapping[str, Any] | None = None) -> Machines:
        """Return those of a study.

        Args:
            history: The study.
            meta: What was recorded about it.
        """
        values = {trial.number: trial.value for trial in history.finished if trial.value is not None}
        uses, decided = tuple(uses_of(history.tuned)), tuple(decided_in(history.tuned))
        return cls(uses, decided, values, history.metrics, given_in(meta or {}))

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
        known = "energy" in self.front_of
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

    @property
    def front_of(self) -> list[str]:
        """What the front is of: the metric, time, and energy where that of all trials is known."""
        known = all(use.energy.joules is not None for use in self.uses)
        return [self.metrics.main, "time", *(["energy"] if known else [])]

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
                "saved_j": use.saved_j,
                "probing_j": use.probing_j,
                "setting": dict(use.setting),
                "on_front": use.trial in best,
            }
            for use in self.uses
        ]

    @property
    def says(self) -> list[str]:
        """What all of it came to, in sentences; none if no machine was tuned."""
        if not self.uses:
            return []
        probes = sum(use.probes for use in self.uses)
        if not any(one.setting for one in self.decided):
            found = "Every epoch was trained as the training function has it."
        elif all(use.saved_s is None for use in self.uses):
            found = "What was saved is not known, since no epoch shows what the default takes."
        else:
            tried = f"; trying it {_cost(self.probing_s)} in {count(probes, 'epoch')}" if probes else ""
            found = f"What was found {_saved(self.saved_s)}{tried}."
        return [*self._sums(found), *self._saved_energy()]

    def _sums(self, found: str) -> list[str]:
        return [
            f"{count(sum(use.epochs for use in self.uses), 'epoch')} of {count(len(self.uses), 'trial')} took "
            f"{self.seconds:.4g} s and {self.energy}.",
            found,
        ]

    def _saved_energy(self) -> Iterator[str]:
        """Say what was saved of energy, and what trying cost of it, where that is known."""
        known = [use for use in self.uses if use.saved_j is not None and use.probing_j is not None]
        saved_j, probing_j = (sum(getattr(use, name) for use in known) for name in ("saved_j", "probing_j"))
        if not saved_j and not probing_j:
            return
        label = max((use.energy.label for use in known), key=STRENGTH.index)
        found = f"saved {_joules(saved_j, label)}" if saved_j >= 0 else f"cost {_joules(-saved_j, label)}"
        tried = f"cost {_joules(probing_j, label)}" if probing_j >= 0 else f"saved {_joules(-probing_j, label)}"
        yield f"Of energy, what was found {found}; trying it {tried}."

    def __str__(self) -> str:
        if not self.uses and self.given:
            return f"No machine was tuned in this study: it was set for all trials as was said, {said(self.given)}."
        if not self.uses:
            return "No machine was tuned in this study: pass system=True."
        head = (
            f"{'trial':>6} {self.metrics.main:>12} {'seconds':>9} {'probes':>7} {'saved s':>8}  {'energy':<22} setting"
        )
        best = set(self.front)
        lines = [self._line(use, use.trial in best) for use in self.uses]
        marked = [f"* on the Pareto front of {', '.join(self.front_of)}"] if best else []
        return "\n".join([*self.says, "", head, *lines, *marked])

    def _line(self, use: Use, on_front: bool) -> str:
        value = self.values.get(use.trial)
        told = [
            f"{use.trial:>5}{'*' if on_front else ' '}",
            f"{value:>12.5g}" if value is not None else f"{'-':>12}",
            f"{use.seconds:>9.4g}",
            f"{use.probes:>7}",
            f"{use.saved_s:>8.3g}" if use.saved_s is not None else f"{'-':>8}",
            f" {labelled(use.energy):<22}",
            said(use.setting),
        ]
        return " ".join(told)


def said(setting: Mapping[str, Any]) -> str:
    """Return a setting as people read it.

    Example:
        >>> said({"threads": 2, "loader_workers": 1}), said({})
        ('threads=2, loader_workers=1', 'as it was')
    """
    return ", ".join(f"{name}={value!r}" for name, value in setting.items()) or "as it was"


def labelled(energy: Energy) -> str:
    """Return an energy in the few letters of a table, with its label.

    Example:
        >>> labelled(Energy.modelled(40, "CPU seconds x 15 W")), labelled(Energy.unavailable("no meter"))
        ('40 J modelled', 'unavailable')
    """
    return f"{energy.joules:.4g} J {energy.label}" if energy.joules is not None else energy.label.value


def tuned_line(history: History, best: Trial | None) -> str:
    """Return what a summary says of machines: what was saved, and how the best trial's was set at last.

    Args:
        history: A study whose machines were tuned.
        best: Its best trial, if it has one.
    """
    machines = Machines.of(history)
    told = machines.says[1][:1].lower() + machines.says[1][1:]
    use = next((use for use in machines.uses if best is not None and use.trial == best.number), None)
    if use is None:
        return f"Machines: {told}"
    ended = f"; trial {use.trial} ended with {said(use.setting)}" if use.setting else ""
    return f"Machines: {told.removesuffix('.')}{ended}."


def chosen(history: History, meta: Mapping[str, Any]) -> Trial | None:
    """Return the best trial: of those that come near the best value the one that took least, if that was asked for.

    Args:
        history: The study.
        meta: What was recorded about it.
    """
    asked = (meta.get("call") or {}).get("system") or {}
    finished = list(history.finished)
    best = best_of(finished, history.metrics)
    by = str(asked.get("best", "")).partition(", then ")[2]
    if best is None or best.value is None or not by:
        return best
    rank = history.metrics.rank
    bound = rank(best.value)[1] + asked.get("within", WITHIN) * abs(best.value)
    near = [trial.number for trial in ranked(finished, history.metrics) if rank(trial.value) <= (False, bound)]
    number = quickest(history, near, by=by)
    return best if number is None else history.trials[number]


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


def given_in(meta: Mapping[str, Any]) -> Setting:
    """Return the setting that the call of a study gave for all of its trials; empty if it gave none."""
    return dict(((meta.get("call") or {}).get("system") or {}).get("setting") or {})


def _joules(joules: float, label: Label) -> str:
    """Return a difference of energies, which is known no better than they are."""
    sure = f"{joules:.3g} J {label}"
    around = f" ({(1 - UNSURE) * joules:.3g} to {(1 + UNSURE) * joules:.3g})"
    return f"about {sure}{around}" if label is Label.MODELLED else sure


def _saved(seconds: float) -> str:
    return f"saved {seconds:.3g} s" if seconds >= 0 else f"took {-seconds:.3g} s more than the default would have"


def _cost(seconds: float) -> str:
    return f"cost {seconds:.3g} s" if seconds >= 0 else f"saved another {-seconds:.3g} s"
