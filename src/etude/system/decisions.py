"""What was decided on each epoch of the trials whose machines were tuned, and what came of it: from facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from etude.core.events import Tuned
from etude.core.system import Phase, Setting
from etude.system.energy import Energy, as_energy
from etude.system.uses import Facts


@dataclass(frozen=True)
class Decided:
    """An epoch: how the machine was set for it and why, and what it took.

    Attributes:
        trial: The trial.
        attempt: Which attempt of it.
        machine: Where it ran.
        epoch: Which it was, from 0.
        phase: What it was for.
        setting: Its setting; empty for the default.
        seconds: How long it took.
        steps: How many steps it had.
        energy: What it took of energy.
        cut_s: Seconds after which the setting was given up, since it was clearly worse; None if it was not.
        why: Why it was set so, in a sentence.
        evidence: The numbers behind it, by name.
    """

    trial: int
    attempt: int
    machine: str
    epoch: int
    phase: Phase
    setting: Setting
    seconds: float
    steps: int
    energy: Energy
    cut_s: float | None
    why: str
    evidence: dict[str, float]

    @property
    def step_s(self) -> float:
        """Seconds a step."""
        return self.seconds / self.steps

    def row(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "trial": self.trial,
            "attempt": self.attempt,
            "machine": self.machine,
            "epoch": self.epoch,
            "phase": self.phase.value,
            "setting": dict(self.setting),
            "seconds": self.seconds,
            "steps": self.steps,
            "joules": self.energy.joules,
            "energy": self.energy.label.value,
            "cut_s": self.cut_s,
            "why": self.why,
            "evidence": dict(self.evidence),
        }


def decided_in(tuned: Facts) -> list[Decided]:
    """Return what was decided on each epoch, by trial and in order."""
    return [_decided(fact) for _, facts in sorted(tuned.items()) for fact in facts]


def _decided(fact: Tuned) -> Decided:
    taken = fact.taken
    return Decided(
        fact.trial,
        fact.attempt,
        fact.machine,
        taken.epoch,
        taken.phase,
        dict(taken.setting),
        taken.seconds,
        taken.steps,
        as_energy(taken.joules),
        taken.cut[0] if taken.cut is not None else None,
        taken.why,
        dict(taken.evidence),
    )
