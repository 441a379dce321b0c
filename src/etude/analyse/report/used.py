"""What a report knows of machines that were tuned: plain data, a part of ``facts``.

No energy is told without the word on how it is known, so it is always a whole ``Joules``.
"""

from __future__ import annotations

import msgspec

from etude.core.system import Joules, Setting


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial took of its machine.

    Attributes:
        trial: Its number.
        value: The study's main metric, if it finished.
        seconds: How long its epochs took.
        energy: What they took of energy.
        epochs: How many there were.
        probes: How many of them tried something.
        saved_s: Seconds that settings which were kept saved; None if nobody knows.
        probing_s: Seconds that trying cost; below 0 if it saved some; likewise.
        saved_j: Joules that settings which were kept saved, known as ``energy`` is; None if nobody knows.
        probing_j: Joules that trying cost; likewise.
        setting: The setting of the last epoch.
        on_front: Whether it is on the Pareto front.
    """

    trial: int
    value: float | None
    seconds: float
    energy: Joules
    epochs: int
    probes: int
    saved_s: float | None
    probing_s: float | None
    setting: Setting
    on_front: bool
    saved_j: float | None = None
    probing_j: float | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How the machine was set for an epoch, and why.

    Attributes:
        trial: The trial.
        attempt: Which attempt of it.
        epoch: Which epoch, from 0.
        phase: What the epoch was for: ``profile``, ``baseline``, ``reuse``, ``probe``, ``keep`` or ``default``.
        setting: The setting.
        step_s: Seconds a step.
        energy: What the epoch took of energy.
        why: Why it was set so, in a sentence.
        evidence: The numbers behind it, by name.
    """

    trial: int
    attempt: int
    epoch: int
    phase: str
    setting: Setting
    step_s: float
    energy: Joules
    why: str
    evidence: dict[str, float]


class Machines(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a study.

    Attributes:
        says: What all of it came to, in sentences.
        used: What each trial took.
        front_of: What the Pareto front is of: the metric, time, and energy where it is known.
        decisions: What was decided on each epoch.
        shown: The trial whose decisions stand on the page.
    """

    says: list[str]
    used: list[Used]
    front_of: list[str]
    decisions: list[Decision]
    shown: int
