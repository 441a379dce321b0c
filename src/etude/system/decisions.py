"""What was decided on each epoch of the trials whose machines were tuned, and what came of it: from facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.core.events import Tuned
from etude.core.system import Phase, Setting
from etude.system.energy import Energy, as_energy
from etude.system.uses import Facts

FIRST: Final = "the first epoch shows what kind of work it is"
AT_BEGIN: Final = "so it was set when the attempt began"
"""Why an attempt's first epoch is as it is: no epoch came before it whose fact could say so."""


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
    return [_decided(facts, nth) for _, facts in sorted(tuned.items()) for nth in range(len(facts))]


def _decided(facts: Sequence[Tuned], nth: int) -> Decided:
    fact = facts[nth]
    taken = fact.taken
    why, evidence = _reason(facts, nth)
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
        why,
        evidence,
    )


def _reason(facts: Sequence[Tuned], nth: int) -> tuple[str, dict[str, float]]:
    """Return why an epoch was set as it was: the newest order before it that says so, since orders may come late."""
    taken = facts[nth].taken
    for before in reversed(facts[:nth]):
        order = before.order
        if (order.setting, order.phase) == (taken.setting, taken.phase):
            return order.why, dict(order.evidence)
    return (FIRST if taken.phase is Phase.PROFILE else AT_BEGIN), {}
